#!/usr/bin/env python3
"""Times torch.distributed's collectives over the backend "colossal" and over gloo in turn, on the ranks that torchrun
starts. Prints the best and the median time of a call on rank 0.

  PYTHONPATH=build/python .venv/bin/python -m torch.distributed.run --standalone --nproc-per-node=2 bench/process_group.py
"""
import argparse
import statistics
import time

import torch
import torch.distributed as dist

import colossal.distributed  # noqa: F401  (registers the backend)

SIZES = [16, 4 << 10, 64 << 10, 1 << 20, 16 << 20, 64 << 20]
CALLS_BYTES = 4 << 20  # of the calls that are timed as one


def call_of(operation, size, ranks):
    """size: bytes of the whole tensor of fp32. Returns a function of a process group."""
    whole = torch.zeros(size // 4)
    part, other = torch.zeros(size // 4 // ranks), torch.zeros(size // 4)
    return {
        "all_reduce": lambda group: dist.all_reduce(whole, group=group),
        "reduce_scatter": lambda group: dist.reduce_scatter_single(part, whole, group=group),
        "all_gather": lambda group: dist.all_gather_single(whole, part, group=group),
        "broadcast": lambda group: dist.broadcast(whole, 0, group=group),
        "all_to_all": lambda group: dist.all_to_all_single(other, whole, group=group),
    }[operation]


def seconds(call, groups, repeats, calls):
    """{name: seconds of a call, `repeats` times the mean of `calls`}; groups: {name: process group}"""
    found = {name: [] for name in groups}
    for repeat in range(repeats):
        for name, group in groups.items():
            dist.barrier(group=group)
            call(group)  # the first call touches memory; others come from the barrier at different times
            begin = time.perf_counter()
            for _ in range(calls):
                call(group)
            found[name].append((time.perf_counter() - begin) / calls)
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--operations", default="all_reduce,reduce_scatter,all_gather,broadcast,all_to_all")
    parser.add_argument("--sizes", type=lambda text: [int(size) for size in text.split(",")], default=SIZES, help="bytes")
    parser.add_argument("--repeats", type=int, default=15)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    dist.init_process_group("colossal")
    groups = {"colossal": dist.group.WORLD, "gloo": dist.new_group(backend="gloo")}
    rank, ranks = dist.get_rank(), dist.get_world_size()
    if rank == 0:
        print(f"{ranks} ranks; microseconds, best (median) of {arguments.repeats}")
        print(f"{'operation':15} {'bytes':>9}  {'colossal':>20}  {'gloo':>20}  times as fast")
    for operation in arguments.operations.split(","):
        for size in arguments.sizes:
            calls = min(max(1, CALLS_BYTES // size), 50)
            found = seconds(call_of(operation, size, ranks), groups, arguments.repeats, calls)
            best = {name: 1e6 * min(times) for name, times in found.items()}
            median = {name: 1e6 * statistics.median(times) for name, times in found.items()}
            if rank == 0:
                cells = [f"{best[name]:9.0f} ({median[name]:8.0f})" for name in groups]
                ratios = f"{best['gloo'] / best['colossal']:.1f} ({median['gloo'] / median['colossal']:.1f})"
                print(f"{operation:15} {size:9}  {cells[0]:>20}  {cells[1]:>20}  {ratios}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
