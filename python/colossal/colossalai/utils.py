"""colossalai.utils: what programs use of it."""
import random

import torch

from .accelerator import get_accelerator


def get_current_device() -> torch.device:
    """The device on which this rank computes."""
    return get_accelerator().get_current_device()


def set_seed(seed: int) -> None:
    """Seeds the random numbers of Python, of numpy if it is installed, and of torch, the same on all ranks."""
    random.seed(seed)
    torch.manual_seed(seed)
    try:
        import numpy
    except ImportError:
        return
    numpy.random.seed(seed)
