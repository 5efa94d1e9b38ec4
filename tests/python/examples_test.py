"""The programs of examples/python do what their comments say, on two ranks."""
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

import torch
from transformers import AutoModelForCausalLM, AutoModelForSequenceClassification, utils

EXAMPLES = pathlib.Path(__file__).resolve().parents[2] / "examples/python"
sys.path.insert(0, str(EXAMPLES))

from passages import LabelledPassages, Passages  # noqa: E402


def loss_of(folder, rows):
    """Of a saved model, in one process and without the engine."""
    model = AutoModelForCausalLM.from_pretrained(folder)
    batch = torch.stack([row["input_ids"] for row in rows])
    with torch.no_grad():
        return model(input_ids=batch, labels=batch).loss.item()


class Examples(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.directory = pathlib.Path(temporary.name)

    def run_example(self, name, *options, ranks=2):
        launcher = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={ranks}"] if ranks > 1 else []
        done = subprocess.run([sys.executable, *launcher, EXAMPLES / name, "--directory", self.directory, *map(str, options)], env=os.environ,
                              capture_output=True, text=True, timeout=300)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout + done.stderr

    def steps(self, output):
        """The losses that a program has printed, by step."""
        return {int(step): float(loss) for step, loss in re.findall(r"^step (\d+) loss ([\d.]+)", output, re.MULTILINE)}

    def evaluation_loss(self, output):
        return float(re.search(r"evaluation loss ([\d.]+)", output)[1])

    def test_plain_loop_goes_on_and_gathers(self):
        before = self.steps(self.run_example("plain_loop.py", "--zero=3", "--steps=16"))
        output = self.run_example("plain_loop.py", "--zero=1", "--steps=24")
        after = self.steps(output)
        self.assertEqual((list(before), list(after)), (list(range(16)), list(range(16, 24))))
        self.assertGreater(before[0], 5.4)  # ln 256 = 5.545: it knows nothing
        self.assertLess(before[15], 3.8)
        self.assertLess(after[16], before[0] - 1.5)
        self.assertLess(after[23], 3.4)
        passages = Passages(64)
        self.assertAlmostEqual(loss_of(self.directory / "model", [passages[index] for index in range(8)]), self.evaluation_loss(output),
                               delta=1e-3)
        self.assertEqual(sorted(path.name for path in (self.directory / "checkpoints").glob("step-*")), ["step-000016", "step-000024"])

    def test_a_function_rewards(self):
        output = self.run_example("reward.py", "--steps=30", ranks=1)
        rewards = [float(reward) for reward in re.findall(r"^step \d+ reward ([\d.]+)", output, re.MULTILINE)]
        self.assertEqual(len(rewards), 30)
        self.assertLess(rewards[0], 0.3)
        self.assertGreater(sum(rewards[-5:]) / 5, 0.9)
        folder = re.search(r"the adapter is in (\S+)", output)[1]
        self.assertEqual(json.loads((pathlib.Path(folder) / "adapter_config.json").read_text())["peft_type"], "LORA")

    def test_trainer_goes_on(self):
        first = self.evaluation_loss(self.run_example("trainer.py", "--zero=3", "--steps=10"))
        output = self.run_example("trainer.py", "--zero=1", "--steps=20", "--resume")
        second = self.evaluation_loss(output)
        self.assertLess(first, 5.0)
        self.assertLess(second, first)
        rows = Passages(64, ("Artistic",))
        self.assertAlmostEqual(loss_of(self.directory / "model", rows), second, delta=0.02)
        self.assertTrue((self.directory / "checkpoint-20/engine").is_dir())

    def test_gpt2_learns(self):
        for plugin in ("gemini", "hybrid_parallel"):
            with self.subTest(plugin):
                accuracy = float(re.search(r"accuracy ([\d.]+)", self.run_example("gpt2_colossalai.py", f"--plugin={plugin}"))[1])
                self.assertGreater(accuracy, 0.85)  # 0.5 by chance
        model = AutoModelForSequenceClassification.from_pretrained(self.directory / "model")
        rows = LabelledPassages(64, "test")
        labels = torch.tensor([row["labels"] for row in rows])
        with torch.no_grad():
            found = model(input_ids=torch.stack([row["input_ids"] for row in rows])).logits.argmax(-1)
        self.assertAlmostEqual((found == labels).float().mean().item(), accuracy, delta=0.02)

    def test_llama_goes_on_at_another_plugin(self):
        before = self.steps(self.run_example("llama_colossalai.py", "--plugin=gemini", "--steps=16"))
        output = self.run_example("llama_colossalai.py", "--plugin=zero2", "--steps=8", f"--load={self.directory}")
        after = self.steps(output)
        self.assertEqual(list(after), list(range(16, 24)))
        self.assertGreater(before[0], 5.4)
        self.assertLess(after[16], before[0] - 1.5)
        self.assertLess(after[23], 3.6)
        self.assertIn("LazyInitContext has no effect here", output)
        self.assertLess(loss_of(self.directory / "model", [Passages(64)[index] for index in range(8)]), before[15])


if __name__ == "__main__":
    utils.logging.disable_progress_bar()
    unittest.main()
