"""PyTorch's DTensor tensor parallelism under torchrun: GPT-2 with the projections cut by columns and
rows, the vocabulary sharded, its loss parallel. transformers' GPT-2 holds them as Conv1D, which
DTensor cannot cut, so the model is written here with torch.nn.Linear."""
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.distributed.tensor import Replicate, Shard
from torch.distributed.tensor.parallel import (ColwiseParallel, RowwiseParallel, loss_parallel,
                                               parallelize_module)

from common import Batches, adamw, autocast, join_ranks, measure, parse_arguments


class Block(nn.Module):
    def __init__(self, hidden, heads):
        super().__init__()
        self.head_size = hidden // heads
        self.attention_norm, self.mlp_norm = nn.LayerNorm(hidden), nn.LayerNorm(hidden)
        self.query, self.key, self.value = (nn.Linear(hidden, hidden) for _ in range(3))
        self.output = nn.Linear(hidden, hidden)
        self.up, self.down = nn.Linear(hidden, 4 * hidden), nn.Linear(4 * hidden, hidden)

    def forward(self, x):
        batch, sequence = x.shape[:2]
        y = self.attention_norm(x)
        heads = [projection(y).view(batch, sequence, -1, self.head_size).transpose(1, 2)
                 for projection in (self.query, self.key, self.value)]
        y = F.scaled_dot_product_attention(*heads, is_causal=True)
        x = x + self.output(y.transpose(1, 2).reshape(batch, sequence, -1))
        return x + self.down(F.gelu(self.up(self.mlp_norm(x)), approximate="tanh"))


class Gpt2(nn.Module):
    def __init__(self, arguments):
        super().__init__()
        hidden = arguments.hidden
        self.tokens = nn.Embedding(arguments.vocabulary, hidden)
        self.positions = nn.Embedding(1024, hidden)
        self.blocks = nn.ModuleList(Block(hidden, arguments.heads) for _ in range(arguments.layers))
        self.final_norm = nn.LayerNorm(hidden)
        self.head = nn.Linear(hidden, arguments.vocabulary, bias=False)
        for name, parameter in self.named_parameters():
            if parameter.dim() == 2:
                nn.init.normal_(parameter, std=0.02)
            elif name.endswith("bias"):
                nn.init.zeros_(parameter)

    def forward(self, tokens):
        x = self.tokens(tokens) + self.positions(torch.arange(tokens.shape[1]))
        for block in self.blocks:
            x = block(x)
        return self.head(self.final_norm(x))


arguments = parse_arguments(["dtensor"])
torch.set_num_threads(arguments.threads)
rank, ranks = join_ranks()
batches = Batches(arguments, 0, 1)  # all ranks see all of a step's sequences
torch.manual_seed(0)
model = Gpt2(arguments)
plan = {"tokens": RowwiseParallel(input_layouts=Replicate()),
        "head": ColwiseParallel(output_layouts=Shard(-1), use_local_output=False)}
for layer in range(arguments.layers):
    columns, rows = ("query", "key", "value", "up"), ("output", "down")
    plan |= {f"blocks.{layer}.{name}": ColwiseParallel() for name in columns}
    plan |= {f"blocks.{layer}.{name}": RowwiseParallel() for name in rows}
mesh = torch.distributed.init_device_mesh("cpu", (ranks,))
model = parallelize_module(model, mesh, plan)
model.head.weight = model.tokens.weight  # both cut by rows: tied after cutting
# The fused optimizer takes either kind of parameter, not both at once.
optimizers = [adamw(parameters) for parameters in (
    [p for p in model.parameters() if hasattr(p, "to_local")],
    [p for p in model.parameters() if not hasattr(p, "to_local")])]


def step():
    inputs, labels = batches.next()
    with loss_parallel():
        with autocast(arguments):
            logits = model(inputs)
        loss = F.cross_entropy(logits.float().flatten(0, 1), labels.flatten())
        loss.backward()
    for optimizer in optimizers:
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
    return (loss.full_tensor() if hasattr(loss, "full_tensor") else loss).detach()


measure(arguments, step, rank, ranks)
