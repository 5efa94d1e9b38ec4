"""Nothing lost: a resumed run is the undisturbed one, bit for bit at the same layout."""
import unittest

import torch

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


if __name__ == "__main__":
    unittest.main()
