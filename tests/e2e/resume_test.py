"""Nothing lost: a resumed run is the undisturbed one, bit for bit at the same layout."""
import unittest

import torch

from harness import EndToEndTest


class Resume(EndToEndTest):
    def check(self, ranks, *extra):
        self.train(*self.flags("whole"), "--train.steps=10", *extra, ranks=ranks)
        self.train(*self.flags("parts"), "--train.steps=5", *extra, ranks=ranks)
        log = self.train(*self.flags("parts"), "--train.steps=10", *extra, ranks=ranks)
        self.assertIn("resumed from", log)
        self.assertEqual(self.losses("whole"), self.losses("parts"))
        self.assert_same_weights(self.newest("whole"), self.newest("parts"))

    def test_one_rank(self):
        self.check(1)

    def test_two_ranks_accumulation_and_dropout(self):
        self.check(2, "--train.micro_batch=4", "--train.dropout=0.2")

    def test_stage_0(self):
        self.check(2, "--parallel.zero=0")

    def test_at_other_layouts(self):
        """fp32's tolerance: the order of summation differs."""
        exact = ["--precision.compute=fp32"]
        self.train(*self.flags("whole"), "--train.steps=10", *exact, ranks=1)
        for saved, loaded in [((1, 0), (3, 1)), ((3, 1), (2, 0)), ((2, 0), (1, 0))]:
            name = f"at-{saved}-{loaded}"
            self.train(*self.flags(name), "--train.steps=5", *exact,
                       f"--parallel.zero={saved[1]}", ranks=saved[0])
            self.train(*self.flags(name), "--train.steps=10", *exact,
                       f"--parallel.zero={loaded[1]}", ranks=loaded[0])
            for step, loss in self.losses("whole").items():
                self.assertAlmostEqual(self.losses(name)[step], loss, delta=1e-4 * loss)
            whole, parts = self.weights(self.newest("whole")), self.weights(self.newest(name))
            for tensor in whole:
                if tensor.startswith("transformer"):
                    allowed = 1e-4 * (whole[tensor].norm() + 10 * 3e-4 * whole[tensor].numel() ** 0.5)
                    self.assertLessEqual((whole[tensor] - parts[tensor]).norm(), allowed, tensor)

    def test_the_choice_of_auto_is_kept(self):
        self.train(*self.flags(), "--train.steps=2", "--precision.compute=fp64")
        self.train(*self.flags(), "--train.steps=4")
        self.assertEqual(self.weights(self.newest())["transformer.wte.weight"].dtype, torch.float64)


if __name__ == "__main__":
    unittest.main()
