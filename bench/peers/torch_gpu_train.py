"""Trains a model of transformers on one GPU with PyTorch: autocast to bf16, fp32 weights, SDPA, fused AdamW.

  torch_gpu_train.py eager|compile --config JSON --sequence N --batch N --micro-batch N --steps N

Prints a JSON line: step_seconds of each step, device_peak_bytes, loss_first, loss_last.
"""
import argparse
import json
import time

import torch
from transformers import AutoModelForCausalLM
from transformers.models.auto.configuration_auto import CONFIG_MAPPING

parser = argparse.ArgumentParser()
parser.add_argument("mode", choices=["eager", "compile"])
parser.add_argument("--config", type=json.loads, required=True)
for name in ("sequence", "batch", "micro-batch", "steps"):
    parser.add_argument(f"--{name}", type=int, required=True)
arguments = parser.parse_args()

torch.set_float32_matmul_precision("high")
fields = dict(arguments.config, use_cache=False, attn_implementation="sdpa")
model = AutoModelForCausalLM.from_config(CONFIG_MAPPING[fields.pop("model_type")](**fields)).float().cuda().train()
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, fused=True)
parts = arguments.batch // arguments.micro_batch


def loss_of(tokens):
    with torch.autocast("cuda", torch.bfloat16):
        return model(input_ids=tokens, labels=tokens).loss / parts


step_loss = torch.compile(loss_of) if arguments.mode == "compile" else loss_of
seconds, losses = [], []
for step in range(arguments.steps):
    torch.cuda.synchronize()
    start = time.perf_counter()
    total = 0.0
    for _ in range(parts):
        tokens = torch.randint(0, 256, (arguments.micro_batch, arguments.sequence), device="cuda")
        loss = step_loss(tokens)
        loss.backward()
        total += loss.detach()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    losses.append(float(total))
    torch.cuda.synchronize()
    seconds.append(time.perf_counter() - start)
print(json.dumps({"step_seconds": seconds, "device_peak_bytes": torch.cuda.max_memory_allocated(),
                  "loss_first": losses[0], "loss_last": losses[-1]}))
