"""A program for Colossal-AI with other imports: trains a small Llama on the texts of licenses, saves it, and goes on.

  torchrun --nproc-per-node=2 examples/python/llama_colossalai.py --plugin gemini --steps 30
  torchrun --nproc-per-node=2 examples/python/llama_colossalai.py --plugin zero2 --steps 30 --load runs/llama_colossalai

Other than in Colossal-AI, what a plugin has saved goes on at every other plugin and number of ranks."""
import argparse
import os

from passages import Passages
from transformers import LlamaConfig, LlamaForCausalLM

import colossal.colossalai as colossalai  # import colossalai
from colossal.colossalai.booster import Booster  # from colossalai.booster import Booster
from colossal.colossalai.booster.plugin import GeminiPlugin, LowLevelZeroPlugin, TorchFSDPPlugin  # from colossalai.booster.plugin ...
from colossal.colossalai.cluster import DistCoordinator  # from colossalai.cluster import DistCoordinator
from colossal.colossalai.lazy import LazyInitContext  # from colossalai.lazy import LazyInitContext
from colossal.colossalai.nn.lr_scheduler import CosineAnnealingWarmupLR  # from colossalai.nn.lr_scheduler import ...
from colossal.colossalai.nn.optimizer import HybridAdam  # from colossalai.nn.optimizer import HybridAdam

CONFIG = LlamaConfig(vocab_size=256, hidden_size=64, intermediate_size=128, num_hidden_layers=2, num_attention_heads=4,
                     num_key_value_heads=2, max_position_embeddings=64)
ACCUMULATED, ALL_STEPS = 2, 60
PLUGINS = {
    "gemini": lambda: GeminiPlugin(precision="fp32", max_norm=1.0),
    "gemini_offloaded": lambda: GeminiPlugin(precision="bf16", max_norm=1.0, offload_param_frac=1.0, offload_optim_frac=1.0),
    "zero2": lambda: LowLevelZeroPlugin(stage=2, precision="fp32", max_norm=1.0),
    "fsdp": TorchFSDPPlugin,
}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--plugin", choices=PLUGINS, default="gemini")
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--directory", default="runs/llama_colossalai", help="where to save")
    parser.add_argument("--load", help="directory of an earlier run, which goes on")
    options = parser.parse_args()

    colossalai.launch_from_torch(seed=42)
    coordinator = DistCoordinator()
    plugin = PLUGINS[options.plugin]()
    booster = Booster(plugin=plugin)
    loader = plugin.prepare_dataloader(Passages(64), batch_size=8, shuffle=True, drop_last=True)
    with LazyInitContext():
        model = LlamaForCausalLM(CONFIG)
    model.gradient_checkpointing_enable()
    optimizer = HybridAdam(model.parameters(), lr=3e-3)
    scheduler = CosineAnnealingWarmupLR(optimizer, total_steps=ALL_STEPS, warmup_steps=10, eta_min=3e-4)
    model, optimizer, _, loader, scheduler = booster.boost(model, optimizer, dataloader=loader, lr_scheduler=scheduler)
    if options.load:
        booster.load_model(model, os.path.join(options.load, "model"))
        booster.load_optimizer(optimizer, os.path.join(options.load, "optimizer"))
        booster.load_lr_scheduler(scheduler, os.path.join(options.load, "lr_scheduler"))

    model.train()
    first = scheduler.last_epoch
    batches = iter(loader)
    for step in range(first, first + options.steps):
        for part in range(ACCUMULATED):  # without no_sync(), too, gradients are summed until optimizer.step()
            loss = model(**next(batches)).loss / ACCUMULATED
            booster.backward(loss, optimizer)
        optimizer.step()
        scheduler.step()
        optimizer.zero_grad()
        coordinator.print_on_master(f"step {step} loss {loss.item() * ACCUMULATED:.4f} rate {scheduler.get_last_lr()[0]:.6f}")

    booster.save_model(model, os.path.join(options.directory, "model"), shard=True, use_safetensors=True)
    booster.save_optimizer(optimizer, os.path.join(options.directory, "optimizer"), shard=True)
    booster.save_lr_scheduler(scheduler, os.path.join(options.directory, "lr_scheduler"))


if __name__ == "__main__":
    main()
