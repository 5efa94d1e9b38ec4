"""Runs build/colossal as a user would, for the tests of this folder."""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("COLOSSAL_BUILD", ROOT / "build"))
COLOSSAL = BUILD / "colossal"
SHIM = BUILD / "libcrash_shim.so"
STDLIB = sysconfig.get_path("stdlib")
CORPUS = f"{STDLIB}/json/*.py"

# Small and quick: the tests are about what happens, not about what is learnt.
TINY = ["--data.sequence_length=32", "--train.global_batch=12", "--scheduler.name=constant",
        "--train.threads=1"]
TINY_MODELS = {
    "gpt2-tiny": ["--model.n_layer=2", "--model.n_embd=32", "--model.n_head=2",
                  "--model.vocab_size=257", "--model.n_positions=64"],
    "llama-tiny": ["--model.num_hidden_layers=2", "--model.hidden_size=48", "--model.head_dim=8",
                   "--model.num_attention_heads=6", "--model.num_key_value_heads=2",
                   "--model.intermediate_size=50", "--model.vocab_size=257",
                   "--model.max_position_embeddings=64"],
    "bert-tiny": ["--model.hidden_size=32", "--model.num_attention_heads=4", "--model.intermediate_size=50",
                  "--model.vocab_size=258", "--model.max_position_embeddings=64"],
    "t5-tiny": ["--model.d_model=32", "--model.d_kv=8", "--model.num_heads=4", "--model.d_ff=50",
                "--model.vocab_size=258", "--model.n_positions=64"],
    "bart-tiny": ["--model.d_model=32", "--model.encoder_attention_heads=4", "--model.decoder_attention_heads=4",
                  "--model.encoder_ffn_dim=50", "--model.decoder_ffn_dim=50", "--model.vocab_size=258",
                  "--model.max_position_embeddings=64"],
}

# All of the four kinds on NVMe; --memory.nvme_path says where.
NVME = [f"--memory.offload_{kind}=nvme"
        for kind in ("parameters", "gradients", "optimizer", "activations")]


class EndToEndTest(unittest.TestCase):
    def setUp(self):
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix="colossal-test-"))
        self.addCleanup(shutil.rmtree, self.directory, ignore_errors=True)
        self.toml = self.directory / "run.toml"
        self.use("gpt2-tiny")

    def use(self, preset):
        """Runs from here on train this model, made small."""
        self.model_flags = TINY_MODELS[preset]
        self.toml.write_text(f'[model]\npreset = "{preset}"\n[data]\ntrain = ["{CORPUS}"]\n')

    def use_folder(self, folder):
        """... go on from the weights in a Hugging Face folder."""
        self.model_flags = []
        self.toml.write_text(f'[model]\npath = "{folder}"\n[data]\ntrain = ["{CORPUS}"]\n')

    def need_root(self, what):
        if os.geteuid() != 0:
            self.skipTest(f"{what}, which needs root")

    def mount_small(self, name, size):
        """A file system in memory that is soon full."""
        self.need_root("mounts a file system")
        folder = self.directory / name
        folder.mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", folder], check=True)
        self.addCleanup(subprocess.run, ["umount", folder], check=True)
        return folder

    def flags(self, name="run", checkpoints=True):
        """Where a run writes: its log folder is `name`."""
        flags = TINY + self.model_flags + [f"--log.directory={self.directory / name}"]
        if checkpoints:
            flags.append(f"--checkpoint.directory={self.directory / name / 'checkpoints'}")
        return flags

    def command(self, *flags, ranks=1):
        return [str(COLOSSAL), "train", str(self.toml), f"--ranks={ranks}", *map(str, flags)]

    def train(self, *flags, ranks=1, expect=0, timeout=120, **kwargs):
        """Returns what it wrote to stderr; fails the test when the exit code is another."""
        done = subprocess.run(self.command(*flags, ranks=ranks), capture_output=True, text=True,
                              timeout=timeout, **kwargs)
        self.assertEqual(done.returncode, expect, done.stdout + done.stderr)
        return done.stderr

    def metrics(self, name="run"):
        """step -> its last line."""
        with open(self.directory / name / "metrics.jsonl") as lines:
            return {line["step"]: line for line in map(json.loads, lines)}

    def losses(self, name="run"):
        return {step: line["loss"] for step, line in self.metrics(name).items()}

    def weights(self, checkpoint):
        from safetensors.torch import load_file
        tensors = {}
        for file in sorted(pathlib.Path(checkpoint).glob("**/*.safetensors")):
            tensors.update(load_file(file))
        return tensors

    def newest(self, name="run"):
        found = sorted((self.directory / name / "checkpoints").glob("step-*"))
        self.assertTrue(found, f"no checkpoint of {name}")
        return found[-1]

    def assert_same_weights(self, a, b):
        import torch
        a, b = self.weights(a), self.weights(b)
        self.assertEqual(a.keys(), b.keys())
        for name in a:
            self.assertTrue(torch.equal(a[name], b[name]), name)


if __name__ == "__main__":
    sys.exit("run the tests beside this file")
