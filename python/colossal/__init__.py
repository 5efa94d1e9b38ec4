"""Colossal: trains any PyTorch module in parallel, with ZeRO, offloading and every optimizer of the engine.

    model, optimizer = colossal.boost(model, optimizer, zero=3)

Models of the engine's own families generate texts, and are trained with the keys of run.toml:

    colossal.LLM("DIR").generate("Hello", max_tokens=64).text
    colossal.train(model={"preset": "gpt2-124m"}, data={"train": "corpus.jsonl"})

Names are imported when they are first used: `import colossal` does not import torch.
"""
import importlib
from typing import TYPE_CHECKING

_PLACES = {
    "boost": "_boosting", "gather": "_boosting", "rank": "_boosting", "Optimizer": "_optimizers",
    "save": "_checkpoints", "load": "_checkpoints", "Loaded": "_checkpoints",
    "LLM": "_llm", "SamplingParams": "_completions", "Completion": "_completions",
    "train": "_runs", "tune": "_runs", "plan": "_runs", "Plan": "_runs", "serve": "_serving",
    "Error": "_engine", "ConfigError": "_engine", "IoError": "_engine", "CommError": "_engine",
    "NonFiniteError": "_engine", "__version__": "_engine",
}
__all__ = [name for name in _PLACES if not name.startswith("_")]

if TYPE_CHECKING:  # type checkers read no _PLACES
    from ._boosting import boost as boost, gather as gather, rank as rank
    from ._checkpoints import Loaded as Loaded, load as load, save as save
    from ._completions import Completion as Completion, SamplingParams as SamplingParams
    from ._engine import (
        CommError as CommError, ConfigError as ConfigError, Error as Error, IoError as IoError,
        NonFiniteError as NonFiniteError, __version__ as __version__)
    from ._llm import LLM as LLM
    from ._optimizers import Optimizer as Optimizer
    from ._runs import Plan as Plan, plan as plan, train as train, tune as tune
    from ._serving import serve as serve
else:
    def __getattr__(name):
        if name in _PLACES:
            return getattr(importlib.import_module(f"{__name__}.{_PLACES[name]}"), name)
        raise AttributeError(f"module {__name__} has no attribute {name}")


def __dir__() -> list[str]:
    return sorted([*globals(), *_PLACES])
