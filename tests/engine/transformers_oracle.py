"""Trains models of transformers with torch.optim.AdamW and writes what our engine must reproduce.

transformers_oracle.py DIRECTORY TYPE FAMILY:STEPS:EPS...: FAMILY is one of FAMILIES below, or FAMILY.balanced, TYPE
is float64 or float32, EPS is AdamW's. DIRECTORY/FAMILY gets
  model/              the initial weights, as transformers saves them
  batch.safetensors   tokens [batch, sequence + 1], the same in every step
  result.safetensors  losses [steps], first_gradient.NAME, weight.NAME
"""
import pathlib
import sys

import torch
import torch.nn.functional as F
from safetensors.torch import save_file
from transformers import (GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM, Qwen2Config,
                          MixtralConfig, MixtralForCausalLM, Qwen2ForCausalLM, Qwen3MoeConfig, Qwen3MoeForCausalLM)

from family_oracle import in_files

LLAMA = dict(vocab_size=97, hidden_size=36, intermediate_size=52, num_hidden_layers=2, num_attention_heads=6,
             num_key_value_heads=2, max_position_embeddings=64)
FAMILIES = {
    "gpt2": (GPT2LMHeadModel, GPT2Config(
        vocab_size=97, n_positions=16, n_embd=36, n_layer=2, n_head=3, n_inner=52, resid_pdrop=0.0, embd_pdrop=0.0,
        attn_pdrop=0.0, bos_token_id=0, eos_token_id=0)),
    "llama": (LlamaForCausalLM, LlamaConfig(**LLAMA, attention_bias=True, mlp_bias=True)),
    # The factor acts on some frequencies wholly, on some in part, on others not at all.
    "llama3": (LlamaForCausalLM, LlamaConfig(
        **LLAMA, tie_word_embeddings=True, rms_norm_eps=1e-5,
        rope_parameters=dict(rope_type="llama3", rope_theta=500.0, factor=8.0, low_freq_factor=1.0,
                             high_freq_factor=4.0, original_max_position_embeddings=16))),
    "qwen2": (Qwen2ForCausalLM, Qwen2Config(
        **LLAMA, rope_parameters=dict(rope_type="default", rope_theta=1e6))),
    "mixtral": (MixtralForCausalLM, MixtralConfig(**LLAMA, num_local_experts=5, num_experts_per_tok=2)),
    "qwen3_moe": (Qwen3MoeForCausalLM, Qwen3MoeConfig(
        **LLAMA, head_dim=8, num_experts=7, num_experts_per_tok=3, moe_intermediate_size=12, norm_topk_prob=True)),
}
# The same with transformers' loss that balances experts; losses are told without it.
BALANCED = {"mixtral": dict(output_router_logits=True, router_aux_loss_coef=0.7),
            "qwen3_moe": dict(output_router_logits=True, router_aux_loss_coef=0.4)}


def train(directory, family, dtype, steps, eps):
    torch.manual_seed(5)
    directory.mkdir()
    family, _, balanced = family.partition(".")
    make_model, config = FAMILIES[family]
    if balanced:
        for field, value in BALANCED[family].items():
            setattr(config, field, value)
    # transformers rounds to float32 in its own RMS norm and softmax, also in a float64 model; PyTorch's, which compute
    # the same, don't. (Its rotary tables stay float32.)
    config._attn_implementation = "sdpa"
    config._experts_implementation = "eager"
    model = make_model(config)
    for parent in list(model.modules()):
        for name, norm in parent.named_children():
            if type(norm).__name__.endswith("RMSNorm"):
                setattr(parent, name, torch.nn.RMSNorm(norm.weight.numel(), eps=norm.variance_epsilon))
    model.to(dtype).train()
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
        output = model(tokens[:, :-1])
        logits = output.logits
        loss = F.cross_entropy(logits.reshape(-1, 97), tokens[:, 1:].reshape(-1))
        optimizer.zero_grad()
        (loss + model.router_aux_loss_coef * output.aux_loss if balanced else loss).backward()
        if step == 0:
            result["first_logits"] = logits.detach().contiguous()
            for name, parameter in model.named_parameters():
                for tensor, gradient in in_files(family, name, parameter.grad).items():
                    result["first_gradient." + tensor] = gradient.clone().contiguous()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        losses.append(loss.item())
    result["losses"] = torch.tensor(losses, dtype=torch.float64)
    for name, parameter in model.named_parameters():
        for tensor, weight in in_files(family, name, parameter.detach()).items():
            result["weight." + tensor] = weight.contiguous()
    save_file(result, directory / "result.safetensors")


torch.set_num_threads(1)
root, type_name, *runs = sys.argv[1:]
for run in runs:
    family, steps, eps = run.split(":")
    train(pathlib.Path(root) / family, family, getattr(torch, type_name), int(steps), float(eps))
