"""colossalai.logging: loggers that write on chosen ranks."""
import functools
import logging
import os
import pathlib
import typing

import torch.distributed

_FORMAT = logging.Formatter("colossalai - %(name)s - %(levelname)s: %(message)s")


class DistributedLogger:
    """A logger of the standard library whose messages are for all ranks, or for those in ranks=."""

    def __init__(self, name: str) -> None:
        self._logger = logging.getLogger(name)
        self._logger.setLevel(logging.INFO)
        self._logger.propagate = False
        if not self._logger.handlers:
            self._add(logging.StreamHandler())

    def set_level(self, level: str) -> None:
        """level: "DEBUG", "INFO", "WARNING" or "ERROR"; raises ValueError for another"""
        self._logger.setLevel(level)

    def log_to_file(self, path: str | pathlib.Path, mode: str = "a", level: str = "INFO", suffix: str | None = None) -> None:
        """Writes to path/rank_N.log, too; with a suffix, to path/rank_N_SUFFIX.log."""
        folder = pathlib.Path(path)
        folder.mkdir(parents=True, exist_ok=True)
        handler = logging.FileHandler(folder / f"rank_{_rank()}{f'_{suffix}' if suffix else ''}.log", mode)
        handler.setLevel(level)
        self._add(handler)

    def debug(self, message: str, ranks: typing.Collection[int] | None = None) -> None:
        self._log(logging.DEBUG, message, ranks)

    def info(self, message: str, ranks: typing.Collection[int] | None = None) -> None:
        self._log(logging.INFO, message, ranks)

    def warning(self, message: str, ranks: typing.Collection[int] | None = None) -> None:
        self._log(logging.WARNING, message, ranks)

    def error(self, message: str, ranks: typing.Collection[int] | None = None) -> None:
        self._log(logging.ERROR, message, ranks)

    def _add(self, handler: logging.Handler) -> None:
        handler.setFormatter(_FORMAT)
        self._logger.addHandler(handler)

    def _log(self, level: int, message: str, ranks: typing.Collection[int] | None) -> None:
        if ranks is None or _rank() in ranks:
            self._logger.log(level, message)


@functools.cache
def get_dist_logger(name: str = "colossalai") -> DistributedLogger:
    """The logger of this name: one for each."""
    return DistributedLogger(name)


def disable_existing_loggers(include: list[str] | None = None, exclude: list[str] | None = None) -> None:
    """Lets other loggers write warnings and errors only. include: their names; None: all but those in `exclude`."""
    kept = {"colossalai", *(exclude or ())}
    for name in include or [name for name in logging.root.manager.loggerDict if name not in kept]:
        logging.getLogger(name).setLevel(logging.WARNING)


def _rank() -> int:
    return torch.distributed.get_rank() if torch.distributed.is_initialized() else int(os.environ.get("RANK", 0))
