"""save() and load(): checkpoints of a boosted model, written and read by the engine on all ranks."""
import atexit
import base64
import copy
import dataclasses
import json
import os
import typing

import torch

from ._boosting import boosted_of
from ._engine import CheckpointContents, Checkpoints, ConfigError, load_checkpoint

_saving: list[Checkpoints] = []  # whose save may run: at most one of the process, in the same order on all ranks


@dataclasses.dataclass(frozen=True)
class Loaded:
    """What load() has found."""
    step: int  # the number of updates before the checkpoint; 0: there was none
    path: str | None  # the checkpoint's folder; None: there was none
    state: dict[str, typing.Any]  # what save() was given


def save(model: torch.nn.Module, directory: str | os.PathLike[str], *, state: dict[str, typing.Any] | None = None, keep: int = 0,
         wait: bool = True) -> str | None:
    """Writes the folder directory/step-NNNNNN: weights, buffers and config, which transformers opens, and the optimizer's state.
    A killed save leaves no such folder. Call it on all ranks, between a step and the next pass.

    state  what else load() shall return: a dict of what JSON has, such as {"epoch": 2, "scheduler": scheduler.state_dict()}
    keep   how many checkpoints to keep in the directory, the newest; 0: all
    wait   False: returns at once, and the save runs beside the passes that follow; the next save(), or the end of the
           program, waits for it, and reports its error

    Returns the path of the checkpoint; None if wait is False."""
    boosted = boosted_of(model)
    runs, directory = boosted.runs, os.path.abspath(directory)
    if directory not in runs:
        _finish_save()
        runs[directory] = Checkpoints(boosted.cluster, boosted.engine, directory, "never")
    run = runs[directory]
    contents = _contents(model, boosted, state or {}, boosted.cluster.gather_bytes(_random_state()))
    _finish_save()
    run.keep(keep)
    run.begin_save(contents)
    _saving.append(run)
    return _finish_save() if wait else None


def load(model: torch.nn.Module, directory: str | os.PathLike[str], *, resume: str = "auto") -> Loaded:
    """Goes on from the newest intact checkpoint in a directory of save(): loads weights, buffers, optimizer state and learning
    rates, at any zero= and number of ranks. Call it on all ranks, after boost(). Returns a Loaded.

    directory  of save(), or one of its checkpoints
    resume     "auto": begins anew if there is no checkpoint; "must": raises ConfigError then; "never": raises it if there is one

    Random numbers go on as they would have, if the number of ranks is the same; else from this program's seed."""
    boosted = boosted_of(model)
    directory = os.path.abspath(directory)
    path = directory
    _finish_save()  # it reads the weights, and ranks agree on it as they do here
    if not os.path.isfile(os.path.join(directory, "training_state", "state.json")):
        boosted.runs[directory] = Checkpoints(boosted.cluster, boosted.engine, directory, resume)
        path = boosted.runs[directory].start
    if path is None:
        return Loaded(0, None, {})
    boosted.discard()
    contents = _contents(model, boosted, {}, [], buffers_of=_buffers)
    found = json.loads(load_checkpoint(boosted.cluster, path, boosted.engine, contents))
    boosted.restore_rates(found["learning_rates"])
    boosted.weights_have_changed()
    states = found["random"]
    if len(states) == boosted.cluster.size:
        torch.set_rng_state(torch.frombuffer(bytearray(base64.b64decode(states[boosted.cluster.rank])), dtype=torch.uint8))
    return Loaded(boosted.engine.steps_done, path, found["state"])


def _random_state():
    return torch.get_rng_state().numpy().tobytes()


def _buffers(model):
    """Names and tensors of the buffers that belong to the model's state."""
    for name, value in model.state_dict(keep_vars=True).items():
        if isinstance(value, torch.nn.Parameter):
            continue
        if not isinstance(value, torch.Tensor):
            raise ConfigError(f"{name} in the model's state is a {type(value).__name__}: checkpoints store tensors; pass it as state=")
        yield name, value.detach()


def _copies(model):
    return ((name, buffer.clone()) for name, buffer in _buffers(model))


def _contents(model, boosted, state, random_states, buffers_of=_copies):
    config, fields, files = _description(model)
    mine = {"learning_rates": boosted.rates_of_groups(), "state": state,
            "random": [base64.b64encode(each).decode() for each in random_states]}
    try:
        text = json.dumps(mine)
    except TypeError as error:
        raise ConfigError(f"state must be of numbers, texts, lists and dicts with texts as keys: {error}") from None
    return CheckpointContents(json.dumps(config), json.dumps(fields), list(buffers_of(model)), files, text)


def _description(model):
    """The contents of config.json, those of its fields that another model does not have, and (name, content) of other files."""
    config = getattr(model, "config", None)
    if not hasattr(config, "to_json_string"):
        fields = {"class": f"{type(model).__module__}.{type(model).__qualname__}"}
        return fields, fields, []
    config = copy.deepcopy(config)
    config.architectures = [type(model).__name__]
    config.dtype = next(model.parameters()).dtype
    contents = json.loads(config.to_json_string())
    generation = getattr(model, "generation_config", None)
    files = [] if generation is None else [("generation_config.json", generation.to_json_string())]
    return contents, {key: contents[key] for key in ("model_type", "architectures") if key in contents}, files


@atexit.register
def _finish_save():
    """Waits for the save that runs beside the program, if there is one. Returns its path."""
    return _saving.pop().finish_save() if _saving else None
