"""More forms of folders with weights in few bits, and a head that guesses tokens of the model there."""
import json
import pathlib
import re
import unittest

from harness import STDLIB
from quantized_folders import QuantizedFolderTest


class SlowQuantizeFolder(QuantizedFolderTest):
    def test_what_is_written_is_read_as_its_form_is_published(self):
        for name, flags, bits in (("symmetric", ["--quantize=int4", "--symmetric", *self.calibrated("gptq")], 4),
                                  ("int8", ["--quantize=int8", *self.calibrated("awq")], 8)):
            with self.subTest(name):
                self.check_form(name, flags, bits)

    def test_a_head_guesses_what_the_model_says(self):
        lines = self.root / "lines.jsonl"
        with open(lines, "w") as file:
            for path in sorted(pathlib.Path(STDLIB, "json").glob("*.py")):
                text = path.read_text()
                for begin in range(0, len(text), 500):
                    file.write(json.dumps({"text": text[begin:begin + 500]}) + "\n")
        toml = self.root / "head.toml"
        toml.write_text(f'[model]\npath = "{self.model}"\n[data]\ntrain = ["{lines}"]\nsequence_length = 128\n')
        self.call("tune", "draft_head", toml, "--train.steps=150", "--train.global_batch=16", "--precision.compute=fp32",
                  "--optimizer.learning_rate=5e-3", "--train.threads=2", f"--log.directory={self.root / 'head-log'}",
                  f"--checkpoint.directory={self.root / 'head'}")
        head = self.root / "head" / "step-000150"
        asked = ["--prompt=def ", "--max-new-tokens=100", "--precision.compute=fp32", "--train.threads=1"]
        for drawn in (["--temperature=0"], ["--temperature=0.8", "--seed=3"]):
            plain = self.call("generate", self.model, *asked, *drawn)
            guessed = self.call("generate", self.model, *asked, *drawn, "--speculate=eagle", f"--draft={head}")
            self.assertEqual(guessed.stdout, plain.stdout)
            right, made = map(int, re.search(r"(\d+) of (\d+) guessed", guessed.stderr).groups())
            self.assertGreater(right / made, 0.25 if drawn == ["--temperature=0"] else 0.1, guessed.stderr)
        for flags, said in (([f"--draft={head}"], "--speculate=eagle"), (["--speculate=eagle"], "without --draft"),
                            (["--speculate=eagle", f"--draft={self.model}"], "no weights of an EAGLE head")):
            self.assertIn(said, self.call("generate", self.model, *asked, *flags, expect=2).stderr)
        self.assertIn("guesses tokens for another model", self.call("generate", head, *asked, expect=2).stderr)


if __name__ == "__main__":
    unittest.main()
