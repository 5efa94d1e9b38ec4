"""DeepSpeed ZeRO 1 to 3 under torchrun; bf16 is its own (bf16 weights, fp32 masters)."""
import logging

import torch

from common import Batches, adamw, build_model, join_ranks, loss_of, measure, parse_arguments

import deepspeed

BUCKET = 50_000_000  # elements; DeepSpeed's default is ten times that, which only costs memory here

arguments = parse_arguments(["deepspeed1", "deepspeed2", "deepspeed3"])
logging.getLogger("DeepSpeed").setLevel(logging.ERROR)
rank, ranks = join_ranks()
deepspeed.init_distributed("gloo")
model = build_model(arguments)
engine, _, _, _ = deepspeed.initialize(model=model, optimizer=adamw(model.parameters()), config={
    "train_micro_batch_size_per_gpu": arguments.batch // ranks,
    "gradient_accumulation_steps": 1,
    "gradient_clipping": 0.0,
    "steps_per_print": 10**9,
    "zero_allow_untested_optimizer": True,
    "bf16": {"enabled": arguments.dtype == "bf16"},
    "communication_data_type": arguments.dtype,
    "zero_optimization": {
        "stage": int(arguments.system[-1]),
        "contiguous_gradients": True,
        "reduce_bucket_size": BUCKET,
        "allgather_bucket_size": BUCKET,
    },
})
torch.set_num_threads(arguments.threads)  # initialize() sets another number
batches = Batches(arguments, rank, ranks)


def step():
    loss = loss_of(engine, *batches.next())
    engine.backward(loss)
    engine.step()
    return loss.item()


measure(arguments, step, rank, ranks)
