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

    def check_layouts(self, pairs):
        """fp32's tolerance: the order of summation differs. The gradient of the key biases is zero but
        for rounding, and AdamW would move them by its ratio to eps."""
        exact = ["--precision.compute=fp32", "--optimizer.eps=1e-6"]

        def train(name, steps, ranks, **layout):
            flags = [f"--parallel.{axis}={size}" for axis, size in layout.items()]
            self.train(*self.flags(name), f"--train.steps={steps}", *exact, *flags, ranks=ranks)

        train("whole", 10, ranks=1)
        for saved, loaded in pairs:
            name = f"{saved}-{loaded}".replace(" ", "").replace("'", "")
            train(name, 5, **saved)
            train(name, 10, **loaded)
            for step, loss in self.losses("whole").items():
                self.assertAlmostEqual(self.losses(name)[step], loss, delta=1e-4 * loss)
            whole, parts = self.weights(self.newest("whole")), self.weights(self.newest(name))
            for key in whole:
                if key.startswith(("transformer.", "model.", "lm_head.")):
                    allowed = 1e-4 * (whole[key].norm() + 10 * 3e-4 * whole[key].numel() ** 0.5)
                    self.assertLessEqual((whole[key] - parts[key]).norm(), allowed, f"{name}: {key}")

    def test_at_other_layouts(self):
        one, two, three = dict(ranks=1), dict(ranks=2, zero=0), dict(ranks=3, zero=1)
        tensor, both = dict(ranks=2, tp=2), dict(ranks=4, tp=2, dp=2)
        ring, ulysses = dict(ranks=2, sp=2), dict(ranks=2, sp=2, sp_mode="ulysses")
        self.check_layouts([(one, three), (three, two), (two, one), (one, tensor), (tensor, three),
                            (both, ring), (ring, ulysses), (ulysses, tensor)])

    def test_at_squares_and_cubes(self):
        square, cube = dict(ranks=4, tp=4, tp_mode="2d"), dict(ranks=8, tp=8, tp_mode="3d")
        deep = dict(ranks=8, tp=8, tp_mode="2.5d")
        self.check_layouts([(square, cube), (cube, deep), (deep, dict(ranks=2, tp=2))])

    def test_a_llama_at_other_layouts(self):
        """Its two heads of keys and values are held twice at tp 4, by all at tp 3."""
        self.use("llama-tiny")
        four, three = dict(ranks=4, tp=4), dict(ranks=3, tp=3)
        sequence = dict(ranks=3, sp=3)
        square = dict(ranks=4, tp=4, tp_mode="2d")
        self.check_layouts([(four, three), (three, sequence), (square, four)])

    def test_the_choice_of_auto_is_kept(self):
        self.train(*self.flags(), "--train.steps=2", "--precision.compute=fp64")
        self.train(*self.flags(), "--train.steps=4")
        self.assertEqual(self.weights(self.newest())["transformer.wte.weight"].dtype, torch.float64)


if __name__ == "__main__":
    unittest.main()
