"""The files of Booster: models as transformers reads them, and checkpoints of the engine for the optimizer's state."""
import collections.abc
import json
import os
import shutil
import typing

import torch
import torch.distributed

from ..._boosting import find_boosted, boosted_of, gather
from ..._checkpoints import load, save
from ..._engine import ConfigError, IoError, load_weight

State = dict[str, torch.Tensor]


def save_model(model: torch.nn.Module, path: str, folder: bool, prefix: str | None, megabytes: int, safetensors: bool) -> None:
    def write(target: str) -> None:
        if folder:
            _save_folder(model, target, prefix, megabytes)
        elif safetensors:
            from safetensors.torch import save_file
            save_file(_copies(model, repeats=False), target)
        else:
            torch.save(_copies(model, repeats=True), target)

    if find_boosted(model) is None:
        _on_first_rank(lambda: _replace(path, write))
        return
    with gather(model):
        _on_first_rank(lambda: _replace(path, write))


def load_model(model: torch.nn.Module, path: str, strict: bool) -> None:
    boosted = find_boosted(model)
    state = _read(path)
    _check_names(model, state, path, strict)
    if boosted is None:
        model.load_state_dict(state, strict=False)
        return
    boosted.discard()
    boosted.wait_for_saves()
    targets = model.state_dict(keep_vars=True)
    seen = set()
    for name, values in state.items():
        target = targets.get(name)
        if isinstance(target, torch.nn.Parameter) and id(target) not in seen:
            seen.add(id(target))
            load_weight(boosted.engine, boosted_name(model, target), values)
        elif isinstance(target, torch.Tensor) and not isinstance(target, torch.nn.Parameter):
            target.copy_(values)
    boosted.weights_have_changed()


def boosted_name(model: torch.nn.Module, parameter: torch.nn.Parameter) -> str:
    """The first of the parameter's names: by it, the engine knows a parameter that several modules share."""
    return next(name for name, each in model.named_parameters() if each is parameter)


def save_optimizer(model: torch.nn.Module, path: str) -> None:
    boosted = boosted_of(model)
    new = os.path.abspath(f"{path}.new")
    _on_first_rank(lambda: shutil.rmtree(new, ignore_errors=True))
    step = save(model, new)
    boosted.runs.pop(new)

    def move(target: str) -> None:
        os.rename(typing.cast(str, step), target)
        shutil.rmtree(new)

    _on_first_rank(lambda: _replace(path, move))


def load_optimizer(model: torch.nn.Module, path: str) -> None:
    if not os.path.isfile(os.path.join(path, "training_state", "state.json")):
        raise ConfigError(f"{path} holds no state of an optimizer: pass a folder that save_optimizer() has written")
    load(model, path, resume="must")


def save_lr_scheduler(scheduler: typing.Any, path: str) -> None:
    _on_first_rank(lambda: _replace(path, lambda target: torch.save(scheduler.state_dict(), target)))


def load_lr_scheduler(scheduler: typing.Any, path: str) -> None:
    scheduler.load_state_dict(torch.load(path, weights_only=True))


def _save_folder(model: typing.Any, target: str, prefix: str | None, megabytes: int) -> None:
    size = f"{megabytes}MB"
    if hasattr(model, "save_pretrained") and prefix is None:
        model.save_pretrained(target, max_shard_size=size)
        return
    from huggingface_hub import save_torch_state_dict
    os.makedirs(target)
    start = f"{prefix}." if prefix else ""
    save_torch_state_dict(_copies(model, repeats=False), target, max_shard_size=size, filename_pattern=start + "model{suffix}.safetensors")
    for each in ("config", "generation_config"):
        if hasattr(getattr(model, each, None), "save_pretrained"):
            getattr(model, each).save_pretrained(target)


def _copies(model: torch.nn.Module, repeats: bool) -> State:
    """The model's state in memory of its own: files of torch would hold the engine's buffers. repeats: whether a tensor that has
    several names is there by each of them, which safetensors refuses."""
    copies: dict[int, torch.Tensor] = {}
    state: State = {}
    for name, value in model.state_dict(keep_vars=True).items():
        if repeats or id(value) not in copies:
            state[name] = copies.setdefault(id(value), value.detach().clone(memory_format=torch.contiguous_format))
    return state


def _read(path: str) -> State:
    if os.path.isdir(path):
        return _read_folder(path)
    if not os.path.exists(path):
        raise ConfigError(f"{path} does not exist: pass a file or a folder of weights")
    return _read_file(path)


def _read_folder(folder: str) -> State:
    names = sorted(os.listdir(folder))
    index = next((name for name in names if name.endswith((".safetensors.index.json", ".bin.index.json"))), None)
    if index:
        with open(os.path.join(folder, index), encoding="utf-8") as file:
            files = sorted(set(json.load(file)["weight_map"].values()))
    else:
        files = [name for name in names if name.endswith(".safetensors")] or [name for name in names if name.endswith("model.bin")]
    if not files:
        raise ConfigError(f"{folder} holds no weights: there is neither a *.safetensors nor a *model.bin")
    state: State = {}
    for name in files:
        state.update(_read_file(os.path.join(folder, name)))
    return state


def _read_file(path: str) -> State:
    if path.endswith(".safetensors"):
        from safetensors.torch import load_file
        return load_file(path)
    return typing.cast(State, torch.load(path, map_location="cpu", weights_only=True))


def _check_names(model: torch.nn.Module, state: State, path: str, strict: bool) -> None:
    targets = model.state_dict(keep_vars=True)
    given = {id(targets[name]) for name in state if name in targets}
    missing = [name for name, value in targets.items() if id(value) not in given]
    unknown = [name for name in state if name not in targets]
    if strict and (missing or unknown):
        raise ConfigError(f"{path} is of another model: it lacks {_some(missing)}, and has beside the model's {_some(unknown)}; "
                          "strict=False loads what both have")


def _some(names: list[str]) -> str:
    return f"{len(names)} names, such as {names[0]}" if names else "none"


def _replace(path: str, write: collections.abc.Callable[[str], None]) -> None:
    """write: makes the file or folder of its argument, which then takes the place of what is at `path`."""
    path = os.path.abspath(path)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    new, old = f"{path}.writing", f"{path}.old"
    for each in (new, old):
        _remove(each)
    write(new)
    if os.path.exists(path):
        os.rename(path, old)
    os.rename(new, path)
    _remove(old)


def _remove(path: str) -> None:
    if os.path.isdir(path):
        shutil.rmtree(path)
    elif os.path.exists(path):
        os.remove(path)


def _on_first_rank(action: collections.abc.Callable[[], None]) -> None:
    """Rank 0 does it, the others wait. If it fails, all raise IoError."""
    problem = ""
    if not torch.distributed.is_initialized():
        return action()
    if torch.distributed.get_rank() == 0:
        try:
            action()
        except Exception as error:  # whatever it is: the others wait
            problem = f"{type(error).__name__}: {error}"
    told = [problem]
    torch.distributed.broadcast_object_list(told)
    if told[0]:
        raise IoError(told[0])
