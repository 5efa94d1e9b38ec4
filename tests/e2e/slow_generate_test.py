"""A model larger than the memory that generation takes: its weights rest on NVMe."""
import pathlib
import re
import shutil
import subprocess
import time
import unittest

import torch
from transformers import LlamaConfig, LlamaForCausalLM

from harness import COLOSSAL, EndToEndTest

MIB = 1 << 20


class LargerThanMemory(EndToEndTest):
    def write_model(self, megabytes):
        """Many layers, so that few of them are here at once, and a small vocabulary."""
        self.train(*self.flags(), "--train.steps=1")
        folder = self.directory / "model"
        flags = pathlib.Path("/proc/cpuinfo").read_text()
        computes_bf16 = "avx512_bf16" in flags or "amx_bf16" in flags
        layer = 4 * 512 * 512 + 3 * 512 * 1376
        torch.manual_seed(0)
        model = LlamaForCausalLM(LlamaConfig(
            vocab_size=257, hidden_size=512, intermediate_size=1376, num_attention_heads=8,
            num_hidden_layers=megabytes * 10**6 // (layer * (2 if computes_bf16 else 4)),
            max_position_embeddings=256, eos_token_id=256, initializer_range=0.05))
        if computes_bf16:
            model = model.to(torch.bfloat16)
        model.save_pretrained(folder, max_shard_size="200MB")
        for name in ("tokenizer.json", "tokenizer_config.json"):
            shutil.copy(self.newest() / name, folder)
        return folder, sum(weight.nbytes for weight in model.parameters())

    def generate(self, folder, *flags):
        """The text, what was said on stderr, and the most memory that it took."""
        process = subprocess.Popen(
            [COLOSSAL, "generate", folder, "--prompt=def main(", "--max-new-tokens=16", *flags],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        peak = 0
        status = pathlib.Path(f"/proc/{process.pid}/status")
        while process.poll() is None:
            found = re.search(r"VmHWM:\s+(\d+) kB", status.read_text())
            peak = int(found[1]) * 1024 if found else peak
            time.sleep(0.02)
        text, said = process.communicate()
        self.assertEqual(process.returncode, 0, said)
        return text, said.decode(), peak

    def test_takes_less_than_half_of_its_weights(self):
        folder, weights = self.write_model(500)
        expected, said, whole = self.generate(folder)
        self.assertEqual(said, "")
        self.assertGreater(whole, weights)
        text, said, peak = self.generate(folder, "--memory.offload_parameters=nvme",
                                         f"--memory.nvme_path={self.directory}")
        self.assertEqual(text, expected)
        self.assertGreater(len(set(text)), 10)
        self.assertIn(f"on nvme in {self.directory}", said)
        self.assertEqual(len(said.splitlines()), 1)
        self.assertLess(peak, weights / 2)
        print(f"{weights / MIB:.0f} MiB of weights: {whole / MIB:.0f} MiB whole, {peak / MIB:.0f} MiB on nvme")
        # In parts too.
        self.assertEqual(self.generate(folder, "--memory.offload_parameters={host = 0.5, nvme = 0.3}",
                                       f"--memory.nvme_path={self.directory}")[0], expected)


if __name__ == "__main__":
    unittest.main()
