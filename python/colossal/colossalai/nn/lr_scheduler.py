"""colossalai.nn.lr_scheduler: learning rates as functions of the number of steps that were made. The rates are Colossal-AI's."""
import bisect
import math
import typing

import torch
from torch.optim.lr_scheduler import LRScheduler

from ..._engine import ConfigError


class _Warmup(LRScheduler):
    """Rates rise in equal steps to those of the optimizer's groups, which the step number `warmup_steps` has; then
    after_warmup() says what follows. state_dict() holds numbers only."""

    def __init__(self, optimizer: torch.optim.Optimizer, total_steps: int, warmup_steps: int, last_epoch: int) -> None:
        if total_steps <= warmup_steps or warmup_steps < 0:
            raise ConfigError(f"{type(self).__name__}: total_steps={total_steps} and warmup_steps={warmup_steps}: "
                              "there must be more steps in all than for the warm-up, which has 0 or more")
        self.total_steps, self.warmup_steps = total_steps, warmup_steps
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float | torch.Tensor]:
        return [self.rate(float(base)) for base in self.base_lrs]

    def rate(self, base: float) -> float:
        if self.last_epoch < self.warmup_steps:
            return (self.last_epoch + 1) / self.warmup_steps * base
        return self.after_warmup(self.last_epoch - self.warmup_steps, self.total_steps - self.warmup_steps, base)

    def after_warmup(self, step: int, steps: int, base: float) -> float:
        """The rate after `step` of the `steps` that follow the warm-up. base: the rate of the group"""
        raise NotImplementedError


class FlatAnnealingWarmupLR(_Warmup):
    """Flat for the fraction pct_start of the steps after the warm-up, then a cosine to eta_min."""

    def __init__(self, optimizer: torch.optim.Optimizer, total_steps: int, warmup_steps: int = 0, pct_start: float = 0.72,
                 eta_min: float = 0.0, last_epoch: int = -1) -> None:
        if not 0 <= pct_start < 1:
            raise ConfigError(f"pct_start={pct_start}: the fraction of the steps that are flat, from 0 to below 1")
        self.flat_steps, self.eta_min = int((total_steps - warmup_steps) * pct_start), eta_min
        super().__init__(optimizer, total_steps, warmup_steps, last_epoch)

    def after_warmup(self, step: int, steps: int, base: float) -> float:
        turn = math.pi * max(0, step - self.flat_steps) / (steps - self.flat_steps)
        return self.eta_min + (base - self.eta_min) * (1 + math.cos(turn)) / 2


class FlatAnnealingLR(FlatAnnealingWarmupLR):
    def __init__(self, optimizer: torch.optim.Optimizer, total_steps: int, pct_start: float = 0.72, last_epoch: int = -1) -> None:
        super().__init__(optimizer, total_steps, 0, pct_start, 0.0, last_epoch)


class CosineAnnealingWarmupLR(FlatAnnealingWarmupLR):
    """A cosine to eta_min after the warm-up."""

    def __init__(self, optimizer: torch.optim.Optimizer, total_steps: int, warmup_steps: int = 0, eta_min: float = 0.0,
                 last_epoch: int = -1) -> None:
        super().__init__(optimizer, total_steps, warmup_steps, 0.0, eta_min, last_epoch)


class CosineAnnealingLR(CosineAnnealingWarmupLR):
    def __init__(self, optimizer: torch.optim.Optimizer, total_steps: int, eta_min: float = 0.0, last_epoch: int = -1) -> None:
        super().__init__(optimizer, total_steps, 0, eta_min, last_epoch)


class LinearWarmupLR(_Warmup):
    """After the warm-up, in a line to 0."""

    def __init__(self, optimizer: torch.optim.Optimizer, total_steps: int, warmup_steps: int = 0, last_epoch: int = -1) -> None:
        super().__init__(optimizer, total_steps, warmup_steps, last_epoch)

    def rate(self, base: float) -> float:
        if self.last_epoch < self.warmup_steps:
            return (self.last_epoch + 1) / (self.warmup_steps + 1) * base
        return (self.total_steps - self.last_epoch) / (self.total_steps - self.warmup_steps) * base


class MultiStepWarmupLR(_Warmup):
    """After the warm-up, the rate is multiplied by gamma at each of the milestones, which are numbers of steps in all."""

    def __init__(self, optimizer: torch.optim.Optimizer, total_steps: int, warmup_steps: int = 0,
                 milestones: typing.Sequence[int] | None = None, gamma: float = 0.1, last_epoch: int = -1) -> None:
        if not milestones:
            raise ConfigError("milestones: give one or more numbers of steps")
        self.milestones, self.gamma = sorted(each for each in milestones if each >= warmup_steps), gamma
        super().__init__(optimizer, total_steps, warmup_steps, last_epoch)

    def after_warmup(self, step: int, steps: int, base: float) -> float:
        return base * self.gamma ** bisect.bisect_right(self.milestones, step + self.warmup_steps)


class MultiStepLR(MultiStepWarmupLR):
    def __init__(self, optimizer: torch.optim.Optimizer, total_steps: int, milestones: typing.Sequence[int] | None = None,
                 gamma: float = 0.1, last_epoch: int = -1) -> None:
        super().__init__(optimizer, total_steps, 0, milestones, gamma, last_epoch)


class PolynomialWarmupLR(_Warmup):
    """After the warm-up, to end_lr by a polynomial."""

    def __init__(self, optimizer: torch.optim.Optimizer, total_steps: int, warmup_steps: int = 0, end_lr: float = 1e-4,
                 power: float = 1.0, last_epoch: int = -1) -> None:
        self.end_lr, self.power = end_lr, power
        super().__init__(optimizer, total_steps, warmup_steps, last_epoch)

    def after_warmup(self, step: int, steps: int, base: float) -> float:
        return (base - self.end_lr) * (1 - min(step, steps) / steps) ** self.power + self.end_lr


class PolynomialLR(PolynomialWarmupLR):
    def __init__(self, optimizer: torch.optim.Optimizer, total_steps: int, end_lr: float = 1e-4, power: float = 1.0,
                 last_epoch: int = -1) -> None:
        super().__init__(optimizer, total_steps, 0, end_lr, power, last_epoch)


class OneCycleLR(torch.optim.lr_scheduler.OneCycleLR):
    """That of torch, with the optimizer's rates as the highest. The engine has a fixed momentum: pass cycle_momentum=False."""

    def __init__(self, optimizer: torch.optim.Optimizer, total_steps: int, pct_start: float = 0.3,
                 anneal_strategy: typing.Literal["cos", "linear"] = "cos", cycle_momentum: bool = True, base_momentum: float = 0.85,
                 max_momentum: float = 0.95, div_factor: float = 25.0, final_div_factor: float = 1e4, last_epoch: int = -1) -> None:
        if cycle_momentum:
            raise ConfigError("OneCycleLR with cycle_momentum=True: the engine takes new learning rates only; pass cycle_momentum=False")
        super().__init__(optimizer, [group["lr"] for group in optimizer.param_groups], total_steps, pct_start=pct_start,
                         anneal_strategy=anneal_strategy, cycle_momentum=False, base_momentum=base_momentum,
                         max_momentum=max_momentum, div_factor=div_factor, final_div_factor=final_div_factor, last_epoch=last_epoch)


class LambdaLR(torch.optim.lr_scheduler.LambdaLR):
    """That of torch; total_steps is not needed."""

    def __init__(self, optimizer: torch.optim.Optimizer, total_steps: int, lr_lambda: typing.Any = None, last_epoch: int = -1) -> None:
        super().__init__(optimizer, lr_lambda, last_epoch)


class MultiplicativeLR(torch.optim.lr_scheduler.MultiplicativeLR):
    """That of torch; total_steps is not needed."""

    def __init__(self, optimizer: torch.optim.Optimizer, total_steps: int, lr_lambda: typing.Any = None, last_epoch: int = -1) -> None:
        super().__init__(optimizer, lr_lambda, last_epoch)


class StepLR(torch.optim.lr_scheduler.StepLR):
    """That of torch; total_steps is not needed."""

    def __init__(self, optimizer: torch.optim.Optimizer, total_steps: int, step_size: int = 1, gamma: float = 0.1,
                 last_epoch: int = -1) -> None:
        super().__init__(optimizer, step_size, gamma, last_epoch)


class ExponentialLR(torch.optim.lr_scheduler.ExponentialLR):
    """That of torch; total_steps is not needed."""

    def __init__(self, optimizer: torch.optim.Optimizer, total_steps: int, gamma: float = 1.0, last_epoch: int = -1) -> None:
        super().__init__(optimizer, gamma, last_epoch)
