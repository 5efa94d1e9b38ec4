"""What Colossal-AI's arguments mean here: each is honoured, or has no effect, which is said once, or is refused."""
import dataclasses
import difflib
from typing import Any

from .._engine import ConfigError
from .logging import get_dist_logger

_said: set[str] = set()


@dataclasses.dataclass(frozen=True)
class Honoured:
    default: Any = None


@dataclasses.dataclass(frozen=True)
class WithoutEffect:
    reason: str


@dataclasses.dataclass(frozen=True)
class Only:
    """An argument with one value that works, as does None; `instead` says what to use."""
    value: Any
    instead: str


Table = dict[str, Honoured | WithoutEffect | Only]  # by name, in the order of Colossal-AI's signature


def honoured(owner: str, table: Table, positional: tuple[Any, ...], named: dict[str, Any]) -> dict[str, Any]:
    """The values of the arguments that are honoured, by name, of a call of `owner`. Raises ConfigError for those that are
    refused or unknown."""
    if len(positional) > len(table):
        raise ConfigError(f"{owner} takes {len(table)} arguments, and {len(positional)} were given")
    given = dict(zip(table, positional))
    repeated = next((name for name in named if name in given), None)
    if repeated:
        raise ConfigError(f"{owner}: {repeated} was given by position and by name")
    given |= named
    for name, value in given.items():
        _check(owner, table, name, value)
    return {name: given.get(name, argument.default) for name, argument in table.items() if isinstance(argument, Honoured)}


def say_once(message: str) -> None:
    """Logs a message on rank 0, the first time."""
    if message not in _said:
        _said.add(message)
        get_dist_logger().info(message, ranks=[0])


def _check(owner, table, name, value):
    if name not in table:
        near = difflib.get_close_matches(name, table, 1)
        raise ConfigError(f"{owner} has no argument {name}" + (f"; there is {near[0]}" if near else f": it has {', '.join(table)}"))
    argument = table[name]
    if isinstance(argument, Only) and value is not None and value != argument.value:
        raise ConfigError(f"{owner}: {name}={value!r}: {argument.instead}")
    if isinstance(argument, WithoutEffect):
        say_once(f"{owner}: {name} has no effect here: {argument.reason}")
