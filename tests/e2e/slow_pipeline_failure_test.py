"""A stage that dies, hangs or is slow is named, with what each other stage waited for."""
import os
import re
import signal
import subprocess
import time
import unittest

from harness import EndToEndTest

TIMEOUT = 3


class PipelineFailure(EndToEndTest):
    def process_of_rank(self, rank, launcher):
        children = subprocess.run(["pgrep", "-P", str(launcher)], capture_output=True, text=True).stdout
        for pid in map(int, children.split()):
            with open(f"/proc/{pid}/environ", "rb") as variables:
                if f"RANK={rank}".encode() in variables.read().split(b"\0"):
                    return pid
        self.fail(f"no process of rank {rank}")

    def end_of_run_without(self, how, backend, awake_after=None):
        """What the launcher of three stages says when `how` has been sent to the middle one, which
        goes on after so many seconds."""
        flags = [*self.flags(backend, checkpoints=False), "--model.n_layer=3", "--train.steps=100000",
                 "--parallel.pp=3", f"--parallel.timeout={TIMEOUT}s", f"--parallel.backend={backend}"]
        run = subprocess.Popen(self.command(*flags, ranks=3), stderr=subprocess.PIPE, text=True)
        self.addCleanup(run.kill)
        self.addCleanup(run.stderr.close)
        deadline = time.monotonic() + 60
        lines = self.directory / backend / "metrics.jsonl"
        while not lines.exists() or not lines.read_text().count("\n") > 2:
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.05)
        rank = self.process_of_rank(1, run.pid)
        os.kill(rank, how)
        if awake_after is not None:
            time.sleep(awake_after)
            os.kill(rank, signal.SIGCONT)
        said = run.communicate(timeout=4 * TIMEOUT + 10)[1]
        self.assertEqual(run.returncode, 3, said)
        return said

    # A rank that has done its part of the schedule waits for the sums of all ranks.
    WAITS = re.compile(r"rank ([02]) \(pid.*\) exited with code 3: step \d+: "
                       r"(.* in stage [02]: waits for rank 1 \(send of .* in stage 1\)|.*all_reduce)")

    def assert_others_waited(self, said):
        self.assertEqual({"0", "2"}, {found[1] for found in self.WAITS.finditer(said)}, said)

    def test_a_stage_that_dies(self):
        for backend in "shm", "gloo":
            with self.subTest(backend):
                said = self.end_of_run_without(signal.SIGKILL, backend)
                self.assertRegex(said, r"error: rank 1 .* was killed by signal 9 \(SIGKILL\)")
                self.assert_others_waited(said)

    def test_a_stage_that_hangs(self):
        for backend in "shm", "gloo":
            with self.subTest(backend):
                said = self.end_of_run_without(signal.SIGSTOP, backend)
                self.assertIn(f"timed out after {TIMEOUT}s", said)
                self.assertRegex(said, r"error: rank 1 \(pid.*\) still runs, and the other ranks")
                self.assert_others_waited(said)

    def test_a_stage_that_is_too_slow(self):
        said = self.end_of_run_without(signal.SIGSTOP, "shm", awake_after=TIMEOUT + 0.5)
        self.assertIn(f"timed out after {TIMEOUT}s: rank 1", said)
        self.assert_others_waited(said)


if __name__ == "__main__":
    unittest.main()
