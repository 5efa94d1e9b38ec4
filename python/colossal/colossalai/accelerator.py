"""colossalai.accelerator: the device on which a rank computes, by the names that torch.cuda has."""
import functools
import typing

import torch


class Accelerator:
    """The functions of torch.cuda that this class lacks are those of torch.cuda, if there is a GPU."""

    name = "cuda" if torch.cuda.is_available() else "cpu"
    communication_backend = "nccl" if name == "cuda" else "gloo"

    def get_current_device(self) -> torch.device:
        return torch.device(self.name, torch.cuda.current_device()) if self.name == "cuda" else torch.device("cpu")

    def current_device(self) -> int:
        return torch.cuda.current_device() if self.name == "cuda" else 0

    def device_count(self) -> int:
        return torch.cuda.device_count() if self.name == "cuda" else 1

    def is_available(self) -> bool:
        return True

    def synchronize(self, device: typing.Any = None) -> None:
        if self.name == "cuda":
            torch.cuda.synchronize(device)

    def empty_cache(self) -> None:
        if self.name == "cuda":
            torch.cuda.empty_cache()

    def max_memory_allocated(self, device: typing.Any = None) -> int:
        """Bytes; 0 without a GPU."""
        return torch.cuda.max_memory_allocated(device) if self.name == "cuda" else 0

    def memory_allocated(self, device: typing.Any = None) -> int:
        """Bytes; 0 without a GPU."""
        return torch.cuda.memory_allocated(device) if self.name == "cuda" else 0

    def reset_peak_memory_stats(self, device: typing.Any = None) -> None:
        if self.name == "cuda":
            torch.cuda.reset_peak_memory_stats(device)

    def manual_seed(self, seed: int) -> None:
        torch.manual_seed(seed)

    def autocast(self, enabled: bool = True, dtype: torch.dtype = torch.bfloat16, cache_enabled: bool = True) -> torch.autocast:
        return torch.autocast(self.name, dtype, enabled, cache_enabled)

    def __getattr__(self, name: str) -> typing.Any:
        if self.name == "cuda" and hasattr(torch.cuda, name):
            return getattr(torch.cuda, name)
        raise AttributeError(f"the accelerator {self.name} has no {name}")


@functools.cache
def get_accelerator() -> Accelerator:
    """The accelerator of this process."""
    return Accelerator()
