"""How the tests of resuming compare runs."""
from harness import EndToEndTest


class ResumptionTest(EndToEndTest):
    def check(self, ranks, *extra):
        self.train(*self.flags("whole"), "--train.steps=10", *extra, ranks=ranks)
        self.train(*self.flags("parts"), "--train.steps=5", *extra, ranks=ranks)
        log = self.train(*self.flags("parts"), "--train.steps=10", *extra, ranks=ranks)
        self.assertIn("resumed from", log)
        self.assertEqual(self.losses("whole"), self.losses("parts"))
        self.assert_same_weights(self.newest("whole"), self.newest("parts"))

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
            self.assert_same_training("whole", name)

    def assert_same_training(self, whole, name):
        """Losses of all steps and the last weights, within rounding."""
        self.assertEqual(self.losses(whole).keys(), self.losses(name).keys())
        for step, loss in self.losses(whole).items():
            self.assertAlmostEqual(self.losses(name)[step], loss, delta=1e-4 * loss)
        expected, found = self.weights(self.newest(whole)), self.weights(self.newest(name))
        for key in expected:
            if key.startswith(("transformer.", "model.", "lm_head.")):
                allowed = 1e-4 * (expected[key].norm() + 10 * 3e-4 * expected[key].numel() ** 0.5)
                self.assertLessEqual((expected[key] - found[key]).norm(), allowed, f"{name}: {key}")
