"""Experts that ranks share out: what a run at one `ep` has saved, a run at another goes on with."""
import json
import unittest

from transformers import AutoModelForCausalLM
from transformers.models.auto.configuration_auto import CONFIG_MAPPING

from harness import ROOT
from resumption import ResumptionTest

BASES = json.loads((ROOT / "tests" / "support" / "families.json").read_text())


class Experts(ResumptionTest):
    def test_goes_on_at_other_layouts(self):
        folder = self.directory / "model"
        fields = dict(BASES["mixtral"], vocab_size=257, max_position_embeddings=32, initializer_range=0.1)
        AutoModelForCausalLM.from_config(CONFIG_MAPPING["mixtral"](**fields)).save_pretrained(folder)
        self.use_folder(folder)
        self.check_layouts([(dict(ranks=4, ep=4), dict(ranks=2, ep=2, zero=3)),
                            (dict(ranks=1), dict(ranks=3, sp=3, ep=3)),
                            (dict(ranks=4, tp=2, ep=2), dict(ranks=2, pp=2))])


if __name__ == "__main__":
    unittest.main()
