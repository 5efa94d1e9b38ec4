"""PyTorch: eager and torch.compile in one process, DDP and FSDP2 under torchrun."""
import torch

from common import (Batches, adamw, autocast, build_model, join_ranks, loss_of, measure,
                    parse_arguments)

arguments = parse_arguments(["eager", "compile", "ddp", "fsdp2"])
torch.set_num_threads(arguments.threads)
rank, ranks = join_ranks()
batches = Batches(arguments, rank, ranks)
model = build_model(arguments)
forward_in_autocast = True

if arguments.system == "ddp":
    model = torch.nn.parallel.DistributedDataParallel(model, gradient_as_bucket_view=True)
elif arguments.system == "fsdp2":
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
    policy = MixedPrecisionPolicy()
    if arguments.dtype == "bf16":
        policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
        forward_in_autocast = False  # the policy casts
    mesh = torch.distributed.init_device_mesh("cpu", (ranks,))
    for block in model.transformer.h:
        fully_shard(block, mesh=mesh, mp_policy=policy)
    fully_shard(model, mesh=mesh, mp_policy=policy)

optimizer = adamw(model.parameters())


def forward(inputs, labels):
    if not forward_in_autocast:
        return loss_of(model, inputs, labels)
    with autocast(arguments):
        return loss_of(model, inputs, labels)


if arguments.system == "compile":
    forward = torch.compile(forward)


def step():
    loss = forward(*batches.next())
    loss.backward()
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    return loss.item()


measure(arguments, step, rank, ranks)
