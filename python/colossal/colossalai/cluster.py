"""colossalai.cluster: which rank this is, and waiting for the others."""
import contextlib
import functools
import os
import typing

import torch.distributed

from .._engine import ConfigError

Group = torch.distributed.ProcessGroup
Result = typing.TypeVar("Result")


class DistCoordinator:
    """The numbers of this rank, after launch_from_torch(). Groups are those of torch.distributed; None: all ranks."""

    def __init__(self) -> None:
        if not torch.distributed.is_initialized():
            raise ConfigError("the ranks have not met: call colossalai.launch_from_torch() first")

    @property
    def rank(self) -> int:
        return torch.distributed.get_rank()

    @property
    def world_size(self) -> int:
        return torch.distributed.get_world_size()

    @property
    def local_rank(self) -> int:
        return int(os.environ["LOCAL_RANK"])

    def is_master(self, process_group: Group | None = None) -> bool:
        return torch.distributed.get_rank(process_group) == 0

    def is_node_master(self) -> bool:
        return self.local_rank == 0

    def is_last_process(self, process_group: Group | None = None) -> bool:
        return torch.distributed.get_rank(process_group) == torch.distributed.get_world_size(process_group) - 1

    def print_on_master(self, msg: str, process_group: Group | None = None) -> None:
        if self.is_master(process_group):
            print(msg)

    def print_on_node_master(self, msg: str) -> None:
        if self.is_node_master():
            print(msg)

    def block_all(self, process_group: Group | None = None) -> None:
        """Waits until all ranks have come here."""
        torch.distributed.barrier(process_group)

    @contextlib.contextmanager
    def priority_execution(self, executor_rank: int = 0, process_group: Group | None = None) -> typing.Iterator[None]:
        """One rank runs the block before all others do: to download a file, for example."""
        first = torch.distributed.get_rank(process_group) == executor_rank
        if not first:
            self.block_all(process_group)
        try:
            yield
        finally:
            if first:
                self.block_all(process_group)

    def on_master_only(self, process_group: Group | None = None) -> typing.Callable[
            [typing.Callable[..., Result]], typing.Callable[..., Result | None]]:
        """A decorator: the function does something on rank 0 only."""
        def decorate(function: typing.Callable[..., Result]) -> typing.Callable[..., Result | None]:
            @functools.wraps(function)
            def on_master(*arguments: typing.Any, **named: typing.Any) -> Result | None:
                return function(*arguments, **named) if self.is_master(process_group) else None
            return on_master
        return decorate

    def destroy(self, process_group: Group | None = None) -> None:
        torch.distributed.destroy_process_group(process_group)
