"""Experts that ranks share out: what a run at one `ep` has saved, a run at another goes on with."""
import json
import unittest

from transformers import AutoModelForCausalLM
from transformers.models.auto.configuration_auto import CONFIG_MAPPING

from harness import ROOT
from resumption import ResumptionTest

BASES = json.loads((ROOT / "tests" / "support" / "families.json").read_text())


class Experts(ResumptionTest):
    def use_mixtral(self):
        folder = self.directory / "model"
        fields = dict(BASES["mixtral"], vocab_size=257, max_position_embeddings=32, initializer_range=0.1)
        AutoModelForCausalLM.from_config(CONFIG_MAPPING["mixtral"](**fields)).save_pretrained(folder)
        self.use_folder(folder)
        return fields

    def test_places_experts_by_the_routing_of_an_earlier_run(self):
        """Experts lie elsewhere after the resumption, and some are copied: the losses are those of one rank."""
        fields = self.use_mixtral()
        exact = ["--precision.compute=fp32", "--optimizer.eps=1e-6"]
        self.train(*self.flags("whole"), "--train.steps=10", *exact)
        self.train(*self.flags("parts"), "--train.steps=5", *exact, "--parallel.ep=2", ranks=2)
        routing = self.directory / "parts" / "routing.json"
        file = json.loads(routing.read_text())
        self.assertEqual(file["steps"], 5)
        rows = file["rows"]
        self.assertEqual(len(rows), fields["num_hidden_layers"])
        tokens = sum(metrics["tokens"] for metrics in self.metrics("parts").values())
        for of_layer in rows:
            self.assertEqual(sum(of_layer), tokens * fields["num_experts_per_tok"])
        observed = [*exact, "--parallel.ep=2", f"--experts.observed={routing}", "--parallel.expert_copies=2",
                    "--parallel.expert_copy_rows=1"]
        self.train(*self.flags("parts"), "--train.steps=10", *observed, ranks=2)
        for step, loss in self.losses("whole").items():
            self.assertAlmostEqual(self.losses("parts")[step], loss, delta=1e-4 * loss)
        self.assertIn("expert_copies", self.metrics("parts")[10])
        rows[0].pop()
        routing.write_text(json.dumps(file))
        log = self.train(*self.flags("parts"), "--train.steps=12", *observed, ranks=2, expect=2)
        self.assertIn(f"experts.observed = \"{routing}\": a block has {len(rows[0])} experts", log)

    def test_goes_on_at_other_layouts(self):
        self.use_mixtral()
        self.check_layouts([(dict(ranks=4, ep=4), dict(ranks=2, ep=2, zero=3)),
                            (dict(ranks=1), dict(ranks=3, sp=3, ep=3)),
                            (dict(ranks=4, tp=2, ep=2), dict(ranks=2, pp=2))])


if __name__ == "__main__":
    unittest.main()
