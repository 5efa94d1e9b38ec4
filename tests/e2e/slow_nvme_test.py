"""NVMe under training: damage is found before a wrong number is used, and nothing grows."""
import os
import pathlib
import signal
import subprocess
import time
import unittest

from harness import NVME, EndToEndTest


def descendants(pid):
    found = [pid]
    for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
        for child in (task / "children").read_text().split():
            found += descendants(int(child))
    return found


def swap_file(pid, folder):
    """The open file of a process below `folder` that has no name."""
    for descriptor in pathlib.Path(f"/proc/{pid}/fd").iterdir():
        target = os.readlink(descriptor)
        if target.startswith(str(folder)) and target.endswith("(deleted)"):
            return descriptor
    return None


class Nvme(EndToEndTest):
    def setUp(self):
        super().setUp()
        self.swap = self.directory / "swap"
        self.swap.mkdir()

    def nvme_flags(self, name, steps):
        return [*self.flags(name), *NVME, f"--memory.nvme_path={self.swap}", "--checkpoint.every=5",
                f"--train.steps={steps}"]

    def start(self, name, steps, ranks, *extra):
        return subprocess.Popen(self.command(*self.nvme_flags(name, steps), *extra, ranks=ranks),
                                stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)

    def wait_for_step(self, name, step, run):
        metrics = self.directory / name / "metrics.jsonl"
        limit = time.monotonic() + 120
        while not metrics.exists() or len(metrics.read_text().splitlines()) < step:
            self.assertIsNone(run.poll(), run.stderr.read() if run.poll() is not None else "")
            self.assertLess(time.monotonic(), limit, f"no step {step}")
            time.sleep(0.02)

    def check_damage(self, name, damage, said):
        run = self.start(name, 2000, 1)
        self.wait_for_step(name, 12, run)
        os.kill(run.pid, signal.SIGSTOP)
        with open(swap_file(run.pid, self.swap), "r+b", buffering=0) as file:
            damage(file)
        os.kill(run.pid, signal.SIGCONT)
        _, log = run.communicate(timeout=120)
        self.assertEqual(run.returncode, 1, log)
        for text in (str(self.swap), "step ", said):
            self.assertIn(text, log)
        # What it wrote before is the undisturbed run's, and it goes on from its last checkpoint.
        written = self.losses(name)
        last = max(written)
        steps = last + 3
        self.assertIn("resumed from", self.train(*self.nvme_flags(name, steps)))
        self.train(*self.nvme_flags("whole-" + name, steps))
        whole = self.losses("whole-" + name)
        self.assertEqual(whole, self.losses(name))
        self.assertEqual(written, {step: loss for step, loss in whole.items() if step <= last})

    def test_a_torn_file(self):
        def overwrite(file):
            size = os.fstat(file.fileno()).st_size
            file.write(os.urandom(size))

        self.check_damage("torn", overwrite, "are not those that were written")

    def test_a_short_file(self):
        self.check_damage("short", lambda file: file.truncate(4096), "read")

    def test_a_full_disk(self):
        """State is given its space before the first step; activations take theirs as they come."""
        full = self.mount_small("no-state", "64k")
        log = self.train(*self.nvme_flags("run", 4), f"--memory.nvme_path={full}", expect=1)
        for text in (str(full), "bytes free, and the swap file needs"):
            self.assertIn(text, log)
        self.train(*self.nvme_flags("run", 5))
        full = self.mount_small("no-activations", "2m")
        log = self.train(*self.nvme_flags("run", 8), f"--memory.nvme_path={full}", expect=1)
        for text in (str(full), "step 6", "bytes free, and the swap file needs"):
            self.assertIn(text, log)
        self.train(*self.nvme_flags("run", 8))
        self.train(*self.nvme_flags("whole", 8))
        self.assertEqual(self.losses("run"), self.losses("whole"))

    def test_nothing_grows(self):
        """Resident memory, descriptors and threads over 200 steps at stage 3."""
        # Without checkpoints, whose files are open while they are written.
        run = self.start("flat", 200, 2, "--parallel.zero=3", "--checkpoint.every=0")
        seen = []
        for step in (30, 190):
            self.wait_for_step("flat", step, run)
            counts = {"descriptors": 0, "threads": 0, "resident KiB": 0}
            for pid in descendants(run.pid):
                counts["descriptors"] += len(os.listdir(f"/proc/{pid}/fd"))
                counts["threads"] += len(os.listdir(f"/proc/{pid}/task"))
                status = dict(line.split(":", 1) for line in
                              pathlib.Path(f"/proc/{pid}/status").read_text().splitlines())
                counts["resident KiB"] += int(status["VmRSS"].split()[0])
            seen.append(counts)
        _, log = run.communicate(timeout=120)
        self.assertEqual(run.returncode, 0, log)
        early, late = seen
        print(f"\n  at step 30 {early}\n  at step 190 {late}")
        self.assertEqual(late["descriptors"], early["descriptors"])
        self.assertEqual(late["threads"], early["threads"])
        self.assertLess(late["resident KiB"], 1.02 * early["resident KiB"])


if __name__ == "__main__":
    unittest.main()
