"""A program for Colossal-AI with other imports: trains a small GPT-2 to tell passages of programs from those of licenses.

  torchrun --nproc-per-node=2 examples/python/gpt2_colossalai.py --plugin gemini

Colossal-AI's lines are in the comments beside ours; all others are the same."""
import argparse

import torch
import torch.distributed as dist
from passages import LabelledPassages
from transformers import GPT2Config, GPT2ForSequenceClassification, get_linear_schedule_with_warmup

import colossal.colossalai as colossalai  # import colossalai
from colossal.colossalai.accelerator import get_accelerator  # from colossalai.accelerator import get_accelerator
from colossal.colossalai.booster import Booster  # from colossalai.booster import Booster
from colossal.colossalai.booster.plugin import (  # from colossalai.booster.plugin import ...
    GeminiPlugin, HybridParallelPlugin, LowLevelZeroPlugin, TorchDDPPlugin)
from colossal.colossalai.cluster import DistCoordinator  # from colossalai.cluster import DistCoordinator
from colossal.colossalai.nn.optimizer import HybridAdam  # from colossalai.nn.optimizer import HybridAdam

EPOCHS, BATCH, RATE, DECAY, WARMUP = 3, 8, 2e-3, 0.01, 0.1
PLUGINS = {
    "torch_ddp": TorchDDPPlugin,
    "low_level_zero": lambda: LowLevelZeroPlugin(stage=2, precision="bf16", max_norm=1.0),
    "gemini": lambda: GeminiPlugin(precision="bf16", max_norm=1.0, offload_optim_frac=1.0),
    "hybrid_parallel": lambda: HybridParallelPlugin(tp_size=1, pp_size=1, zero_stage=1, precision="fp32", max_norm=1.0),
}


def groups(model):
    """Norms and biases do not decay."""
    return [{"params": [p for p in model.parameters() if p.ndim > 1], "weight_decay": DECAY},
            {"params": [p for p in model.parameters() if p.ndim < 2], "weight_decay": 0.0}]


def on_device(batch):
    return {name: value.to(get_accelerator().get_current_device()) for name, value in batch.items()}


def train_epoch(epoch, model, optimizer, criterion, scheduler, loader, booster, coordinator):
    model.train()
    total = torch.zeros(())
    for batch in loader:
        batch = on_device(batch)
        loss = criterion(model(**batch), batch)
        booster.backward(loss, optimizer)
        optimizer.step()
        scheduler.step()
        optimizer.zero_grad()
        total += loss.detach()
    coordinator.print_on_master(f"epoch {epoch} loss {total.item() / len(loader):.4f}")


@torch.no_grad()
def evaluate(model, loader):
    """The part of the passages that the model gives the right label."""
    model.eval()
    counts = torch.zeros(2)  # right ones, and all
    for batch in loader:
        batch = on_device(batch)
        right = model(**batch).logits.argmax(-1) == batch["labels"]
        counts += torch.tensor([right.sum(), len(right)])
    dist.all_reduce(counts)
    return (counts[0] / counts[1]).item()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--plugin", choices=PLUGINS, default="gemini")
    parser.add_argument("--directory", default="runs/gpt2_colossalai")
    options = parser.parse_args()

    colossalai.launch_from_torch(seed=42)
    coordinator = DistCoordinator()
    plugin = PLUGINS[options.plugin]()
    booster = Booster(plugin=plugin)
    train_loader = plugin.prepare_dataloader(LabelledPassages(64, "train"), batch_size=BATCH, shuffle=True, drop_last=True)
    test_loader = plugin.prepare_dataloader(LabelledPassages(64, "test"), batch_size=BATCH)

    model = GPT2ForSequenceClassification(GPT2Config(
        vocab_size=256, n_positions=64, n_embd=64, n_layer=2, n_head=4, pad_token_id=0, bos_token_id=0, eos_token_id=0))
    optimizer = HybridAdam(groups(model), lr=RATE, eps=1e-8)
    steps = len(train_loader) * EPOCHS
    scheduler = get_linear_schedule_with_warmup(optimizer, int(WARMUP * steps), steps)

    model, optimizer, criterion, train_loader, scheduler = booster.boost(
        model, optimizer, lambda outputs, inputs: outputs.loss, train_loader, scheduler)
    for epoch in range(EPOCHS):
        train_epoch(epoch, model, optimizer, criterion, scheduler, train_loader, booster, coordinator)
    accuracy = evaluate(model, test_loader)
    coordinator.print_on_master(f"accuracy {accuracy:.4f}")
    booster.save_model(model, f"{options.directory}/model", shard=True)  # a folder that from_pretrained() opens


if __name__ == "__main__":
    main()
