"""What happens when ranks of colossal.boost() do not do the same, and when Ctrl-C comes while one waits for another."""
import os
import signal
import socket
import subprocess
import sys
import textwrap
import time
import unittest

PROGRAM = """
import os, sys, time, torch, colossal
torch.set_num_threads(1)
rank = int(os.environ["RANK"])
model = torch.nn.Linear(4, 4)
model, optimizer = colossal.boost(model, torch.optim.AdamW(model.parameters()), zero={zero}, timeout={timeout})
print("ready", flush=True)
def step():
    model(torch.ones(2, 4)).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
step()
"""


class Ranks:
    """Processes that run the program and some more lines."""

    def __init__(self, lines, zero=0, timeout=60.0):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self.processes = [subprocess.Popen(
            [sys.executable, "-c", PROGRAM.format(zero=zero, timeout=timeout) + textwrap.dedent(lines)], text=True,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            env={**os.environ, "RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2",
                 "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}) for rank in range(2)]

    def wait_for(self, rank, text):
        for line in self.processes[rank].stdout:
            if text in line:
                return
        raise AssertionError(f"rank {rank} ended before it wrote {text!r}: {self.processes[rank].stderr.read()}")

    def end_of(self, rank, seconds):
        """Its exit code and its errors."""
        _, errors = self.processes[rank].communicate(timeout=seconds)
        return self.processes[rank].returncode, errors

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for process in self.processes:
            process.kill()
            process.communicate()


class Failures(unittest.TestCase):
    def test_a_rank_that_does_not_come_is_named(self):
        for zero, call in ((0, "step()"), (3, "model(torch.ones(2, 4))"), (1, "colossal.save(model, '/nonexistent/runs')")):
            with self.subTest(zero=zero, call=call), Ranks(f"""
                    if rank == 0:
                        {call}
                    time.sleep(60)
                    """, zero, timeout=3.0) as ranks:
                ranks.wait_for(0, "ready")
                begin = time.monotonic()
                code, errors = ranks.end_of(0, 40)
                self.assertLess(time.monotonic() - begin, 30)
                self.assertNotEqual(code, 0)
                self.assertRegex(errors, "CommError: .*rank 1")

    def test_other_calls_than_those_of_another_rank_are_named(self):
        with Ranks("""
                if rank == 0:
                    step()
                else:
                    with colossal.gather(model):
                        pass
                """, zero=3) as ranks:
            codes, errors = zip(*(ranks.end_of(rank, 60) for rank in range(2)))
            self.assertNotEqual(codes, (0, 0))
            self.assertIn("CommError", "".join(errors))

    def test_ctrl_c_ends_a_wait(self):
        with Ranks("""
                if rank == 1:
                    time.sleep(60)
                print("waits", flush=True)
                step()
                """) as ranks:
            ranks.wait_for(0, "waits")
            time.sleep(1)
            ranks.processes[0].send_signal(signal.SIGINT)
            code, errors = ranks.end_of(0, 20)
            self.assertEqual(code, -signal.SIGINT, errors)
            self.assertIn("KeyboardInterrupt", errors)

    def test_ctrl_c_between_calls_is_as_without_the_engine(self):
        with Ranks("""
                print("waits", flush=True)
                try:
                    time.sleep(60)
                except KeyboardInterrupt:
                    step()
                    print("went on", flush=True)
                """) as ranks:
            for rank in range(2):
                ranks.wait_for(rank, "waits")
            time.sleep(1)
            for process in ranks.processes:
                process.send_signal(signal.SIGINT)
            for rank in range(2):
                ranks.wait_for(rank, "went on")
                self.assertEqual(ranks.end_of(rank, 20)[0], 0)


if __name__ == "__main__":
    unittest.main()
