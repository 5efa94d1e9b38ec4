"""Vision transformers of transformers under DDP (torchrun): images of random pixels that lie in memory, autocast to bf16."""
import argparse
import json

import torch
from transformers import ViTConfig, ViTForImageClassification

from common import adamw, join_ranks, measure

parser = argparse.ArgumentParser()
parser.add_argument("--config", type=json.loads, required=True, help="fields of ViTConfig")
for name in ("batch", "steps", "warmup"):
    parser.add_argument(f"--{name}", type=int, required=True)
arguments = parser.parse_args()
torch.set_num_threads(1)
rank, ranks = join_ranks()
torch.manual_seed(0)
config = ViTConfig(**arguments.config)
model = torch.nn.parallel.DistributedDataParallel(ViTForImageClassification(config).train(),
                                                  gradient_as_bucket_view=True)
optimizer = adamw(model.parameters())
share = arguments.batch // ranks
pixels = torch.randn(share, 3, config.image_size, config.image_size)
labels = torch.randint(0, config.num_labels, (share,))


def step():
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = model(pixels, labels=labels).loss
    loss.backward()
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    return loss.item()


measure(arguments, step, rank, ranks)
