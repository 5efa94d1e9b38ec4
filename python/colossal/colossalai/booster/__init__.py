"""colossalai.booster: Booster, whose boost() is colossal.boost() with the settings of a plugin."""
import contextlib
import os
import typing
import weakref

import torch

from ..._boosting import boost, boosted_of
from ..._engine import ConfigError
from .._arguments import say_once
from . import _files, plugin as plugins
from .plugin import Plugin

__all__ = ["Booster", "plugin"]

Path = str | os.PathLike[str]
_MIXED = {"bf16": "bf16", None: None}


class Booster:
    """A plugin and what it does. Model and optimizer stay the same objects in boost(). All ranks call all functions."""

    def __init__(self, device: typing.Any = None, mixed_precision: typing.Any = None, plugin: Plugin | None = None) -> None:
        if plugin is not None and not isinstance(plugin, Plugin):
            raise ConfigError(f"Booster: plugin={plugin!r}: make one of colossal.colossalai.booster.plugin")
        if mixed_precision not in _MIXED:
            raise ConfigError(f"Booster: mixed_precision={mixed_precision!r}: the engine computes in \"bf16\", or in the model's own precision; "
                              "pass mixed_precision=\"bf16\"")
        self.plugin = plugin or plugins.TorchDDPPlugin()
        if mixed_precision is not None and self.plugin.control_precision():
            raise ConfigError(f"Booster: mixed_precision is for TorchDDPPlugin: give precision= to {type(self.plugin).__name__}")
        if device is not None:
            say_once("Booster: device has no effect here: the model stays where it is")
        self._dtype = _MIXED[mixed_precision]
        self._models: weakref.WeakKeyDictionary[torch.optim.Optimizer, torch.nn.Module] = weakref.WeakKeyDictionary()

    def boost(self, model: torch.nn.Module, optimizer: torch.optim.Optimizer | None = None, criterion: typing.Any = None,
              dataloader: typing.Any = None, lr_scheduler: typing.Any = None) -> tuple[typing.Any, ...]:
        """Lets the engine train the model. Returns the arguments: model, optimizer, criterion, dataloader, lr_scheduler."""
        if optimizer is None:
            raise ConfigError("booster.boost() without an optimizer: a model that is only evaluated needs no booster")
        settings = self.plugin.boost_settings()
        if self._dtype is not None:
            settings["dtype"] = self._dtype
        _add_nvme(settings, optimizer)
        self.plugin.prepare(model)
        boost(model, optimizer, **settings)
        self.plugin.finish(model)
        self._models[optimizer] = model
        _add_functions(model, optimizer)
        return model, optimizer, criterion, dataloader, lr_scheduler

    def backward(self, loss: torch.Tensor, optimizer: torch.optim.Optimizer) -> None:
        loss.backward()

    def execute_pipeline(self, *arguments: typing.Any, **named: typing.Any) -> typing.Any:
        raise ConfigError("execute_pipeline(): a module of your own has no pipeline: call the model, booster.backward() and "
                          "optimizer.step(); `colossal train` with parallel.pp has pipelines")

    def no_sync(self, model: torch.nn.Module | None = None,
                optimizer: torch.optim.Optimizer | None = None) -> contextlib.AbstractContextManager[None]:
        """Backward passes inside it are not the last of a step."""
        if model is None and optimizer is None:
            raise ConfigError("booster.no_sync() needs the model or the optimizer")
        return (self._model_of(optimizer) if model is None else model).no_sync()  # type: ignore[operator, union-attr]

    def enable_lora(self, *arguments: typing.Any, **named: typing.Any) -> typing.Any:
        raise ConfigError("enable_lora(): checkpoints of adapters only are not written here: `colossal tune` trains adapters "
                          "of the families of docs/models.md")

    def save_model(self, model: torch.nn.Module, checkpoint: Path, shard: bool = False, gather_dtensor: bool = True,
                   prefix: str | None = None, size_per_shard: int = 1024, use_safetensors: bool = False, use_async: bool = False) -> None:
        """Writes the weights: to a folder that from_pretrained() opens, if `shard`, else to one file.

        size_per_shard  MB of each file of the folder, which are in the format safetensors
        use_async, gather_dtensor  have no effect: weights are whole in the files, and written when this returns"""
        if use_async:
            say_once("save_model: use_async has no effect here: the files are whole when it returns; colossal.save(wait=False) "
                     "writes beside the next passes")
        _files.save_model(model, os.fspath(checkpoint), shard, prefix, size_per_shard, use_safetensors)

    def load_model(self, model: torch.nn.Module, checkpoint: Path, strict: bool = True, low_cpu_mem_mode: bool = True,
                   num_threads: int = 1) -> None:
        """Gives the model, boosted or not, the weights of a file or a folder of save_model() or save_pretrained().

        strict  whether names must be the same: else those of both are loaded
        low_cpu_mem_mode, num_threads  have no effect"""
        _files.load_model(model, os.fspath(checkpoint), strict)

    def save_optimizer(self, optimizer: torch.optim.Optimizer, checkpoint: Path, shard: bool = False, gather_dtensor: bool = True,
                       prefix: str | None = None, size_per_shard: int = 1024, use_async: bool = False) -> None:
        """Writes the optimizer's state, with the weights that it belongs to, to a folder: a checkpoint as of colossal.save().

        The other arguments have no effect: each rank writes its shards."""
        if not shard:
            say_once("save_optimizer writes a folder, with or without shard=True")
        _files.save_optimizer(self._model_of(optimizer), os.fspath(checkpoint))

    def load_optimizer(self, optimizer: torch.optim.Optimizer, checkpoint: Path, prefix: str | None = None,
                       low_cpu_mem_mode: bool = True, num_threads: int = 1) -> None:
        """Loads a folder of save_optimizer(), at any plugin and number of ranks: the weights, too.

        prefix, low_cpu_mem_mode, num_threads  have no effect"""
        say_once("load_optimizer loads the weights that were saved with the optimizer, too")
        _files.load_optimizer(self._model_of(optimizer), os.fspath(checkpoint))

    def save_lr_scheduler(self, lr_scheduler: typing.Any, checkpoint: Path) -> None:
        _files.save_lr_scheduler(lr_scheduler, os.fspath(checkpoint))

    def load_lr_scheduler(self, lr_scheduler: typing.Any, checkpoint: Path) -> None:
        _files.load_lr_scheduler(lr_scheduler, os.fspath(checkpoint))

    def save_lora_as_pretrained(self, *arguments: typing.Any, **named: typing.Any) -> None:
        self.enable_lora()

    def _model_of(self, optimizer: torch.optim.Optimizer | None) -> torch.nn.Module:
        model = None if optimizer is None else self._models.get(optimizer)
        if model is None:
            raise ConfigError("this optimizer was not boosted by this booster: call booster.boost(model, optimizer) first")
        return model


def _add_nvme(settings: plugins.Settings, optimizer: torch.optim.Optimizer) -> None:
    """The part of the state that HybridAdam(nvme_offload_fraction=) places on NVMe; the plugin's part of the rest is on the host."""
    fraction, folder = getattr(optimizer, "nvme", (0.0, None))
    if not fraction:
        return
    if not folder:
        raise ConfigError(f"{type(optimizer).__name__}: nvme_offload_fraction={fraction} needs nvme_offload_dir, a folder on a fast disk")
    offload = settings.setdefault("offload", {})
    host = offload.get("optimizer", 0.0)
    host = 1.0 if host == "host" else host["host"] if isinstance(host, dict) else host
    offload["optimizer"] = {"host": min(host, 1 - fraction), "nvme": fraction}
    settings["nvme_path"] = folder


def _add_functions(model: typing.Any, optimizer: typing.Any) -> None:
    """What the objects have that Colossal-AI's boost() returns."""
    boosted = boosted_of(model)
    model.unwrap = lambda: model
    optimizer.unwrap = lambda: optimizer
    optimizer.backward = lambda loss, **options: loss.backward(**options)
    optimizer.backward_by_grad = lambda tensor, grad: torch.autograd.backward(tensor, grad)
    optimizer.clip_grad_by_norm = lambda max_norm: boosted.clip(float(max_norm))
    optimizer.get_grad_norm = lambda: optimizer.grad_norm
