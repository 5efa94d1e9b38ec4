"""What torch's optimizers are called in the engine, and their settings there."""
import dataclasses
import re

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
_MUST_BE = {"amsgrad": False, "maximize": False, "differentiable": False, "dampening": 0, "decoupled_weight_decay": None}


def settings_of(optimizer):
    """The Settings of a torch.optim.Optimizer. Raises ConfigError for what the engine does not have."""
    kind, defaults = type(optimizer).__name__, optimizer.param_groups[0]
    for group in optimizer.param_groups:
        for key, value in _MUST_BE.items():
            if group.get(key, value) != value and value is not None:
                raise ConfigError(f"{kind} with {key}={group[key]}: the engine has {key}={value} only")
        for key in ("betas", "eps", "momentum", "nesterov"):
            if group.get(key) != defaults.get(key):
                raise ConfigError(f"{kind}: {key} is {group.get(key)} for some parameters and {defaults.get(key)} for others; "
                                  "the engine has one for all")
    if kind == "AdamW" or (kind == "Adam" and not any(group["weight_decay"] for group in optimizer.param_groups)):
        return Settings("adamw", list(map(float, defaults["betas"])), float(defaults["eps"]))
    if kind == "Adam":
        return Settings("adam", list(map(float, defaults["betas"])), float(defaults["eps"]))
    if kind == "SGD":
        return Settings("sgd", momentum=float(defaults["momentum"]), nesterov=bool(defaults["nesterov"]))
    raise ConfigError(f"{kind}: pass torch's AdamW, Adam or SGD, or the name of an optimizer of the engine, such as \"lamb\"")


def groups_of(optimizer, names):
    """(pattern of names, factor of the first group's learning rate, weight decay) of each group; names: by parameter"""
    groups, first = [], optimizer.param_groups[0]["lr"]
    for group in optimizer.param_groups:
        if len(optimizer.param_groups) == 1:
            pattern = ".*"
        else:
            pattern = "^(" + "|".join(re.escape(names[parameter]) for parameter in group["params"]) + ")$"
        factor = group["lr"] / first if first else 1.0
        groups.append((pattern, float(factor), float(group.get("weight_decay", 0.0))))
    return groups


class Optimizer(torch.optim.Optimizer):
    """For an optimizer of the engine that torch does not have: boost() makes it from a name."""

    def __init__(self, parameters, name, lr, weight_decay, **settings):
        super().__init__(list(parameters), {"lr": lr, "weight_decay": weight_decay})
        self.engine_settings = Settings(name, **settings)

    def step(self, closure=None):
        raise ConfigError("an optimizer by name works after colossal.boost() only")
