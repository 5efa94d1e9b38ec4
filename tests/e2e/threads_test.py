"""Compute threads that wait for work give up their core soon, unless the user says how they wait."""
import os
import pathlib
import subprocess
import unittest

from harness import EndToEndTest


class Threads(EndToEndTest):
    def running(self, *flags, ranks=1, **environment):
        """The environment and the names of the ranks of a run that trains."""
        variables = {k: v for k, v in os.environ.items() if not k.startswith(("OMP_", "GOMP_"))}
        command = self.command(*self.flags(checkpoints=False), "--train.steps=1000000", "--log.every=1",
                               "--train.threads=2", *flags, ranks=ranks)
        run = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env={**variables, **environment})
        try:
            while not (line := run.stderr.readline()).startswith("training "):
                self.assertTrue(line, "the run ended before it trained")
            pids = [run.pid]
            if ranks > 1:  # children of the launcher that are not its own other processes
                children = pathlib.Path(f"/proc/{run.pid}/task/{run.pid}/children").read_text().split()
                pids = [pid for pid in children
                        if b"\0RANK=" in b"\0" + pathlib.Path(f"/proc/{pid}/environ").read_bytes()]
                self.assertEqual(len(pids), ranks)
            found = []
            for pid in pids:
                pairs = pathlib.Path(f"/proc/{pid}/environ").read_text().split("\0")
                name = pathlib.Path(f"/proc/{pid}/comm").read_text().strip()
                found.append((dict(pair.split("=", 1) for pair in pairs if pair), name))
            return found
        finally:
            run.kill()
            run.stderr.close()
            run.wait()

    def test_one_rank(self):
        [(environment, name)] = self.running()
        self.assertEqual(environment.get("GOMP_SPINCOUNT"), "1000")
        self.assertEqual(name, "colossal")

    def test_several_ranks(self):
        for environment, _ in self.running(ranks=2):
            self.assertEqual(environment.get("GOMP_SPINCOUNT"), "1000")

    def test_the_users_own_setting_counts(self):
        [(environment, _)] = self.running(OMP_WAIT_POLICY="active")
        self.assertNotIn("GOMP_SPINCOUNT", environment)
        [(environment, _)] = self.running(GOMP_SPINCOUNT="5")
        self.assertEqual(environment["GOMP_SPINCOUNT"], "5")


if __name__ == "__main__":
    unittest.main()
