"""What torch's optimizers are called in the engine, and their settings there."""
import dataclasses
from collections.abc import Iterable
from typing import Any

import torch

from ._engine import ConfigError


@dataclasses.dataclass
class Settings:
    name: str
    betas: list[float] | None = None
    eps: float | None = None
    momentum: float | None = None
    nesterov: bool = False


# Settings that the engine does not have, by the values that leave them out.
_MUST_BE = {"amsgrad": False, "maximize": False, "differentiable": False, "dampening": 0}
_OF_ALL = ("betas", "eps", "momentum", "nesterov")


def settings_of(optimizer):
    """The Settings of a torch.optim.Optimizer. Raises ConfigError for what the engine does not have."""
    kind, defaults = type(optimizer).__name__, optimizer.param_groups[0]
    if optimizer.state:
        raise ConfigError(f"{kind} has made steps before: the engine does not take over its state; boost() a new one")
    for group in optimizer.param_groups:
        for key, value in _MUST_BE.items():
            if group.get(key, value) != value:
                raise ConfigError(f"{kind} with {key}={group[key]}: the engine has {key}={value} only")
        for key in _OF_ALL:
            if group.get(key) != defaults.get(key):
                raise ConfigError(f"{kind}: {key} is {group.get(key)} for some parameters and {defaults.get(key)} for others; "
                                  "the engine has one for all")
    if kind in ("Adam", "AdamW"):
        decays = any(group["weight_decay"] for group in optimizer.param_groups)
        decoupled = defaults.get("decoupled_weight_decay", kind == "AdamW") or not decays
        return Settings("adamw" if decoupled else "adam", list(map(float, defaults["betas"])), float(defaults["eps"]))
    if kind == "SGD":
        return Settings("sgd", momentum=float(defaults["momentum"]), nesterov=bool(defaults["nesterov"]))
    raise ConfigError(f"{kind}: pass torch's AdamW, Adam or SGD, or the name of an optimizer of the engine, such as \"lamb\"")


def fixed_settings(optimizer):
    """What may not change after boost(): all settings but the learning rates, and which parameters are trained."""
    return [({key: group.get(key) for key in (*_OF_ALL, *_MUST_BE, "weight_decay")},
             [parameter.requires_grad for parameter in group["params"]]) for group in optimizer.param_groups]


def first_rates(optimizer):
    """The learning rates of the groups before any scheduler has changed them: a warm-up begins at 0."""
    rates = [float(group.get("initial_lr", group["lr"])) for group in optimizer.param_groups]
    if rates[0] == 0 and any(rates):
        raise ConfigError(f"the learning rates of the parameter groups are {rates}: the engine keeps their ratios to the first, "
                          "which must not be 0")
    return rates


def groups_of(optimizer, names):
    """(names, factor of the first group's learning rate, weight decay) of each group; names: by parameter"""
    rates = first_rates(optimizer)
    return [([names[parameter] for parameter in group["params"]], rate / rates[0] if rates[0] else 1.0,
             float(group.get("weight_decay", 0.0)))
            for group, rate in zip(optimizer.param_groups, rates) if group["params"]]


class Optimizer(torch.optim.Optimizer):
    """For an optimizer of the engine that torch does not have: boost() makes it from a name."""

    def __init__(self, parameters: Iterable[torch.nn.Parameter], name: str, lr: float, weight_decay: float, **settings: Any) -> None:
        super().__init__(list(parameters), {"lr": lr, "weight_decay": weight_decay})
        self.engine_settings = Settings(name, **settings)

    def step(self, closure: Any = None) -> Any:
        raise ConfigError("an optimizer by name works after colossal.boost() only")
