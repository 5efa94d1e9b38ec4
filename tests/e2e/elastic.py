"""How the tests of elastic runs start a run, watch its steps, end its ranks and change their number."""
import os
import pathlib
import signal
import subprocess
import time
import uuid

from harness import COLOSSAL
from resumption import ResumptionTest

# The order of summation differs between layouts; see ResumptionTest.check_layouts.
EXACT = ["--precision.compute=fp32", "--optimizer.eps=1e-6"]


class ElasticTest(ResumptionTest):
    def setUp(self):
        super().setUp()
        self.started = []
        self.addCleanup(self.end_all)

    def end_all(self):
        for process, _ in self.started:
            process.kill()
            process.wait()

    def flags_of(self, name, steps, *extra):
        """Steps of some tenths of a second, so that a test can act between them."""
        return [*self.flags(name), "--data.sequence_length=64", "--train.global_batch=240", f"--train.steps={steps}",
                "--checkpoint.every=1", "--log.report=false", *EXACT, *extra]

    def start(self, command):
        """Returns the process; log() has what it writes."""
        log = self.directory / f"log-{len(self.started)}"
        token = uuid.uuid4().hex
        with open(log, "w") as output:
            process = subprocess.Popen(list(map(str, command)), stdout=output, stderr=output,
                                       env={**os.environ, "COLOSSAL_TEST_TOKEN": token})
        process.token, process.log = token, log
        self.started.append((process, log))
        return process

    def start_elastic(self, name, steps, *extra, ranks=2, min_ranks=1):
        return self.start([COLOSSAL, "train", self.toml, f"--ranks={ranks}", f"--min-ranks={min_ranks}",
                           *self.flags_of(name, steps, *extra)])

    def ranks_of(self, process):
        """Rank -> process id, of the ranks that run now."""
        found = {}
        mark = f"COLOSSAL_TEST_TOKEN={process.token}".encode()
        for path in pathlib.Path("/proc").glob("[0-9]*"):
            try:
                environment = (path / "environ").read_bytes().split(b"\0")
                if mark in environment and ") Z" not in (path / "stat").read_text():
                    ranks = [entry[5:] for entry in environment if entry.startswith(b"RANK=")]
                    if ranks and b"train" in (path / "cmdline").read_bytes().split(b"\0"):
                        found[int(ranks[0])] = int(path.name)
            except OSError:
                pass
        return found

    def memory_folder_of(self, process):
        pid = next(iter(self.ranks_of(process).values()))
        environment = pathlib.Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
        mark = b"COLOSSAL_MEMORY_FOLDER="
        return pathlib.Path(next(e for e in environment if e.startswith(mark))[len(mark):].decode())

    def wait_until(self, condition, process, seconds=120):
        deadline = time.monotonic() + seconds
        while not condition():
            if process.poll() is not None and not condition():
                self.fail(f"it ended with {process.returncode}: {process.log.read_text()}")
            self.assertLess(time.monotonic(), deadline, process.log.read_text())
            time.sleep(0.01)

    def step(self, name):
        """The last step in the metrics; 0: none yet."""
        try:
            return max(self.metrics(name), default=0)
        except (OSError, ValueError):  # a line that is being written
            return 0

    def wait_for_step(self, process, name, step):
        self.wait_until(lambda: self.step(name) >= step, process)

    def kill_rank(self, process, rank):
        os.kill(self.ranks_of(process)[rank], signal.SIGKILL)

    def resize(self, name, ranks, expect=0):
        done = subprocess.run([COLOSSAL, "resize", self.directory / name / "checkpoints", str(ranks)],
                              capture_output=True, text=True, timeout=120)
        self.assertEqual(done.returncode, expect, done.stderr)
        return done.stderr

    def finish(self, process, expect=0):
        self.assertEqual(process.wait(timeout=300), expect, process.log.read_text())
        return process.log.read_text()
