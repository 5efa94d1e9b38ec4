"""Process groups that are made, time out, are aborted or lose a rank: every failure names the rank."""
import datetime
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import unittest

import torch
import torch.distributed as dist
from torch.distributed import DistBackendError, ReduceOp

import colossal.distributed  # noqa: F401  (registers the backend)
from process_group_ranks import RANK, SIZE


class Groups(unittest.TestCase):
    def test_new_group(self):
        group = dist.new_group([0, SIZE - 1])
        if RANK in (0, SIZE - 1):
            self.assertEqual(dist.get_backend(group), "colossal")
            tensor = torch.tensor([1.0 + RANK])
            dist.all_reduce(tensor, group=group)
            self.assertEqual(tensor.item(), 1.0 + SIZE)
            dist.broadcast(tensor, SIZE - 1, group=group)
            dist.destroy_process_group(group)

    def test_group_of_one(self):
        for rank in range(SIZE):
            group = dist.new_group([rank])
            if RANK == rank:
                tensor = torch.tensor([3.0, 4.0])
                dist.all_reduce(tensor, ReduceOp.AVG, group=group)
                whole = torch.empty(2)
                dist.all_gather_single(whole, tensor, group=group)
                dist.barrier(group=group)
                self.assertEqual(whole.tolist(), [3.0, 4.0])

    def test_split_device_mesh(self):
        mesh = dist.init_device_mesh("cpu", (1, SIZE), mesh_dim_names=("outer", "inner"))
        tensor = torch.ones(1)
        dist.all_reduce(tensor, group=mesh.get_group("inner"))
        self.assertEqual(tensor.item(), SIZE)

    def test_timeout_of_a_group(self):
        """Rank 0 alone calls: the error names another, which learns of it with its next call."""
        group = dist.new_group(timeout=datetime.timedelta(seconds=2))
        begin = time.monotonic()
        if RANK == 0:
            with self.assertRaisesRegex(DistBackendError, "all_reduce of 16 B.*timed out after 2s: rank 1.* did not"):
                dist.all_reduce(torch.ones(4), group=group)
            self.assertLess(time.monotonic() - begin, 10)
        dist.barrier()
        begin = time.monotonic()
        work = dist.all_reduce(torch.ones(4), group=group, async_op=True)
        with self.assertRaisesRegex(DistBackendError, r"timed out after 2s: rank \d"):
            work.wait()
        with self.assertRaises(DistBackendError):
            work.get_future().wait()
        self.assertLess(time.monotonic() - begin, 1.5)

    def test_abort(self):
        group = dist.new_group()
        if RANK == SIZE - 1:
            time.sleep(0.3)
            group.abort()
        with self.assertRaisesRegex(DistBackendError, f"rank {SIZE - 1}.*aborted"):
            dist.all_reduce(torch.ones(4), group=group)


    def test_abort_of_a_message(self):
        """A receive that waits for its peer to connect does not wait for the timeout."""
        group = dist.new_group()
        work = dist.irecv(torch.empty(4), (RANK + 1) % SIZE, group=group)
        time.sleep(0.5)  # until it waits
        begin = time.monotonic()
        group.abort()
        with self.assertRaisesRegex(DistBackendError, f"abandoned: rank {(RANK + 1) % SIZE} did not come"):
            work.wait()
        self.assertLess(time.monotonic() - begin, 30)


class Refusals(unittest.TestCase):
    def test_other_sizes(self):
        group = dist.new_group()
        with self.assertRaisesRegex(DistBackendError, "does not match"):
            dist.all_reduce(torch.ones(4 + RANK), group=group)

    def test_arguments(self):
        for message, call in {
            "bitwise operations take integers": lambda: dist.all_reduce(torch.ones(1), ReduceOp.BAND),
            "AVG of bool": lambda: dist.all_reduce(torch.ones(1) > 0, ReduceOp.AVG),
            "reduction of Float8": lambda: dist.all_reduce(torch.ones(1).to(torch.float8_e4m3fn)),
            "PREMUL_SUM": lambda: dist.all_reduce(torch.ones(1), dist._make_nccl_premul_sum(2.0)),
            f"1 output elements: must be {SIZE}": lambda: dist.all_gather_single(torch.empty(1), torch.ones(1)),
            f"4 input elements: must be {4 * SIZE}": lambda: dist.reduce_scatter_single(torch.empty(4), torch.ones(4)),
            "must have one dtype": lambda: dist.all_gather_single(torch.empty(SIZE).double(), torch.ones(1)),
            "pass the split sizes": lambda: dist.all_to_all_single(torch.empty(SIZE + 1), torch.ones(SIZE + 1)),
        }.items():
            with self.subTest(message), self.assertRaisesRegex((ValueError, RuntimeError), message):
                call()

    def test_options(self):
        with self.assertRaisesRegex(ValueError, "leave pg_options out"):
            dist.new_group(pg_options=1)


def call_alone(rank, folder, report):
    """A process of its own, which writes the error of its rank 0 to the file `report`"""
    try:
        dist.init_process_group("colossal", init_method=f"file://{folder}/store", rank=rank, world_size=2,
                                timeout=datetime.timedelta(seconds=3 if report == "missing" else 300))
        dist.all_reduce(torch.ones(4))
        if rank == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        dist.all_reduce(torch.ones(4))
    except DistBackendError as error:  # of rank 0
        pathlib.Path(folder, report).write_text(str(error))


PROGRAM_WITH_A_CALLBACK = """
import sys, time, torch, colossal.distributed
torch.distributed.init_process_group("colossal", init_method=f"file://{sys.argv[1]}/store", rank=0, world_size=1)
torch.distributed.all_reduce(torch.ones(1), async_op=True).get_future().then(lambda future: time.sleep(0.5))
"""


@unittest.skipUnless(RANK == 0, "rank 0 starts processes of its own")
class Processes(unittest.TestCase):
    def report_of(self, ranks, report):
        """What rank 0 reports"""
        context = torch.multiprocessing.get_context("spawn")
        with tempfile.TemporaryDirectory() as folder:
            processes = [context.Process(target=call_alone, args=(rank, folder, report)) for rank in ranks]
            for process in processes:
                process.start()
            for process in reversed(processes):
                process.join()
            return pathlib.Path(folder, report).read_text()

    def test_died(self):
        begin = time.monotonic()
        self.assertRegex(self.report_of([0, 1], "died"), "all_reduce.*lost rank 1")
        self.assertLess(time.monotonic() - begin, 200)  # not the timeout

    def test_never_came(self):
        self.assertRegex(self.report_of([0], "missing"), "rank 0 of 2.*timed out after 3s: rank 1 did not come")

    def test_a_program_ends_in_a_callback(self):
        """Python ends a thread that needs it then, and with the thread the process."""
        with tempfile.TemporaryDirectory() as folder:
            ended = subprocess.run([sys.executable, "-c", PROGRAM_WITH_A_CALLBACK, folder], capture_output=True, text=True)
        self.assertEqual(ended.returncode, 0, ended.stderr)
