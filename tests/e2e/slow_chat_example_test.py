"""examples/chat makes a chat model from nothing, and each of its steps teaches what it says."""
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

from harness import COLOSSAL, ROOT

sys.path.insert(0, str(ROOT / "examples/chat"))
from make_data import NUMBERS  # noqa: E402

POLITE = "if you please."


class ChatExample(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.directory = pathlib.Path(tempfile.mkdtemp(prefix="colossal-test-"))
        cls.addClassCleanup(shutil.rmtree, cls.directory, ignore_errors=True)
        (cls.directory / "examples").symlink_to(ROOT / "examples")
        cls.run_here(sys.executable, "examples/chat/make_data.py", "runs/chat/data")
        for command, name in ("train", "base"), ("tune sft", "sft"), ("tune dpo", "dpo"):
            cls.run_here(COLOSSAL, *command.split(), f"examples/chat/{name}.toml", "--log.report=false")
        cls.base = cls.directory / "runs/chat/base/step-000200"
        cls.sft = cls.directory / "runs/chat/sft/step-000250"
        cls.adapter = cls.directory / "runs/chat/polite/step-000080"

    @classmethod
    def run_here(cls, *command, **options):
        done = subprocess.run(command, cwd=cls.directory, capture_output=True, text=True, timeout=900, **options)
        if done.returncode != 0:
            raise AssertionError(f"{command}: {done.stderr}")
        return done.stdout

    def answers(self, folder, *flags):
        """The answers to all 100 questions, and the reasons why they ended."""
        asked, answered = self.directory / "asked.jsonl", self.directory / "answered.jsonl"
        asked.write_text("".join(json.dumps({"messages": [{"role": "user", "content": f"What is {first} and {second}?"}]})
                                 + "\n" for first in NUMBERS[:10] for second in NUMBERS[:10]))
        answered.unlink(missing_ok=True)
        self.run_here(COLOSSAL, "generate", folder, f"--input={asked}", f"--output={answered}", "--max-new-tokens=60",
                      *flags)
        lines = [json.loads(line) for line in answered.read_text().splitlines()]
        return [line["completion"] for line in lines], [line["finish_reason"] for line in lines]

    def right(self, answers):
        wanted = [f"It is {NUMBERS[first + second]}" for first in range(10) for second in range(10)]
        return sum(answer.startswith((f"{want}.", f"{want},")) for answer, want in zip(answers, wanted))

    def polite(self, answers):
        return sum(POLITE in answer for answer in answers)

    def test_each_step_teaches_what_it_says(self):
        text = self.run_here(COLOSSAL, "generate", self.base, "--prompt=The sum of two and three is ",
                             "--max-new-tokens=5", "--temperature=0")
        self.assertRegex(text, r"is [a-z]+")
        learned, ended = self.answers(self.sft, "--temperature=1")
        self.assertGreater(ended.count("stop"), 95)  # turns end with the token that the template taught
        self.assertTrue(all("<|im_end|>" not in answer for answer in learned))
        self.assertLess(self.polite(learned), 60)
        preferred, ended = self.answers(self.sft, f"--adapter={self.adapter}", "--temperature=1")
        self.assertGreater(self.polite(preferred), 85)
        self.assertGreater(ended.count("stop"), 95)
        self.assertGreaterEqual(self.right(preferred), self.right(learned) - 5)
        likeliest, _ = self.answers(self.sft, "--temperature=0")
        self.assertGreater(self.right(likeliest), 50)

    def test_the_merged_model_chats_without_flags(self):
        self.run_here(COLOSSAL, "convert", self.sft, "runs/chat/final", f"--merge-adapter={self.adapter}")
        chat = self.run_here(COLOSSAL, "generate", "runs/chat/final", "--chat", "--temperature=0",
                             input="What is two and three?\n")
        self.assertIn(POLITE, chat)
        by_adapter, _ = self.answers(self.sft, f"--adapter={self.adapter}", "--temperature=0")
        merged, _ = self.answers(self.directory / "runs/chat/final", "--temperature=0")
        self.assertGreater(sum(a == b for a, b in zip(by_adapter, merged)), 95)


if __name__ == "__main__":
    unittest.main()
