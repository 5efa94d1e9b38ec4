"""`colossal serve` and `generate` over ranks that are killed or hang, and signals that end a load."""
import concurrent.futures
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
import time
import unittest

import openai

from harness import COLOSSAL, SHIM, EndToEndTest
from serve_test import Server, make_model


def environment_of(process):
    try:
        return pathlib.Path(f"/proc/{process}/environ").read_bytes()
    except (FileNotFoundError, ProcessLookupError):  # it has ended since it was listed
        return b""


def children_of(process):
    return {int(child) for child in pathlib.Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()}


def ranks_started_by(process):
    """Process numbers of the ranks that a process has started."""
    return [child for child in children_of(process) if b"\0RANK=" in environment_of(child)]


def other_ranks(server):
    return ranks_started_by(server.process)


def state_of(process_number):
    """One letter: R runs, S sleeps, T is stopped, Z has ended."""
    return pathlib.Path(f"/proc/{process_number}/stat").read_text().rsplit(")", 1)[1].split()[0]


class ServeRanks(EndToEndTest):
    @classmethod
    def setUpClass(cls):
        cls.root = pathlib.Path(tempfile.mkdtemp(prefix="colossal-test-"))
        cls.addClassCleanup(shutil.rmtree, cls.root, ignore_errors=True)
        cls.model = cls.root / "model"
        make_model(cls.model, positions=4096)

    def serve(self, *flags):
        server = Server(self.model, "--ranks=2", *flags)
        self.addCleanup(server.stop)
        return server

    def ask(self, server, count):
        """How a request of this many tokens ends: "", or the error."""
        try:
            server.client().completions.create(model="tiny", prompt="The quick", max_tokens=count,
                                               extra_body={"ignore_eos": True})
            return ""
        except openai.APIError as error:
            return str(error)

    def await_serving(self, server, seconds):
        deadline = time.monotonic() + seconds
        while self.ask(server, 2):
            self.assertLess(time.monotonic(), deadline, "".join(server.log))
            time.sleep(0.05)

    def lose(self, server, signal_of_loss, requests):
        """Requests that run and wait while rank 1 gets a signal: how they end, and in how many seconds."""
        self.assertEqual(self.ask(server, 2), "")
        with concurrent.futures.ThreadPoolExecutor(requests) as pool:
            answers = [pool.submit(self.ask, server, 4000) for _ in range(requests)]
            while server.metric("num_requests_running") + server.metric("num_requests_waiting") < requests:
                time.sleep(0.02)
            [rank] = other_ranks(server)
            os.kill(rank, signal_of_loss)
            start = time.monotonic()
            ends = [answer.result(60) for answer in answers]
            return ends, time.monotonic() - start

    def test_a_killed_helper_leaves_no_zombie(self):
        server = self.serve("--parallel.tp=2")
        [helper] = children_of(server.process) - set(other_ranks(server))
        os.kill(helper, signal.SIGKILL)
        deadline = time.monotonic() + 10
        while pathlib.Path(f"/proc/{helper}").exists():
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.02)
        self.assertEqual(self.ask(server, 2), "")

    def test_a_killed_rank_ends_what_runs_and_what_waits(self):
        for layout in ("tp", "pp"):
            server = self.serve(f"--parallel.{layout}=2", "--max-num-seqs=2")
            for _ in range(2):  # the engine that starts again is no worse
                ends, seconds = self.lose(server, signal.SIGKILL, 8)
                self.assertTrue(all(ends), ends)
                self.assertLess(seconds, 2)
                self.await_serving(server, 30)
            self.assertIn("killed by signal 9", "".join(server.log))

    def test_a_rank_that_hangs_ends_them_long_before_the_timeout(self):
        server = self.serve("--parallel.pp=2", "--max-num-seqs=2", "--rank-timeout=2s")
        ends, seconds = self.lose(server, signal.SIGSTOP, 6)
        self.assertTrue(all(ends), ends)
        self.assertLess(seconds, 6)
        self.await_serving(server, 30)
        self.assertIn("rank 1 has not answered for 2s", "".join(server.log))
        # Nobody asks anything meanwhile.
        [rank] = other_ranks(server)
        os.kill(rank, signal.SIGSTOP)
        deadline = time.monotonic() + 20
        while other_ranks(server) in ([], [rank]):
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.1)
        self.await_serving(server, 30)

    def test_a_first_rank_that_hangs_ends_the_others_long_before_the_timeout(self):
        server = self.serve("--parallel.tp=2", "--rank-timeout=2s")
        self.assertEqual(self.ask(server, 2), "")
        [rank] = other_ranks(server)
        server.process.send_signal(signal.SIGSTOP)
        try:
            start = time.monotonic()
            while state_of(rank) != "Z":  # it has ended; who started it cannot take note of it
                self.assertLess(time.monotonic(), start + 15)
                time.sleep(0.05)
            self.assertGreater(time.monotonic() - start, 2)
        finally:
            server.process.send_signal(signal.SIGCONT)
        self.await_serving(server, 30)
        self.assertIn("rank 0 has sent no heartbeat for 4s", "".join(server.log))

    def test_generate_ends_when_a_rank_hangs(self):
        process = subprocess.Popen(
            [COLOSSAL, "generate", self.model, "--prompt=The quick", "--max-new-tokens=4000", "--ranks=2",
             "--parallel.pp=2", "--rank-timeout=2s"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(process.kill)
        process.stdout.read(20)  # some of its text is there: it generates
        [rank] = ranks_started_by(process)
        os.kill(rank, signal.SIGSTOP)
        start = time.monotonic()
        _, errors = process.communicate(timeout=30)
        self.assertLess(time.monotonic() - start, 10)
        self.assertEqual(process.returncode, 3, errors)
        self.assertIn("rank 1 has not answered for 2s", errors)

    def test_a_time_for_ranks_that_makes_no_sense(self):
        for command in (["serve"], ["generate", "--prompt=a"], ["generate", "--chat"]):
            for flags, what_works in ((["--rank-timeout=1s"], "at least 2s"),
                                      (["--rank-timeout=5m"], "from 2s to less than 300s"),
                                      (["--rank-timeout=4s", "--parallel.timeout=4s"], "from 2s to less than 4s"),
                                      (["--rank-timeout=soon"], "such as 30s")):
                # Nothing is loaded before: there is no such folder.
                done = subprocess.run([COLOSSAL, command[0], self.root / "none", *command[1:], *flags],
                                      capture_output=True, text=True)
                self.assertEqual(done.returncode, 2, done.stderr)
                self.assertIn(flags[0], done.stderr)
                self.assertIn(what_works, done.stderr)

    def test_a_load_that_a_signal_ends_leaves_no_folder(self):
        file = self.root / "model.gguf"
        subprocess.run([COLOSSAL, "convert", self.model, file, "--type=f32"], check=True, capture_output=True)
        temporary = self.directory / "temporary"
        temporary.mkdir()
        environment = {**os.environ, "TMPDIR": str(temporary)}
        for command in (["serve", file, "--port=0"], ["generate", file, "--prompt=a", "--max-new-tokens=4000"]):
            for sent in (signal.SIGTERM, signal.SIGKILL):
                process = subprocess.Popen([COLOSSAL, *command], env=environment, stdout=subprocess.DEVNULL,
                                           stderr=subprocess.DEVNULL)
                deadline = time.monotonic() + 30
                while not list(temporary.iterdir()) and time.monotonic() < deadline:
                    time.sleep(0.001)
                self.assertTrue(list(temporary.iterdir()), command)
                process.send_signal(sent)
                process.wait(30)
                while list(temporary.iterdir()) and time.monotonic() < deadline:
                    time.sleep(0.01)
                self.assertEqual(list(temporary.iterdir()), [], (command, sent))

    def test_a_load_whose_group_is_killed_before_the_guard_runs_leaves_no_folder(self):
        done, temporary = self.load_with_faults("fork:1:after=slow,mkdir:1:after=killgroup")
        self.assertEqual(done.returncode, -signal.SIGKILL, done.stderr)
        deadline = time.monotonic() + 20
        while list(temporary.iterdir()) and time.monotonic() < deadline:
            time.sleep(0.05)
        self.assertEqual(list(temporary.iterdir()), [])

    def test_a_guard_that_cannot_be_started_is_told(self):
        done, temporary = self.load_with_faults("fork:1=EAGAIN")
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn(f"{temporary}/colossal-", done.stderr)
        self.assertIn("Resource temporarily unavailable", done.stderr)
        self.assertEqual(list(temporary.iterdir()), [])

    def load_with_faults(self, faults):
        """A load of a GGUF file with these faults (tests/support/crash_shim.c), and its folder for temporary files."""
        file = self.directory / "model.gguf"
        subprocess.run([COLOSSAL, "convert", self.model, file, "--type=f32"], check=True, capture_output=True)
        temporary = self.directory / "temporary"
        temporary.mkdir()
        environment = {**os.environ, "TMPDIR": str(temporary), "LD_PRELOAD": str(SHIM),
                       "COLOSSAL_FAULT_PATH": f"{temporary}/colossal-", "COLOSSAL_FAULTS": faults}
        done = subprocess.run([COLOSSAL, "generate", file, "--prompt=a", "--max-new-tokens=4", "--train.threads=1"],
                              env=environment, capture_output=True, text=True, timeout=60, start_new_session=True)
        return done, temporary


if __name__ == "__main__":
    unittest.main()
