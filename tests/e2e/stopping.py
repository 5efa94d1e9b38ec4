"""How the tests of stopping start a run, wait until it is in some phase, and stop it there."""
import fcntl
import os
import pathlib
import pty
import re
import select
import signal
import subprocess
import termios
import time
import uuid

from harness import COLOSSAL, CORPUS, ROOT, STDLIB, EndToEndTest

STOPPED = 75

# Before what is started. The first two start their ranks themselves.
LAUNCHERS = {
    "1 rank": [],
    "2 ranks": [],
    "colossal run": [str(COLOSSAL), "run", "-n", "2", "--"],
    "torchrun": [str(ROOT / ".venv/bin/python"), "-m", "torch.distributed.run", "--no-python",
                 "--nproc-per-node=2", "--master-addr=127.0.0.1", "--master-port=0",
                 "--rdzv-endpoint=127.0.0.1:0", "--rdzv-backend=c10d"],
    "mpirun": ["mpirun", "--allow-run-as-root", "--oversubscribe", "-n", "2"],
}
OURS = ("1 rank", "2 ranks", "colossal run")
PHASES = ("set-up", "tokenization", "first step", "later step", "save", "evaluation")
STOPS = ("Ctrl-C", "SIGTERM", "twice within a second", "lost pipe", "closed terminal", "GNU timeout")
GO_ON = ("lost pipe", "closed terminal")  # no request to stop, but a loss that must not matter


def num_ranks(launcher):
    return 1 if launcher == "1 rank" else 2


class Run:
    """A run under a launcher, with its messages in `text`, at a terminal or in a pipe."""

    def __init__(self, launcher, command, terminal=False, timed=False):
        self.launcher = launcher
        self.timed = timed
        self.token = uuid.uuid4().hex
        self.text = ""
        here, there = pty.openpty() if terminal else os.pipe()
        command = [*LAUNCHERS[launcher], *command]
        if timed:
            command = ["timeout", "--preserve-status", "600", *command]
        adopt = (lambda: fcntl.ioctl(there, termios.TIOCSCTTY, 0)) if terminal else None
        self.process = subprocess.Popen(command, stdin=there if terminal else subprocess.DEVNULL,
                                        stdout=there, stderr=there, start_new_session=True, preexec_fn=adopt,
                                        env={**os.environ, "COLOSSAL_TEST_TOKEN": self.token})
        os.close(there)
        self.output = here

    def read(self, seconds):
        """What comes within this time, or nothing when the output is lost or at its end."""
        if self.output is None:
            time.sleep(seconds)
        elif select.select([self.output], [], [], seconds)[0]:
            try:
                data = os.read(self.output, 1 << 16)
            except OSError:  # a terminal that nobody has open any more
                data = b""
            self.text += data.decode(errors="replace")
            if not data:
                self.lose_output()

    def lose_output(self):
        os.close(self.output)
        self.output = None

    def wait_for(self, condition, seconds=120):
        deadline = time.monotonic() + seconds
        while not condition():
            if self.process.poll() is not None:
                raise AssertionError(f"it ended with {self.process.returncode} before: {self.text}")
            if time.monotonic() > deadline:
                raise AssertionError(f"it does not come to that: {self.text}")
            self.read(0.002)

    def wait(self, seconds=180):
        """Its exit code."""
        deadline = time.monotonic() + seconds
        while self.process.poll() is None:
            if time.monotonic() > deadline:
                raise AssertionError(f"it does not end: {self.text}")
            self.read(0.02)
        if self.output is not None:
            self.read(0)
        return self.process.returncode

    def processes(self):
        """All that belong to it, but for dead ones."""
        mark = f"COLOSSAL_TEST_TOKEN={self.token}".encode()
        found = []
        for path in pathlib.Path("/proc").glob("[0-9]*"):
            try:
                if mark in (path / "environ").read_bytes() and ") Z" not in (path / "stat").read_text():
                    found.append(path)
            except OSError:
                pass
        return found

    def hears_stops(self):
        """Whether each rank takes a stop signal for itself: it has got as far as that."""
        marks = {"mpirun": b"\0OMPI_COMM_WORLD_RANK=", "1 rank": b"\0"}
        ranks = 0
        for path in self.processes():
            try:
                if not {b"train", b"tune"} & set((path / "cmdline").read_bytes().split(b"\0")[:2]):
                    continue
                if marks.get(self.launcher, b"\0RANK=") not in b"\0" + (path / "environ").read_bytes():
                    continue
                blocked = int(re.search(r"SigBlk:\s*(\w+)", (path / "status").read_text())[1], 16)
                ranks += blocked >> (signal.SIGTERM - 1) & 1
            except OSError:
                pass
        return ranks == num_ranks(self.launcher)

    def stop(self, how):
        if how == "Ctrl-C":
            os.killpg(self.process.pid, signal.SIGINT)
        elif how == "SIGTERM":
            self.process.terminate()
        elif how == "twice within a second":
            os.killpg(self.process.pid, signal.SIGINT)
            time.sleep(0.3)
            if self.process.poll() is None:
                os.killpg(self.process.pid, signal.SIGINT)
        elif how == "GNU timeout":
            self.process.send_signal(signal.SIGALRM)  # its time is up now
        else:  # the pipe's reader goes, or the terminal is hung up
            self.lose_output()


class StoppingTest(EndToEndTest):
    """Steps of some tenths of a second, so that a request falls into the one that is meant."""

    def setUp(self):
        super().setUp()
        # What runs in the background of a shell's script ignores SIGINT, and so would what it starts.
        signal.signal(signal.SIGINT, signal.default_int_handler)
        self.toml.write_text(f'[model]\npreset = "gpt2-tiny"\n[data]\ntrain = ["{CORPUS}"]\n')

    def flags_for(self, phase, name, steps=3):
        flags = ["--data.sequence_length=64", "--train.global_batch=32", "--train.threads=1",
                 "--scheduler.name=constant", f"--train.steps={steps}",
                 f"--log.directory={self.directory / name}", "--log.report=false",
                 f"--checkpoint.directory={self.checkpoints(name)}"]
        if phase == "tokenization":
            flags += [f"--data.train={STDLIB}/*.py", f"--data.tokenizer={self.tokenizer()}",
                      f"--data.cache={self.directory / name / 'cache'}"]
        if phase == "save":
            flags += ["--checkpoint.every=1"]
        if phase == "evaluation":
            flags += ["--train.evaluate_every=1", f"--data.validation={CORPUS}"]
        return flags

    def checkpoints(self, name):
        return self.directory / name / "checkpoints"

    def tokenizer(self):
        path = self.directory / "tokenizer.json"
        if not path.exists():
            from tokenizers import ByteLevelBPETokenizer
            tokenizer = ByteLevelBPETokenizer()
            tokenizer.train([f"{STDLIB}/argparse.py"], vocab_size=500, special_tokens=["<|endoftext|>"],
                            show_progress=False)
            tokenizer.save(str(path))
        return path

    def start(self, launcher, flags, command=("train",), **kwargs):
        ranks = {"1 rank": ["--ranks=1"], "2 ranks": ["--ranks=2"]}.get(launcher, [])
        run = Run(launcher, [str(COLOSSAL), *command, str(self.toml), *ranks, *map(str, flags)], **kwargs)
        self.addCleanup(self.end, run)
        return run

    def end(self, run):
        for path in run.processes():
            os.kill(int(path.name), signal.SIGKILL)
        if run.output is not None:
            run.lose_output()
        run.process.wait()

    def wait_for_phase(self, run, phase, name, step_seconds=0.5):
        begun = lambda: "GFLOP/s in all" in run.text
        if phase == "set-up":
            run.wait_for(run.hears_stops)
        elif phase == "tokenization":
            run.wait_for(lambda: list((self.directory / name).glob("cache/*.partial")))
        elif phase == "save":
            run.wait_for(lambda: any(entry.startswith(".") and "step-" in entry
                                     for entry in self.list_folder(self.checkpoints(name))))
        elif phase == "later step":
            run.wait_for(lambda: re.search(r"training +1/", run.text))
        else:
            run.wait_for(begun)
            pause = 0.1 if phase == "first step" else 1.5 * step_seconds
            end = time.monotonic() + pause
            run.wait_for(lambda: time.monotonic() > end)

    def list_folder(self, folder):
        try:
            return os.listdir(folder)
        except FileNotFoundError:
            return []

    def assert_nothing_runs(self, run):
        deadline = time.monotonic() + 5
        while (left := run.processes()) and time.monotonic() < deadline:
            time.sleep(0.05)
        names = [(path / "cmdline").read_bytes() for path in left]
        self.assertFalse(left, f"still there after 5 s: {names}")

    def newest_step(self, name):
        found = sorted(self.checkpoints(name).glob("step-*"))
        return int(found[-1].name[5:]) if found else 0
