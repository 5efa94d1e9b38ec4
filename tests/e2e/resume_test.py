"""Nothing lost: a resumed run is the undisturbed one, bit for bit at the same layout."""
import json
import subprocess
import unittest

import torch

from harness import COLOSSAL, TINY
from resumption import ResumptionTest


class Resume(ResumptionTest):
    def test_one_rank(self):
        self.check(1)

    def test_two_ranks_accumulation_and_dropout(self):
        self.check(2, "--train.micro_batch=4", "--train.dropout=0.2")

    def test_stage_0(self):
        self.check(2, "--parallel.zero=0")

    def test_at_other_layouts(self):
        self.check_layouts([(dict(ranks=1), dict(ranks=3, zero=1)),
                            (dict(ranks=2, tp=2), dict(ranks=2, sp=2)),
                            (dict(ranks=4, tp=4, tp_mode="2d"), dict(ranks=2, zero=3)),
                            (dict(ranks=4, pp=2, zero=3), dict(ranks=2, pp=2, pp_schedule="zb-h1"))])

    def test_the_choice_of_auto_is_kept(self):
        self.train(*self.flags(), "--train.steps=2", "--precision.compute=fp64")
        self.train(*self.flags(), "--train.steps=4")
        self.assertEqual(self.weights(self.newest())["transformer.wte.weight"].dtype, torch.float64)

    def types(self):
        return json.loads((self.newest() / "training_state" / "state.json").read_text())["precision"]

    def test_the_type_of_gradients_follows_the_layout(self):
        """As the plan of each layout says; a type that changes is told."""
        self.train(*self.flags(), "--train.steps=1", "--precision.compute=bf16")
        self.assertEqual(self.types(), {"compute": "bf16", "gradients": "bf16"})
        for steps, types, layout in [(2, "fp32", ["--parallel.pp=2"]), (3, "fp32", ["--train.micro_batch=4"]), (4, "bf16", [])]:
            log = self.train(*self.flags(), f"--train.steps={steps}", *layout, ranks=2 if steps == 2 else 1)
            self.assertEqual(self.types(), {"compute": "bf16", "gradients": types})
            told = f"precision.gradients is {types} from here on; until step-{steps - 1:06} it was"
            self.assertEqual(told in log, steps != 3, log)
            planned = subprocess.run([str(COLOSSAL), "plan", str(self.toml), *TINY, *self.model_flags, *layout,
                                      "--precision.compute=bf16", f"--ranks={2 if steps == 2 else 1}"],
                                     capture_output=True, text=True, check=True).stdout
            self.assertIn(f"gradients {types}", planned)
        log = self.train(*self.flags(), "--train.steps=5", "--precision.compute=fp64")
        self.assertIn("precision.compute is fp64 from here on; until step-000004 it was bf16", log)
        self.assertEqual(self.types(), {"compute": "fp64", "gradients": "fp64"})


if __name__ == "__main__":
    unittest.main()
