"""Nothing lost, wherever it rests: with gradients and weights in parts, and on the host or NVMe, a
resumed run is the undisturbed one, also when it goes on at other settings."""
import unittest

from harness import NVME, EndToEndTest

SPREAD = ["--memory.offload_optimizer={host = 0.5, nvme = 0.25}",
          "--memory.offload_parameters={host = 0.5}"]


class Tiers(EndToEndTest):
    def run_to(self, name, steps, ranks, flags):
        return self.train(*self.flags(name), f"--train.steps={steps}",
                          f"--memory.nvme_path={self.directory}", *flags, ranks=ranks)

    def test_resumes_bit_for_bit(self):
        for ranks, flags in ((2, ["--parallel.zero=2", "--train.micro_batch=2"]),
                             (2, ["--parallel.zero=3"]), (1, NVME), (2, ["--parallel.zero=3", *NVME]),
                             (2, SPREAD), (2, ["--parallel.zero=3", "--memory.recompute=full", *SPREAD])):
            name = "-".join([str(ranks), *flags]).translate(str.maketrans("", "", "{}= ,."))
            self.run_to(name, 6, ranks, flags)
            self.run_to(name + "-parts", 3, ranks, flags)
            self.assertIn("resumed from", self.run_to(name + "-parts", 6, ranks, flags))
            self.assertEqual(self.losses(name), self.losses(name + "-parts"))
            self.assert_same_weights(self.newest(name), self.newest(name + "-parts"))

    def test_goes_on_at_other_settings(self):
        """The same ranks and sums: the same bits, whatever rests where."""
        self.run_to("device", 6, 2, ["--parallel.zero=1"])
        for before, after in (([], ["--parallel.zero=3", *NVME]), (["--parallel.zero=3", *NVME], SPREAD),
                              (SPREAD, ["--parallel.zero=2"])):
            name = "-".join(before + ["then"] + after).translate(str.maketrans("", "", "{}= ,."))
            self.run_to(name, 3, 2, before)
            self.run_to(name, 6, 2, after)
            self.assertEqual(self.losses("device"), self.losses(name))
            self.assert_same_weights(self.newest("device"), self.newest(name))


if __name__ == "__main__":
    unittest.main()
