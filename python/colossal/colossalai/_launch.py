"""launch() and its variants: the ranks meet, by torch.distributed and by the engine."""
import atexit
import os

import torch
import torch.distributed

from .._boosting import _connected
from .._engine import ConfigError
from ._arguments import say_once
from .logging import get_dist_logger
from .utils import set_seed


def launch(rank: int, world_size: int, host: str, port: int, backend: str = "nccl", local_rank: int | None = None, seed: int = 1024,
           verbose: bool = True, *, config: object = None) -> None:
    """Lets the ranks meet at host:port, and seeds this rank's random numbers.

    backend     of torch.distributed; "nccl" is "gloo" on machines without GPUs. The engine has its own connections
    local_rank  number of this rank on its host; None: that of the variable LOCAL_RANK, else `rank`"""
    if config:
        raise ConfigError("launch(config=...): Colossal-AI's configuration files are not read; give settings to a plugin")
    if torch.distributed.is_initialized():
        raise ConfigError("launch() was called before, or the program has called init_process_group(): call launch() once, alone")
    if local_rank is None:
        local_rank = int(os.environ.get("LOCAL_RANK", rank))
    os.environ.update({"RANK": str(rank), "WORLD_SIZE": str(world_size), "MASTER_ADDR": host, "MASTER_PORT": str(port),
                       "LOCAL_RANK": str(local_rank)})
    _connected("auto", 300.0)  # as boost() does
    if world_size > 1:  # the engine's store, or torchrun's, serves at host:port
        os.environ["TORCHELASTIC_USE_AGENT_STORE"] = "True"
    torch.distributed.init_process_group(_backend_of(backend), rank=rank, world_size=world_size)
    atexit.register(_end)
    if torch.cuda.is_available():
        torch.cuda.set_device(local_rank % torch.cuda.device_count())
    set_seed(seed)
    if verbose:
        get_dist_logger().info(f"Distributed environment is initialized, world size: {world_size}", ranks=[0])


def launch_from_torch(backend: str = "nccl", seed: int = 1024, verbose: bool = True, *, config: object = None) -> None:
    """launch() with what torchrun and `colossal run` say to their ranks."""
    rank, size, host, port = _variables("torchrun or `colossal run -n 2 -- python PROGRAM`", "RANK", "WORLD_SIZE", "MASTER_ADDR",
                                        "MASTER_PORT")
    launch(int(rank), int(size), host, int(port), backend, None, seed, verbose, config=config)


def launch_from_slurm(host: str, port: int, backend: str = "nccl", seed: int = 1024, verbose: bool = True, *,
                      config: object = None) -> None:
    """launch() with what srun says to its ranks."""
    rank, size, local_rank = _variables("srun", "SLURM_PROCID", "SLURM_NPROCS", "SLURM_LOCALID")
    launch(int(rank), int(size), host, port, backend, int(local_rank), seed, verbose, config=config)


def launch_from_openmpi(host: str, port: int, backend: str = "nccl", seed: int = 1024, verbose: bool = True, *,
                        config: object = None) -> None:
    """launch() with what Open MPI's mpirun says to its ranks."""
    rank, size, local_rank = _variables("mpirun", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK")
    launch(int(rank), int(size), host, port, backend, int(local_rank), seed, verbose, config=config)


def _end() -> None:
    """Ends the threads of torch.distributed before Python ends: one that frees a tensor afterwards would abort the program."""
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()


def _variables(launcher: str, *names: str) -> list[str]:
    missing = [name for name in names if name not in os.environ]
    if missing:
        raise ConfigError(f"the variable {missing[0]} is not set: start the program with {launcher}")
    return [os.environ[name] for name in names]


def _backend_of(backend: str) -> str:
    if backend == "nccl" and not torch.cuda.is_available():
        say_once("launch: torch.distributed uses gloo, because there is no GPU for nccl")
        return "gloo"
    return backend
