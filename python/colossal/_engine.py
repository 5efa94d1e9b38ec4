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

Error.__doc__ = "An error of the engine."
ConfigError.__doc__ = "What was asked cannot be done: says what was found, and what would work."
IoError.__doc__ = "A file or a disk failed."
CommError.__doc__ = "Ranks could not communicate: names the ranks and their calls."
NonFiniteError.__doc__ = "A loss or a gradient is not finite: names it. No rank has updated its weights."

__all__ = ["CheckpointContents", "Checkpoints", "Cluster", "CommError", "ConfigError", "Error", "Fetching", "IoError", "LanguageModel",
           "LanguageModelOptions", "ModuleEngine", "NonFiniteError", "__version__", "connect", "convert_gguf", "key_helps",
           "load_checkpoint", "load_weight", "plan", "train", "tuning_methods"]
