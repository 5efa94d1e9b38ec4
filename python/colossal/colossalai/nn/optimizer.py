"""colossalai.nn.optimizer: Colossal-AI's optimizers, by the engine's of the same papers. They work after booster.boost()."""
import typing

from ..._engine import ConfigError
from ..._optimizers import Optimizer
from .._arguments import Honoured, Only, Table, WithoutEffect, honoured, say_once

_MEMORY = WithoutEffect("the engine has no gradients to set to None")
_ADAM: Table = {
    "lr": Honoured(1e-3), "bias_correction": Only(True, "the engine corrects the bias: leave it out"), "betas": Honoured((0.9, 0.999)),
    "eps": Honoured(1e-8), "weight_decay": Honoured(0.0), "adamw_mode": Honoured(True),
    "nvme_offload_fraction": Honoured(0.0), "nvme_offload_dir": Honoured(None)}
_FUSED_ADAM: Table = {
    "lr": _ADAM["lr"], "bias_correction": _ADAM["bias_correction"], "betas": _ADAM["betas"], "eps": _ADAM["eps"],
    "adamw_mode": _ADAM["adamw_mode"], "weight_decay": _ADAM["weight_decay"],
    "amsgrad": Only(False, "the engine has no AMSGrad"), "set_grad_none": _MEMORY}
_LAMB: Table = {
    "lr": Honoured(1e-3), "betas": Honoured((0.9, 0.999)), "eps": Honoured(1e-6), "weight_decay": Honoured(0.0),
    "adam": Only(False, "use HybridAdam"),
    "bias_correction": Only(True, "the engine's LAMB is the paper's, which corrects the bias: pass bias_correction=True, or leave it out")}
_LARS: Table = {
    "lr": Honoured(1e-3), "momentum": Honoured(0.0), "eeta": Only(1e-3, "the engine has a trust coefficient of 1e-3"),
    "weight_decay": Honoured(0.0), "epsilon": Honoured(0.0)}
_SGD: Table = {
    "lr": Honoured(1e-3), "momentum": Honoured(0.0), "dampening": Only(0.0, "the engine has none"), "weight_decay": Honoured(0.0),
    "nesterov": Honoured(False), "wd_after_momentum": Only(False, "the engine adds the decay to the gradient before")}
_OF_GROUPS = {"params", "lr", "initial_lr", "weight_decay"}


class _EngineOptimizer(Optimizer):
    """The arguments are those of `_table`. nvme: the fraction of the state that boost() shall store on NVMe, and the folder."""
    _name: str
    _table: Table
    nvme: tuple[float, str | None]

    def __init__(self, params: typing.Any, *positional: typing.Any, **named: typing.Any) -> None:
        kind = type(self).__name__
        settings = honoured(kind, self._table, positional, named)
        groups = list(params)
        for group in groups:
            strange = sorted(set(group) - _OF_GROUPS) if isinstance(group, dict) else []
            if strange:
                raise ConfigError(f"{kind}: {strange[0]} of a parameter group: the engine has one for all parameters; give it to {kind}")
        self.nvme = settings.pop("nvme_offload_fraction", 0.0), settings.pop("nvme_offload_dir", None)
        name = self._name if settings.pop("adamw_mode", True) else "adam"
        if "betas" in settings:
            settings["betas"] = list(map(float, settings["betas"]))
        if "epsilon" in settings:
            settings["eps"] = settings.pop("epsilon")
        super().__init__(groups, name, settings.pop("lr"), settings.pop("weight_decay"), **settings)


class HybridAdam(_EngineOptimizer):
    """AdamW, or with adamw_mode=False Adam, wherever the parameters are."""
    _name, _table = "adamw", _ADAM


class CPUAdam(HybridAdam):
    """As HybridAdam: where the state is, the plugin says."""


class FusedAdam(HybridAdam):
    """As HybridAdam."""
    _table = _FUSED_ADAM


class Lamb(_EngineOptimizer):
    """LAMB of the paper, which corrects the averages' bias."""
    _name, _table = "lamb", _LAMB

    def __init__(self, params: typing.Any, *positional: typing.Any, **named: typing.Any) -> None:
        super().__init__(params, *positional, **named)
        say_once("Lamb is the paper's: it corrects the averages' bias, which Colossal-AI's does with bias_correction=True only")


class Lars(_EngineOptimizer):
    """LARS of the paper."""
    _name, _table = "lars", _LARS


class FusedSGD(_EngineOptimizer):
    """Stochastic gradient descent."""
    _name, _table = "sgd", _SGD


_ELSEWHERE = {"FusedLAMB": "Lamb", "Adafactor": 'colossal.boost(model, "adafactor")', "CAME": 'colossal.boost(model, "came")',
              "GaLoreAdamW8bit": 'colossal.boost(model, "galore")', "GaLoreAdafactor": 'colossal.boost(model, "galore")',
              "DistributedLamb": "Lamb", "DistributedAdaFactor": 'colossal.boost(model, "adafactor")',
              "DistributedCAME": 'colossal.boost(model, "came")', "DistGaloreAwamW": 'colossal.boost(model, "galore")'}


def __getattr__(name: str) -> typing.Any:
    if name in _ELSEWHERE:
        raise AttributeError(f"colossalai.nn.optimizer has no {name} here: use {_ELSEWHERE[name]}")
    raise AttributeError(f"module {__name__} has no attribute {name}")
