"""The examples of tuning learn what they say: by a program's rewards, by preferences in three steps, from a teacher."""
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

from harness import COLOSSAL, ROOT

PROMPT = "What is two and three? "
POLITE = "if you please."


class TuningExamples(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.directory = pathlib.Path(tempfile.mkdtemp(prefix="colossal-test-"))
        cls.addClassCleanup(shutil.rmtree, cls.directory, ignore_errors=True)
        (cls.directory / "examples").symlink_to(ROOT / "examples")
        cls.run_here(sys.executable, "examples/tuning/make_data.py", "runs/tuning/data")
        cls.tune("sft", "run", "sft", "--tune.epochs=4")

    @classmethod
    def run_here(cls, *command):
        done = subprocess.run(command, cwd=cls.directory, capture_output=True, text=True, timeout=900)
        if done.returncode != 0:
            raise AssertionError(f"{command}: {done.stderr}")
        return done.stdout

    @classmethod
    def tune(cls, method, toml, folder, *flags):
        """Returns the metrics of each step."""
        run = f"runs/tuning/{folder}"
        cls.run_here(COLOSSAL, "tune", method, f"examples/tuning/{toml}.toml", f"--checkpoint.directory={run}",
                     f"--log.directory={run}", "--log.report=false", *flags)
        return [json.loads(line) for line in (cls.directory / run / "metrics.jsonl").read_text().splitlines()]

    def answer(self, folder):
        step = sorted((self.directory / "runs/tuning" / folder).glob("step-*"))[-1]
        return self.run_here(COLOSSAL, "generate", step, f"--prompt={PROMPT}", "--max-new-tokens=40", "--temperature=0")

    def mean(self, steps, metric):
        return sum(step[metric] for step in steps) / len(steps)

    def test_by_rewards(self):
        for method in "grpo", "rloo":
            with self.subTest(method):
                steps = self.tune(method, "rewarded", method)
                self.assertLess(steps[0]["reward"], 0.8)
                self.assertGreater(self.mean(steps[-5:], "reward"), 0.9)
                self.assertIn(POLITE, self.answer(method))

    def test_by_preferences_in_three_steps(self):
        rewarding = self.tune("reward", "align", "reward")
        self.assertGreater(self.mean(rewarding[-5:], "accuracy"), 0.98)
        steps = self.tune("ppo", "rlhf", "ppo")
        self.assertGreater(self.mean(steps[-5:], "reward"), steps[0]["reward"] + 2)
        self.assertIn(POLITE, self.answer("ppo"))

    def test_from_a_larger_model(self):
        self.tune("dpo", "align", "dpo")
        self.tune("sft", "run", "small", "--model.n_layer=2")
        steps = self.tune("distill", "distill", "distilled")
        self.assertLess(self.mean(steps[-5:], "loss"), steps[0]["loss"] / 2)
        self.assertIn(POLITE, self.answer("distilled"))


if __name__ == "__main__":
    unittest.main()
