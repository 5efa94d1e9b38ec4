"""The examples of tuning learn what they say: by a program's rewards, by preferences in three steps, from a teacher."""
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

from harness import COLOSSAL, ROOT

sys.path.insert(0, str(ROOT / "examples/tuning"))
from make_data import NUMBERS  # noqa: E402

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

    def newest(self, folder):
        return sorted((self.directory / "runs/tuning" / folder).glob("step-*"))[-1]

    def answer(self, folder):
        return self.run_here(COLOSSAL, "generate", self.newest(folder), f"--prompt={PROMPT}", "--max-new-tokens=40",
                             "--temperature=0")

    def score(self, folder, temperature):
        """Of all 100 questions: how many answers are polite, and how many polite and right."""
        questions = [(first, second) for first in range(10) for second in range(10)]
        asked, answered = self.directory / "questions.jsonl", self.directory / f"{folder}-{temperature}.jsonl"
        asked.write_text("".join(json.dumps({"prompt": f"What is {NUMBERS[first]} and {NUMBERS[second]}? "}) + "\n"
                                 for first, second in questions))
        self.run_here(COLOSSAL, "generate", self.newest(folder), f"--input={asked}", f"--output={answered}",
                      "--max-new-tokens=40", f"--temperature={temperature}")
        completions = [json.loads(line)["completion"] for line in answered.read_text().splitlines()]
        right = [f"It is {NUMBERS[first + second]}, {POLITE}" for first, second in questions]
        return (sum(POLITE in completion for completion in completions),
                sum(completion.strip() == want for completion, want in zip(completions, right)))

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

    def test_preferences_make_it_better(self):
        """The figures that examples/tuning/README.md gives, with room for other machines."""
        steps = self.tune("dpo", "dpo", "dpo")
        self.assertGreater(self.mean(steps[-5:], "rewards/margins"), 0.5)
        self.assertGreater(self.mean(steps[-5:], "logps/chosen"), steps[0]["logps/chosen"])
        begun, ended = self.score("sft", 1), self.score("dpo", 1)
        self.assertLess(begun[0], 60)
        self.assertGreater(ended[0], 75)
        self.assertGreater(ended[1], begun[1] + 5)
        likeliest = self.score("sft", 0), self.score("dpo", 0)
        self.assertGreaterEqual(likeliest[1][0], 98)
        self.assertGreaterEqual(likeliest[1][1], likeliest[0][1])

    def test_from_a_larger_model(self):
        if not (self.directory / "runs/tuning/dpo").exists():
            self.tune("dpo", "dpo", "dpo")
        self.tune("sft", "run", "small", "--model.n_layer=2")
        steps = self.tune("distill", "distill", "distilled")
        self.assertLess(self.mean(steps[-5:], "loss"), steps[0]["loss"] / 2)
        self.assertIn(POLITE, self.answer("distilled"))


if __name__ == "__main__":
    unittest.main()
