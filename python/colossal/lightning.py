"""Lightning's Trainer on the engine: its module boosts a model in configure_optimizers().

    class Module(lightning.LightningModule):
        def configure_optimizers(self):
            return colossal.boost(self.net, torch.optim.AdamW(self.net.parameters()), zero=3, max_grad_norm=1.0)[1]

    lightning.Trainer(accelerator="cpu", devices=2, strategy="colossal", enable_checkpointing=False).fit(Module(), loader)

The ranks are started by torchrun. Importing this registers the strategy "colossal".
"""
import contextlib

try:
    from lightning.pytorch.strategies import DDPStrategy, StrategyRegistry  # type: ignore[import-not-found]
except ImportError as error:
    raise ImportError("colossal.lightning needs the package lightning: pip install lightning") from error

from . import distributed  # noqa: F401  (registers the backend of Lightning's own reductions)
from ._boosting import find_boosted
from ._engine import ConfigError


class Strategy(DDPStrategy):
    """Leaves gradients to the engine, and averages what the module logs over the backend "colossal"."""

    def __init__(self, **settings):
        super().__init__(**{"process_group_backend": "colossal", **settings})

    def setup_environment(self):
        if not self.cluster_environment.creates_processes_externally:
            raise ConfigError("Lightning would start the ranks itself, and the engine would not find them: start the program "
                              "with torchrun --nproc-per-node=N")
        super().setup_environment()

    def setup(self, trainer):
        if trainer.gradient_clip_val:
            raise ConfigError(f"gradient_clip_val={trainer.gradient_clip_val} would clip nothing, because the gradients are the "
                              "engine's: pass max_grad_norm to colossal.boost()")
        super().setup(trainer)
        if trainer.training and not self._boosted_models():
            raise ConfigError("no model of this module is boosted, so that its gradients would not be averaged: return "
                              "colossal.boost(self.net, optimizer)[1] in configure_optimizers()")

    def configure_ddp(self):
        """Instead of DistributedDataParallel, the engine reduces gradients."""

    def _register_ddp_hooks(self):
        """They are DistributedDataParallel's."""

    def block_backward_sync(self):
        """While gradients are accumulated"""
        stack = contextlib.ExitStack()
        for model in self._boosted_models():
            stack.enter_context(model.no_sync())
        return stack

    def _boosted_models(self):
        return [module for module in self.lightning_module.modules() if find_boosted(module) is not None]


StrategyRegistry.register("colossal", Strategy, description="colossal.boost() in the place of DistributedDataParallel")
