"""Folders of every family: what a run reads and saves again, at any layout, is what transformers wrote."""
import json
import unittest

import torch
from safetensors import safe_open
from transformers import AutoModelForCausalLM
from transformers.models.auto.configuration_auto import CONFIG_MAPPING

from harness import ROOT, EndToEndTest

BASES = json.loads((ROOT / "tests" / "support" / "families.json").read_text())
# In turns.
LAYOUTS = [(1, []), (2, ["--parallel.tp=2"]), (2, ["--parallel.zero=3"]), (2, ["--parallel.pp=2"])]


def tensors(folder):
    found = {}
    for path in folder.glob("*.safetensors"):
        with safe_open(path, "pt") as file:
            found.update({name: file.get_tensor(name) for name in file.keys()})
    return found


class Families(EndToEndTest):
    def check(self, family, ranks, flags):
        folder = self.directory / family
        torch.manual_seed(1)
        fields = dict(BASES[family], vocab_size=257)
        positions = {"gpt2": "n_positions", "gptj": "n_positions", "bloom": "seq_length"}
        fields[positions.get(family, "max_position_embeddings")] = 32
        AutoModelForCausalLM.from_config(CONFIG_MAPPING[family](**fields)).save_pretrained(folder)
        self.use_folder(folder)
        # A rate of 0 leaves the weights as they are.
        self.train(*self.flags(family), *flags, "--train.steps=1", "--optimizer.learning_rate=0", "--precision.compute=fp32",
                   ranks=ranks)
        saved = self.directory / family / "checkpoints" / "step-000001"
        expected, found = tensors(folder), tensors(saved)
        self.assertEqual(found.keys(), expected.keys())
        for name, tensor in expected.items():
            self.assertTrue(torch.equal(found[name], tensor), name)
        opened, report = AutoModelForCausalLM.from_pretrained(saved, output_loading_info=True)
        self.assertFalse(report["missing_keys"] or report["unexpected_keys"], report)
        tokens = torch.arange(20).view(2, 10)
        original = AutoModelForCausalLM.from_pretrained(folder)
        self.assertTrue(torch.equal(opened(tokens).logits, original(tokens).logits))

    def test_every_family(self):
        for index, family in enumerate(BASES):
            with self.subTest(family):
                self.check(family, *LAYOUTS[index % len(LAYOUTS)])

    def test_experts_that_ranks_share_out(self):
        self.check("qwen3_moe", 3, ["--parallel.ep=3"])


if __name__ == "__main__":
    unittest.main()
