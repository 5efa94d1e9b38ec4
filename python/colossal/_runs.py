"""train(), tune() and plan(): runs of the models of the engine, with the keys of run.toml."""
from __future__ import annotations

import contextlib
import json
import os
import pathlib
import tempfile
import typing

from . import _engine, _rewards
from ._engine import ConfigError
from ._model_objects import handed_over

if typing.TYPE_CHECKING:
    from .configuration import Configuration


def train(config=None, *, texts=None, tokenizer=None, on_step=None, **sections: typing.Unpack[Configuration]):
    """Trains a model, as `colossal train` does: alone, or as one of the ranks that torchrun or `colossal run` has started.
    Returns what is known at the end: steps, loss, validation_loss, stopped, checkpoint (the folder of the newest) and log_directory.

        colossal.train(model={"preset": "gpt2-124m"}, data={"train": "corpus.jsonl"}, train={"steps": 1000},
                       on_step=lambda report: print(report.step, report.loss))

    config    the path of a run.toml, or its sections as a dict
    model     a section, or a model of transformers of a family that the engine has: it is trained at any layout, also with tensor,
              pipeline, sequence and expert parallelism, and has the trained weights afterwards, on all ranks
    tokenizer one of transformers, with a model of transformers
    texts     an iterable of texts to train on, in the place of data.train
    on_step   called after each step with its step, loss, grad_norm, learning_rate, units (tokens), metrics and
              validation_loss (None: no evaluation); if it returns something true, the run ends after the next step
    sections  sections of run.toml, which override `config`: train={"steps": 1000}; or single keys: **{"train.steps": 1000}

    A run that on_step or Ctrl-C ends saves a checkpoint, if it has a checkpoint.directory. After Ctrl-C, KeyboardInterrupt is
    raised then."""
    return _run("", config, texts, tokenizer, on_step, sections)


def tune(method, config=None, *, tokenizer=None, on_step=None, **sections: typing.Unpack[Configuration]):
    """Fine-tunes or aligns a model, as `colossal tune METHOD` does: "sft", "dpo", "grpo", ... Otherwise like train().

        def short(completions, **fields):
            return [-len(text) for text in completions]

        colossal.tune("grpo", "grpo.toml", tune={"reward": [short, "format"]})

    On one rank, tune.reward may have functions. One gets lists: `prompts`, `completions` (texts), `tokens` (their numbers of
    tokens) and each field of the prompts' lines, of which it takes what it has parameters for; it returns a number for each
    completion, or None. It is called on another thread. What it raises ends the run."""
    with _rewards.served(sections) as (sections, raise_error):

        def after_step(report):
            raise_error()
            return on_step and on_step(report)

        try:
            finished = _run(method, config, None, tokenizer, after_step, sections)
        except _engine.Error:
            raise_error()  # this was the cause
            raise
        raise_error()
        return finished


class Plan:
    """What a step of a run costs. Figures are the largest of any rank."""

    def __init__(self, planned):
        self.peak_bytes = planned.peak_bytes  # of memory on the device
        self.bytes_sent = planned.bytes_sent
        self.checkpoint_bytes = planned.checkpoint_bytes
        self.seconds = planned.seconds  # of a step, with parallel.cluster; else None
        self.figures = json.loads(planned.json)  # all that `colossal plan --json` prints
        self.text = planned.text  # what `colossal plan` prints

    def __repr__(self):
        return self.text


def plan(config=None, *, ranks=1, **sections: typing.Unpack[Configuration]):
    """What a run would cost on this many ranks, as `colossal plan` computes it: a dry run, without data and memory. Returns a
    Plan. config and sections are those of train()."""
    file, flags = _sources(config, sections)
    return Plan(_engine.plan(file, flags, ranks))


def _run(method, config, texts, tokenizer, on_step, sections):
    model = sections.get("model")
    if model is None or isinstance(model, dict):
        if tokenizer is not None:
            raise ConfigError("tokenizer is for a model that is an object; a folder has its own, and data.tokenizer names another")
        return _run_sections(method, config, texts, on_step, sections)
    with handed_over(model, tokenizer, sections) as (sections, take_back):
        finished = _run_sections(method, config, texts, on_step, sections)
        take_back(finished)
        return finished


def _run_sections(method, config, texts, on_step, sections):
    file, flags = _sources(config, sections)
    with _written(texts) as path:
        if path:
            flags.append(f"--data.train={_toml([path])}")
        return _engine.train(method, file, flags, on_step)


def _sources(config, sections):
    """(path of a file or "", flags)"""
    if config is None or isinstance(config, (str, os.PathLike)):
        return os.fspath(config or ""), list(flags_of(sections))
    return "", [*flags_of(config), *flags_of(sections)]


def flags_of(sections):
    """The flags --section.key=value of the command."""
    for section, keys in sections.items():
        if "." in section:
            keys = {"": keys}
        elif not isinstance(keys, dict):
            raise ConfigError(f"{section}={keys!r}: a section is a dict of its keys, such as train={{\"steps\": 1000}}")
        for key, value in keys.items():
            if value is not None:
                yield f"--{section}{'.' if key else ''}{key}={text_of(value)}"


def text_of(value):
    """A value as the flags of the command take it."""
    return os.fspath(value) if isinstance(value, (str, pathlib.PurePath)) else _toml(value)


def _toml(value):
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key} = {_toml(each)}" for key, each in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(_toml, value)) + "]"
    if isinstance(value, pathlib.PurePath):
        value = str(value)
    return json.dumps(value.item() if hasattr(value, "item") else value, ensure_ascii=False)


@contextlib.contextmanager
def _written(texts):
    """The path of a file with the texts, which lasts as long as the run; None if there are none."""
    if texts is None:
        yield None
        return
    with tempfile.TemporaryDirectory(prefix="colossal-") as folder:
        path = os.path.join(folder, "texts.jsonl")
        with open(path, "w", encoding="utf-8") as file:
            for text in texts:
                if not isinstance(text, str):
                    raise ConfigError(f"texts are strings, and not {text!r:.60}")
                file.write(json.dumps({"text": text}, ensure_ascii=False) + "\n")
        yield path
