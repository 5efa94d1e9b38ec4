"""The extension module, which needs the LibTorch of one minor version of torch."""
import torch

from ._torch_version import refusal

_problem = refusal(torch.__version__)
if _problem:
    raise ImportError(_problem)

from ._core import (  # noqa: E402  (torch comes first: its libraries are then found)
    CheckpointContents, Checkpoints, Cluster, CommError, ConfigError, Error, Fetching, IoError, LanguageModel, LanguageModelOptions,
    ModuleEngine, NonFiniteError, connect, convert_gguf, key_helps, load_checkpoint, load_weight, plan, train,
    tuning_methods, version as __version__)

__all__ = ["CheckpointContents", "Checkpoints", "Cluster", "CommError", "ConfigError", "Error", "Fetching", "IoError", "LanguageModel",
           "LanguageModelOptions", "ModuleEngine", "NonFiniteError", "__version__", "connect", "convert_gguf", "key_helps",
           "load_checkpoint", "load_weight", "plan", "train", "tuning_methods"]
