"""The extension module, which needs the LibTorch of one minor version of torch."""
import torch

_TORCH = "2.13"

if torch.__version__.split("+")[0].rsplit(".", 1)[0] != _TORCH:
    raise ImportError(f"this build of colossal needs torch {_TORCH}.*, and torch {torch.__version__} is installed; "
                      f"install torch=={_TORCH}.*, or the build of colossal for your torch")

from ._core import (  # noqa: E402  (torch comes first: its libraries are then found)
    Cluster, CommError, ConfigError, Error, IoError, LanguageModel, LanguageModelOptions, ModuleEngine, NonFiniteError,
    __version__, connect, convert_gguf, key_helps, plan, train, tuning_methods)

__all__ = ["Cluster", "CommError", "ConfigError", "Error", "IoError", "LanguageModel", "LanguageModelOptions",
           "ModuleEngine", "NonFiniteError", "__version__", "connect", "convert_gguf", "key_helps", "plan", "train", "tuning_methods"]
