"""The memory that a run counts by kind is what the system gave it, and what `plan` said before."""
import json
import subprocess
import unittest

from harness import COLOSSAL, EndToEndTest

LARGER = ["--model.n_layer=8", "--model.n_embd=512", "--model.n_head=8", "--model.n_positions=128",
          "--data.sequence_length=128", "--train.steps=3", "--precision.compute=fp32"]


class Memory(EndToEndTest):
    def test_counted_and_resident(self):
        for ranks, flags in ((1, []), (1, ["--memory.recompute=full"]),
                             (2, ["--parallel.zero=3", "--memory.recompute=selective"]),
                             (2, ["--parallel.tp=2"])):
            name = "-".join(["run", str(ranks), *flags]).replace("--", "")
            flags = [*self.flags(name, checkpoints=False), *LARGER, f"--train.global_batch={8 * ranks}",
                     *flags]
            self.train(*flags, ranks=ranks)
            done = subprocess.run([COLOSSAL, "plan", self.toml, f"--ranks={ranks}", *flags, "--json"],
                                  capture_output=True, text=True, check=True)
            plan = json.loads(done.stdout)
            for line in self.metrics(name).values():
                counted, base = line["memory_at_peak"], line["memory_base_bytes"]
                self.assertEqual(sum(line["memory_by_kind"].values()), counted)
                excess = line["memory_peak_bytes"] / (counted + base) - 1
                self.assertLess(abs(excess), 0.05, name)
                self.assertLess(abs(plan["memory_at_peak"] / counted - 1), 0.02, name)
                if "--parallel.zero=3" in flags:
                    continue  # whole gradients go when the other rank has sent its own
                for kind in ("parameters", "gradients", "optimizer", "activations"):
                    # Tokens, which the plan's activations hold, come from the loader's thread.
                    self.assertAlmostEqual(plan["memory_by_kind"][kind], line["memory_by_kind"][kind],
                                           delta=16 * 8 * 128, msg=name)
            print(f"{name}: {counted:,} bytes counted, resident {100 * excess:+.1f} %")


if __name__ == "__main__":
    unittest.main()
