"""A program that uses the package and is checked by `mypy --strict` (typing_test.py). Nothing runs it."""
import contextlib
from collections.abc import Iterable

import torch
from typing_extensions import assert_type

import colossal


class Net(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(4, 1)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        return torch.tanh(self.linear(inputs))

    def describe(self) -> str:
        return "a net"


def train(batches: Iterable[list[torch.Tensor]]) -> float | None:
    model = Net()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 1000)
    model, optimizer = colossal.boost(model, optimizer, zero=3, dtype="bf16", max_grad_norm=1.0,
                                      offload={"optimizer": "nvme", "parameters": {"host": 0.5}}, nvme_path="/ssd", timeout=60)
    assert_type(model, Net)
    for parts in batches:
        for part in parts:
            # Type checkers know a model by its class, which has no no_sync().
            scope = contextlib.nullcontext() if part is parts[-1] else model.no_sync()  # type: ignore[operator]
            with scope:
                model(part).mean().backward()
        optimizer.step()
        scheduler.step()
        optimizer.zero_grad()
    with colossal.gather(model):
        print(model.describe(), model.linear.weight.norm())
    return None


def train_by_name(model: Net, inputs: torch.Tensor) -> float:
    model, optimizer = colossal.boost(model, "lamb", lr=1e-3)
    try:
        model(inputs).mean().backward()
        optimizer.step()
    except colossal.NonFiniteError as error:
        print(error, colossal.__version__)
    except colossal.ConfigError:
        raise SystemExit(2) from None
    if colossal.rank() == 0:
        print("rank 0")
    return float(optimizer.grad_norm)
