"""Trains transformers' GPT-2 with torch.optim.AdamW and writes what our engine must reproduce.

transformers_oracle.py DIRECTORY TYPE STEPS EPS: TYPE is float64 or float32, EPS is AdamW's. DIRECTORY gets
  model/              the initial weights, as transformers saves them
  batch.safetensors   tokens [batch, sequence + 1], the same in every step
  result.safetensors  losses [steps], first_gradient.NAME, weight.NAME
"""
import pathlib
import sys

import torch
import torch.nn.functional as F
from safetensors.torch import save_file
from transformers import GPT2Config, GPT2LMHeadModel

directory, type_name, steps, eps = (pathlib.Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]),
                                    float(sys.argv[4]))
dtype = getattr(torch, type_name)
torch.manual_seed(5)
torch.set_num_threads(1)

config = GPT2Config(vocab_size=97, n_positions=16, n_embd=36, n_layer=2, n_head=3, n_inner=52,
                    resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, bos_token_id=0, eos_token_id=0)
config._attn_implementation = "eager"
model = GPT2LMHeadModel(config).to(dtype).train()
model.save_pretrained(directory / "model")
tokens = torch.randint(0, 97, (12, 11))
save_file({"tokens": tokens}, directory / "batch.safetensors")

decayed = [p for p in model.parameters() if p.dim() >= 2]
others = [p for p in model.parameters() if p.dim() < 2]
optimizer = torch.optim.AdamW(
    [{"params": decayed, "weight_decay": 0.1}, {"params": others, "weight_decay": 0.0}],
    lr=3e-3, betas=(0.9, 0.95), eps=eps)

result, losses = {}, []
for step in range(steps):
    logits = model(tokens[:, :-1]).logits
    loss = F.cross_entropy(logits.reshape(-1, 97), tokens[:, 1:].reshape(-1))
    optimizer.zero_grad()
    loss.backward()
    if step == 0:
        result["first_logits"] = logits.detach().contiguous()
        for name, parameter in model.named_parameters():
            result["first_gradient." + name] = parameter.grad.clone()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    losses.append(loss.item())
result["losses"] = torch.tensor(losses, dtype=torch.float64)
for name, parameter in model.named_parameters():
    result["weight." + name] = parameter.detach().contiguous()
save_file(result, directory / "result.safetensors")
