"""colossalai.lazy: models are made whole on every rank, before boost() divides them."""
import contextlib
import typing

from ._arguments import say_once


class LazyInitContext(contextlib.nullcontext[None]):
    """Does nothing, and says so once: the block makes the model as it would without it."""

    def __init__(self, *arguments: typing.Any, **named: typing.Any) -> None:
        super().__init__()
        say_once("LazyInitContext has no effect here: every rank makes the whole model in main memory, and boost() divides it; "
                 "`colossal train` makes models of its families in parts")
