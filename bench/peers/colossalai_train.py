"""Colossal-AI's Booster with its ZeRO plugin (stage 2) under torchrun.

It refuses a CPU and talks to streams that a CPU has not: both are taken out of its way here.
"""
import contextlib
import os
import warnings

warnings.filterwarnings("ignore")

import torch

from common import Batches, adamw, build_model, loss_of, measure, parse_arguments

import colossalai
import torch.distributed as dist
from colossalai.accelerator.cpu_accelerator import CpuAccelerator
from colossalai.booster import Booster
from colossalai.booster.plugin import LowLevelZeroPlugin
from colossalai.zero.low_level import LowLevelZeroOptimizer


class NoStream:
    """On a CPU everything is in order already."""

    def __getattr__(self, name):
        return lambda *arguments: self


LowLevelZeroOptimizer._sanity_checks = lambda self: None
for name in ("Stream", "current_stream", "default_stream"):
    setattr(CpuAccelerator, name, lambda self, *arguments, **options: NoStream())
CpuAccelerator.stream = lambda self, *arguments: contextlib.nullcontext()
CpuAccelerator.synchronize = lambda self, *arguments: None
torch.Tensor.record_stream = lambda self, *arguments: None

arguments = parse_arguments(["colossalai"])
colossalai.launch_from_torch(backend="gloo", verbose=False)
rank, ranks = dist.get_rank(), dist.get_world_size()
model = build_model(arguments)
booster = Booster(plugin=LowLevelZeroPlugin(stage=2, precision=arguments.dtype, max_norm=0.0))
model, optimizer, _, _, _ = booster.boost(model, adamw(model.parameters()))
torch.set_num_threads(arguments.threads)  # boost() may set another number
batches = Batches(arguments, rank, ranks)


def step():
    loss = loss_of(model, *batches.next())
    booster.backward(loss, optimizer)
    optimizer.step()
    optimizer.zero_grad()
    return loss.item()


measure(arguments, step, rank, ranks)
