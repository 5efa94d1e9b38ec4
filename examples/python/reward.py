"""Group relative policy optimization (GRPO) with a reward that is a function, of a LoRA adapter: a small Llama, which at first writes
any bytes, learns to write letters.

  python examples/python/reward.py --steps 40
"""
import argparse
import json
import pathlib

import torch
import transformers

import colossal

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=40)
parser.add_argument("--directory", default="runs/reward")
options = parser.parse_args()
directory = pathlib.Path(options.directory)


def letters(completions):
    """The share of letters of the alphabet in each text."""
    return [sum(character.isascii() and character.isalpha() for character in text) / max(len(text), 1) for text in completions]


torch.manual_seed(0)
model = transformers.LlamaForCausalLM(transformers.LlamaConfig(
    vocab_size=257, hidden_size=64, intermediate_size=128, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
    max_position_embeddings=64, bos_token_id=256, eos_token_id=256, initializer_range=0.2))
directory.mkdir(parents=True, exist_ok=True)
prompts = directory / "prompts.jsonl"
prompts.write_text("".join(json.dumps({"prompt": f"Write: {number}"}) + "\n" for number in range(32)))

run = colossal.tune(
    "grpo", model=model, data={"train": prompts, "tokenizer": "bytes"},
    adapter={"kind": "lora", "rank": 8},  # the model keeps its weights; checkpoints are folders of PEFT
    tune={"reward": letters, "num_generations": 8, "max_completion_length": 16},
    train={"steps": options.steps, "global_batch": 32}, optimizer={"learning_rate": 1e-2}, scheduler={"name": "constant"},
    checkpoint={"directory": directory / "checkpoints"}, log={"directory": directory / "log"},
    on_step=lambda report: print(f"step {report.step} reward {report.metrics['reward']:.3f}"))
print(f"the adapter is in {run.checkpoint}")
