"""colossalai.nn: optimizers and learning rate schedulers."""
from . import lr_scheduler, optimizer

__all__ = ["lr_scheduler", "optimizer"]
