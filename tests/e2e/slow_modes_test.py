"""A checkpoint of any tensor or sequence mode is a Hugging Face folder, and goes on at any other mode: for every pair,
transformers computes with it what it computes with that of the serial run. Sizes divide by no number of ranks."""
import itertools
import shutil
import unittest

import torch
from transformers import AutoModelForCausalLM

from harness import EndToEndTest

MODELS = {
    "gpt2-tiny": ["--model.n_layer=2", "--model.n_embd=72", "--model.n_head=6", "--model.vocab_size=997",
                  "--model.n_positions=50"],
    "llama-tiny": ["--model.num_hidden_layers=2", "--model.hidden_size=72", "--model.head_dim=12",
                   "--model.num_attention_heads=6", "--model.num_key_value_heads=2",
                   "--model.intermediate_size=190", "--model.vocab_size=997",
                   "--model.max_position_embeddings=50"],
}
MODES = {
    "1d": dict(tp=3),
    "1d-whole": dict(tp=4, tp_sequence="false"),
    "2d": dict(tp=4, tp_mode="2d"),
    "2.5d": dict(tp=8, tp_mode="2.5d", tp_depth=2),
    "3d": dict(tp=8, tp_mode="3d"),
    "ring": dict(sp=3),
    "ulysses": dict(sp=3, sp_mode="ulysses"),
}


class CheckpointsOfModes(EndToEndTest):
    def test_gpt2(self):
        self.check_pairs("gpt2-tiny")

    def test_llama(self):
        self.check_pairs("llama-tiny")

    def check_pairs(self, preset):
        self.use(preset)
        self.model_flags = MODELS[preset]
        expected = {steps: self.logits(self.train_to(f"serial-{steps}", steps)) for steps in (2, 4)}
        # What is compared below is more than rounding.
        self.assertGreater((expected[4] - expected[2]).abs().max(), 0.1)
        for name, mode in MODES.items():
            self.check(name, self.train_to(name, 2, mode), expected[2])
        for saved, loaded in itertools.permutations(MODES, 2):
            name = f"{saved}-to-{loaded}"
            shutil.copytree(self.directory / saved / "checkpoints", self.directory / name / "checkpoints")
            self.check(name, self.train_to(name, 4, MODES[loaded], resume="must"), expected[4])
            shutil.rmtree(self.directory / name)

    def train_to(self, name, steps, mode={}, resume="never"):
        """Its checkpoint. In fp64: AdamW divides gradients by their own size, and rounding would count."""
        layout = [f"--parallel.{key}={value}" for key, value in mode.items()]
        self.train(*self.flags(name), *layout, f"--train.steps={steps}", f"--checkpoint.resume={resume}",
                   "--data.sequence_length=50", "--train.global_batch=5", "--precision.compute=fp64",
                   "--optimizer.learning_rate=1e-2",
                   ranks=mode.get("tp", 1) * mode.get("sp", 1))
        return self.newest(name)

    def logits(self, folder):
        model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float64)
        with torch.no_grad():
            return model(torch.arange(100).remainder(7).mul(41).view(2, 50)).logits

    def check(self, name, folder, expected):
        with self.subTest(name):
            self.assertLessEqual((self.logits(folder) - expected).abs().max(), 1e-6)


if __name__ == "__main__":
    unittest.main()
