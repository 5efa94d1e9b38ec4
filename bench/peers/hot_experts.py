"""Writes a GPT-OSS of random weights whose routers send all tokens to the first two experts: hot_experts.py FOLDER"""
import json
import sys

import torch
from transformers import GptOssConfig, GptOssForCausalLM

torch.manual_seed(0)
config = GptOssConfig(**json.loads(sys.argv[2]), bos_token_id=0, eos_token_id=0, pad_token_id=0)
model = GptOssForCausalLM(config).to(torch.bfloat16)
with torch.no_grad():
    for layer in model.model.layers:
        layer.mlp.router.weight.zero_()
        layer.mlp.router.bias.zero_()
        layer.mlp.router.bias[:2] = torch.tensor([60.0, 50.0])
model.save_pretrained(sys.argv[1])
