"""bf16 learns as fp32 does: the loss curves stay within 1 % over 200 steps."""
import unittest

from harness import EndToEndTest

LARGER = ["--model.n_embd=128", "--model.n_layer=3", "--model.n_head=4", "--data.sequence_length=64",
          "--train.steps=200", "--optimizer.learning_rate=1e-3"]


class Precision(EndToEndTest):
    def test_bf16_against_fp32(self):
        for name, flags in [("fp32", ["--precision.compute=fp32"]),
                            ("bf16", ["--precision.compute=bf16"]),
                            ("bf16-accumulated", ["--precision.compute=bf16", "--train.micro_batch=2"])]:
            self.train(*self.flags(name, checkpoints=False), *LARGER, *flags, ranks=2, timeout=400)
        reference = self.losses("fp32")
        self.assertLess(reference[200], 0.7 * reference[1])
        for name in ("bf16", "bf16-accumulated"):
            worst = max(abs(loss / reference[step] - 1) for step, loss in self.losses(name).items())
            self.assertLess(worst, 0.01, name)
            print(f"{name}: at most {100 * worst:.2f} % from fp32")


if __name__ == "__main__":
    unittest.main()
