"""colossal.transformers.Trainer: the Trainer of transformers with the engine. Trains a small Llama on the texts of licenses.

  torchrun --nproc-per-node=2 examples/python/trainer.py --zero 3 --steps 20
  torchrun --nproc-per-node=2 examples/python/trainer.py --zero 1 --steps 40 --resume   # goes on from step 20

Without the engine, the program would say transformers.Trainer, and have no boost=."""
import argparse

import torch
import transformers
from passages import Passages

import colossal.transformers

parser = argparse.ArgumentParser()
parser.add_argument("--zero", type=int, default=3, help="0 to 3: what is divided among the ranks")
parser.add_argument("--steps", type=int, default=20)
parser.add_argument("--resume", action="store_true", help="go on from the newest checkpoint")
parser.add_argument("--directory", default="runs/trainer")
options = parser.parse_args()

torch.manual_seed(0)
model = transformers.LlamaForCausalLM(transformers.LlamaConfig(
    vocab_size=256, hidden_size=64, intermediate_size=128, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
    max_position_embeddings=64))
arguments = transformers.TrainingArguments(
    output_dir=options.directory, max_steps=options.steps, per_device_train_batch_size=8, gradient_accumulation_steps=2,
    learning_rate=3e-3, warmup_steps=10, lr_scheduler_type="constant_with_warmup", max_grad_norm=1.0, logging_steps=5,
    save_steps=options.steps, use_cpu=True, ddp_backend="gloo", dataloader_pin_memory=False, report_to=[], disable_tqdm=True)
trainer = colossal.transformers.Trainer(
    model, arguments, train_dataset=Passages(64), eval_dataset=Passages(64, ("Artistic",)),
    boost={"zero": options.zero})  # the arguments of colossal.boost(): dtype="bf16", offload={...} and others
trainer.train(resume_from_checkpoint=options.resume)  # checkpoints go on at another --zero and number of ranks
print(f"evaluation loss {trainer.evaluate()['eval_loss']:.4f}")
trainer.save_model(f"{options.directory}/model")  # a folder that from_pretrained() opens
