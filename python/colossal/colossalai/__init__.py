"""Colossal-AI's names for what the engine does, so that its programs need other imports only:

    import colossal.colossalai as colossalai               # import colossalai
    from colossal.colossalai.booster import Booster        # from colossalai.booster import Booster

Arguments are honoured, or have no effect here, which is logged once, or are refused with what to use: docs/colossal-ai.md."""
from . import accelerator, booster, cluster, lazy, logging, nn, utils
from ._launch import launch, launch_from_openmpi, launch_from_slurm, launch_from_torch

__all__ = ["accelerator", "booster", "cluster", "launch", "launch_from_openmpi", "launch_from_slurm", "launch_from_torch", "lazy",
           "logging", "nn", "utils"]
