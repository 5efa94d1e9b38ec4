"""A training loop of your own with colossal.boost(): trains a small Llama on the texts of licenses.

  torchrun --nproc-per-node=2 examples/python/plain_loop.py --zero 3 --steps 50
  torchrun --nproc-per-node=2 examples/python/plain_loop.py --zero 1 --steps 100    # goes on from step 50

The loop is one of DistributedDataParallel; the lines with `colossal` are what is new."""
import argparse
import contextlib

import torch
import torch.distributed
from passages import Passages
from transformers import LlamaConfig, LlamaForCausalLM

import colossal

parser = argparse.ArgumentParser()
parser.add_argument("--zero", type=int, default=3, help="0 to 3: what is divided among the ranks")
parser.add_argument("--steps", type=int, default=50)
parser.add_argument("--directory", default="runs/plain_loop")
options = parser.parse_args()

PARTS = 2  # forward and backward passes of a step
CONFIG = LlamaConfig(vocab_size=256, hidden_size=64, intermediate_size=128, num_hidden_layers=2, num_attention_heads=4,
                     num_key_value_heads=2, max_position_embeddings=64)

torch.distributed.init_process_group("gloo")  # for the sampler and for the mean of the losses; the engine does not need it
torch.manual_seed(0)
model = LlamaForCausalLM(CONFIG)
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
scheduler = torch.optim.lr_scheduler.LinearLR(optimizer, start_factor=0.1, total_iters=10)

# From here on the engine has weights, gradients and the optimizer's state. Model and optimizer are the same objects.
model, optimizer = colossal.boost(model, optimizer, zero=options.zero, max_grad_norm=1.0)

# The newest checkpoint, of any number of ranks and any --zero. Without one, training begins at step 0.
start = colossal.load(model, f"{options.directory}/checkpoints")
if start.step:
    scheduler.load_state_dict(start.state["scheduler"])

passages = Passages(64)
sampler = torch.utils.data.DistributedSampler(passages, shuffle=True)
loader = torch.utils.data.DataLoader(passages, batch_size=8, sampler=sampler, drop_last=True)


def batches():
    """Without end, each epoch in an order of its own."""
    epoch = 0
    while True:
        sampler.set_epoch(epoch)
        yield from loader
        epoch += 1


def mean(value):
    """Of all ranks."""
    torch.distributed.all_reduce(value)
    return value.item() / torch.distributed.get_world_size()


stream = batches()
for _ in range(start.step * PARTS):  # those that were seen before
    next(stream)
for step in range(start.step, options.steps):
    loss = torch.zeros(())
    for part in range(PARTS):
        # Gradients are summed over the ranks in the last pass of a step only.
        with model.no_sync() if part < PARTS - 1 else contextlib.nullcontext():
            part_loss = model(**next(stream)).loss / PARTS
            part_loss.backward()
        loss += part_loss.detach()
    optimizer.step()
    scheduler.step()
    optimizer.zero_grad()
    loss = mean(loss)
    if colossal.rank() == 0:
        print(f"step {step} loss {loss:.4f} norm {optimizer.grad_norm:.3f}")
    if step + 1 in (options.steps // 2, options.steps):
        # Every rank writes its shards. A checkpoint is also a folder that from_pretrained() opens.
        colossal.save(model, f"{options.directory}/checkpoints", keep=2, state={"scheduler": scheduler.state_dict()})

# An evaluation needs nothing special, on all ranks together.
model.eval()
with torch.no_grad():
    batch = torch.stack([passages[index]["input_ids"] for index in range(8)])
    loss = model(input_ids=batch, labels=batch).loss.item()
if colossal.rank() == 0:
    print(f"evaluation loss {loss:.4f}")

# At --zero 3, a rank has its part of the weights only. Here all are whole on each rank.
with colossal.gather(model):
    if colossal.rank() == 0:
        model.save_pretrained(f"{options.directory}/model")
    torch.distributed.barrier()  # until rank 0 has written them
torch.distributed.destroy_process_group()
