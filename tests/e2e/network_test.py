"""Known cost: what the kernel counts on the wire is what metrics.jsonl says, within 1 %."""
import os
import subprocess
import unittest

from harness import EndToEndTest

# Large enough that headers, acknowledgements and control messages stay far below 1 %.
# Of each packet: Ethernet 14, IP 20, TCP with time stamps 32. How many packets there are, most of
# them acknowledgements, depends on how busy the machine is.
HEADERS = 66
LARGER = ["--model.n_embd=256", "--model.n_layer=4", "--model.n_head=4", "--precision.compute=fp32",
          "--data.sequence_length=16", "--train.global_batch=6"]


class Network(EndToEndTest):
    def setUp(self):
        super().setUp()
        self.need_root("makes a network namespace")
        self.namespace = f"colossal-{os.getpid()}"
        subprocess.run(["ip", "netns", "add", self.namespace], check=True)
        self.addCleanup(subprocess.run, ["ip", "netns", "delete", self.namespace], check=True)
        self.inside = ["ip", "netns", "exec", self.namespace]
        subprocess.run([*self.inside, "ip", "link", "set", "lo", "up"], check=True)

    def loopback_bytes(self):
        text = subprocess.run([*self.inside, "cat", "/proc/net/dev"], capture_output=True, text=True,
                              check=True).stdout
        line = next(line for line in text.splitlines() if line.strip().startswith("lo:"))
        sent, packets = map(int, line.split(":")[1].split()[8:10])
        return sent - packets * HEADERS

    def bytes_of_run(self, name, steps, ranks, zero):
        before = self.loopback_bytes()
        flags = [*self.flags(name, checkpoints=False), *LARGER, f"--train.steps={steps}",
                 f"--parallel.zero={zero}", "--parallel.backend=gloo"]
        # On one core: packets of several overtake one another, and TCP sends those it believes lost twice.
        one_core = ["taskset", "--cpu-list", str(min(os.sched_getaffinity(0)))]
        subprocess.run([*one_core, *self.inside, *self.command(*flags, ranks=ranks)], check=True, timeout=120,
                       capture_output=True)
        return self.loopback_bytes() - before

    def test_bytes_on_loopback_equal_the_law(self):
        parameters = 3_241_728  # of this model; every one is a multiple of 64 bytes
        for ranks in (2, 3):
            for zero in (0, 1):
                short = self.bytes_of_run(f"short-{ranks}-{zero}", 2, ranks, zero)
                long = self.bytes_of_run(f"long-{ranks}-{zero}", 7, ranks, zero)
                measured = (long - short) / 5
                law = 2 * (ranks - 1) * parameters * 4  # over all ranks, at both stages
                self.assertAlmostEqual(measured / law, 1, delta=0.01, msg=f"{ranks} ranks, stage {zero}")
                reported = self.metrics(f"long-{ranks}-{zero}")[6]["bytes_sent"]["dp"]
                self.assertAlmostEqual(ranks * reported / law, 1, delta=0.01)
                print(f"{ranks} ranks, stage {zero}: on the wire {measured / law:.4f} of the law")


if __name__ == "__main__":
    unittest.main()
