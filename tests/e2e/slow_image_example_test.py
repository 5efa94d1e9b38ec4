"""The example of images: it learns what it says that it learns."""
import json
import subprocess
import sys
import unittest

from harness import COLOSSAL, ROOT, EndToEndTest


class ImageExample(EndToEndTest):
    def run_in_folder(self, *command):
        done = subprocess.run(list(map(str, command)), cwd=self.directory, capture_output=True, text=True, timeout=900)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout

    def test_shapes_are_told_apart(self):
        example = ROOT / "examples" / "images"
        self.run_in_folder(sys.executable, example / "make_data.py", "shapes", "runs/shapes/data")
        self.run_in_folder(COLOSSAL, "tune", "classify", example / "shapes.toml")
        found = self.run_in_folder(COLOSSAL, "classify", "runs/shapes/checkpoints/step-000900", "--input=runs/shapes/data/test",
                                   "--output=labelled.jsonl", "--json")
        self.assertGreaterEqual(json.loads(found)["accuracy"], 0.97)
        report = (self.directory / "runs" / "shapes" / "run" / "report.html").read_text()
        self.assertEqual(report.count("<img alt"), 24)

    def test_texts_are_found_for_drawings(self):
        example = ROOT / "examples" / "images"
        self.run_in_folder(sys.executable, example / "make_data.py", "pairs", "runs/pairs/data")
        self.run_in_folder(COLOSSAL, "train", example / "pairs.toml")
        found = self.run_in_folder(COLOSSAL, "classify", "runs/pairs/checkpoints/step-000900", "--input=runs/pairs/data/kinds.jsonl",
                                   "--output=chosen.jsonl", "--json")
        self.assertGreaterEqual(json.loads(found)["accuracy"], 0.97)
        self.assertEqual(len(json.loads((self.directory / "chosen.jsonl").read_text().splitlines()[0])["probabilities"]), 36)
        report = (self.directory / "runs" / "pairs" / "run" / "report.html").read_text()
        self.assertEqual(report.count("<img alt"), 24)


if __name__ == "__main__":
    unittest.main()
