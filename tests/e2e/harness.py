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
TINY = ["--model.n_layer=2", "--model.n_embd=32", "--model.n_head=2", "--model.vocab_size=257",
        "--model.n_positions=64", "--data.sequence_length=32", "--train.global_batch=12",
        "--scheduler.name=constant", "--train.threads=1"]


class EndToEndTest(unittest.TestCase):
    def setUp(self):
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix="colossal-test-"))
        self.addCleanup(shutil.rmtree, self.directory, ignore_errors=True)
        self.toml = self.directory / "run.toml"
        self.toml.write_text(f'[model]\npreset = "gpt2-tiny"\n[data]\ntrain = ["{CORPUS}"]\n')

    def flags(self, name="run", checkpoints=True):
        """Where a run writes: its log folder is `name`."""
        flags = list(TINY) + [f"--log.directory={self.directory / name}"]
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
