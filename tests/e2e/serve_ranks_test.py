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

from harness import COLOSSAL, EndToEndTest
from serve_test import Server, make_model


def other_ranks(server):
    """Process numbers of the ranks that a server has started."""
    children = pathlib.Path(f"/proc/{server.process.pid}/task/{server.process.pid}/children").read_text().split()
    return [int(child) for child in children if b"\0RANK=" in pathlib.Path(f"/proc/{child}/environ").read_bytes()]


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

    def test_a_time_for_ranks_that_makes_no_sense(self):
        done = subprocess.run([COLOSSAL, "serve", self.model, "--rank-timeout=1s"], capture_output=True, text=True)
        self.assertEqual(done.returncode, 2)
        self.assertIn("--rank-timeout=1s", done.stderr)
        self.assertIn("2s", done.stderr)

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


if __name__ == "__main__":
    unittest.main()
