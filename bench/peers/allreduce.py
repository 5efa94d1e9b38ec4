"""Collectives of PyTorch's Gloo and DeepSpeed's shared-memory all-reduce, under torchrun:
    allreduce.py gloo|deepspeed SECONDS BYTES...
Prints a JSON line per collective and size, measured as comm_benchmark.cpp does: BYTES is the whole
buffer (fp32), a figure takes about SECONDS, calls are timed on rank 0 and follow without a pause.
"""
import glob
import json
import os
import statistics
import sys
import time

import torch
import torch.distributed as dist

from common import join_ranks

MIN_CALLS, MAX_CALLS = 5, 2000


def deepspeed_all_reduce(rank, ranks):
    """Compiles DeepSpeed's operator at first use."""
    from deepspeed.ops.op_builder.cpu import ShareMemCommBuilder
    os.environ["LOCAL_SIZE"] = str(ranks)
    if rank == 0:
        ShareMemCommBuilder().load(verbose=False)
    dist.barrier()
    ShareMemCommBuilder().load(verbose=False).initialize(ranks, rank)
    return torch.ops.deepspeed.inference_all_reduce_


def seconds_of(call):
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def measure(operation, size, call):
    call()  # connections and buffers are made at first use
    calls = torch.tensor([max(MIN_CALLS, min(MAX_CALLS, seconds / seconds_of(call)))], dtype=torch.float64)
    dist.broadcast(calls, 0)
    times = [seconds_of(call) for _ in range(int(calls))]
    if rank == 0:
        print(json.dumps({"operation": operation, "bytes": size, "calls": len(times),
                          "seconds_min": min(times), "seconds": statistics.median(times),
                          "seconds_max": max(times)}), flush=True)


backend, seconds = sys.argv[1], float(sys.argv[2])
torch.set_num_threads(1)
rank, ranks = join_ranks()
all_reduce = deepspeed_all_reduce(rank, ranks) if backend == "deepspeed" else dist.all_reduce
for size in map(int, sys.argv[3:]):
    part = torch.ones(size // 4 // ranks)
    full = torch.ones(part.numel() * ranks)
    all_reduce(full)
    assert full[-1] == ranks, f"all-reduce of ones gave {full[-1]}"
    full.zero_()  # sums of zeros stay finite however many calls there are
    measure("all_reduce", size, lambda: all_reduce(full))
    if backend == "gloo":
        measure("reduce_scatter", size, lambda: dist.reduce_scatter_tensor(part, full))
        measure("all_gather", size, lambda: dist.all_gather_into_tensor(full, part))
dist.barrier()
dist.destroy_process_group()
if rank == 0:  # DeepSpeed leaves its segments behind
    for segment in glob.glob(f"/dev/shm/deepspeed_allreduce_buffer_*_{os.environ['MASTER_PORT']}_*"):
        os.remove(segment)
