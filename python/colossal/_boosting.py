"""boost(): the engine trains a module in the place of torch. Model and optimizer stay the same objects, and the loop of
the program, too: hooks of the module say where passes begin and end, and optimizer.step() is the engine's update."""
import collections.abc
import contextlib
from typing import Any, TypeVar

import torch

from ._engine import Cluster, ConfigError, ModuleEngine, connect  # first: it checks torch
from ._clipping import teach_clipping
from ._interrupts import end_waits_on_interrupts
from ._optimizers import Optimizer, groups_of, settings_of
from ._passes import Boosted

Model = TypeVar("Model", bound=torch.nn.Module)
_KINDS = ("parameters", "gradients", "optimizer", "activations")
_DTYPES = {torch.float64: "fp64", torch.float32: "fp32", torch.bfloat16: "bf16"}
_ranks: dict[tuple[str, float], Any] = {}  # the process's connection with the other ranks, by its settings: one


def boost(model: Model, optimizer: torch.optim.Optimizer | str = "adamw", *, zero: int = 0, dtype: str | None = None,
          lr: float | None = None, weight_decay: float | None = None, max_grad_norm: float = 0.0,
          offload: collections.abc.Mapping[str, Any] | None = None, nvme_path: str = "", backend: str = "auto",
          timeout: float = 300.0, chunk_bytes: int | None = None, window_bytes: int | None = None) -> tuple[Model, Any]:
    """Lets the engine train `model` on all ranks of the job, as DistributedDataParallel would. Returns (model, optimizer):
    the same model and, if it is an optimizer of torch, the same optimizer. Call it on all ranks.

    optimizer      a torch.optim.AdamW, Adam or SGD of the model's parameters, which may have been given to a scheduler, or
                   the name of an optimizer of the engine ("adamw", "lamb", "lars", "lion", "adafactor", "came", ...), with
                   lr (1e-3) and weight_decay (0)
    zero           0 to 3: divides optimizer state (1), gradients (2) and weights (3) among the ranks
    dtype          "fp32", "bf16" (weights and activations; masters are fp32) or "fp64"; None: that of the model
    max_grad_norm  gradients are scaled down to this norm of all ranks; 0: they are not
    offload        where tensors are between their uses: {"parameters" | "gradients" | "optimizer" | "activations":
                   "host" | "nvme" | {"host": fraction, "nvme": fraction}}
    nvme_path      a folder on a fast disk, if anything goes to "nvme"
    backend        "auto", "shm" or "gloo": how ranks communicate
    timeout        seconds after which a rank that does not come is named
    chunk_bytes, window_bytes  the engine's buffers and how much it fetches ahead; None: its defaults

    Afterwards model.no_sync() accumulates as in DistributedDataParallel; optimizer.grad_norm is the norm of the last step;
    gather(model) makes whole weights readable at zero=3."""
    if find_boosted(model):
        raise ConfigError("this model was boosted before: boost() takes a model once")
    names = {parameter: name for name, parameter in model.named_parameters()}
    if isinstance(optimizer, str):
        optimizer = Optimizer(names, optimizer, 1e-3 if lr is None else lr, 0.0 if weight_decay is None else weight_decay)
    elif lr is not None or weight_decay is not None:
        raise ConfigError("lr and weight_decay are for an optimizer by name; this one has its own")
    _check_parameters(names, optimizer)
    settings = optimizer.engine_settings if isinstance(optimizer, Optimizer) else settings_of(optimizer)
    dtype = dtype or _dtype_of(names)
    cluster = Cluster(_connected(backend, timeout), zero)
    for buffer in model.buffers():
        cluster.broadcast(buffer)
    for parameter in names:
        parameter.grad = None
    engine = ModuleEngine.make(
        cluster, _marked(model, names), settings.name, settings.betas, settings.eps,
        settings.momentum, settings.nesterov, groups_of(optimizer, names), dtype, list(_shares(offload or {})), nvme_path,
        chunk_bytes, window_bytes)
    boosted = Boosted(model, optimizer, cluster, engine, max_grad_norm, dtype, "activations" in (offload or {}))
    owners: list[Any] = [model, *names]
    for each in owners:
        each.boosted_by_colossal = boosted
    teach_clipping(find_boosted)
    return model, optimizer


def rank() -> int:
    """The number of this process among the ranks of the job, from 0. After boost()."""
    if not _ranks:
        raise ConfigError("this process has not met the other ranks: call colossal.boost() first")
    return next(iter(_ranks.values())).rank


def _connected(backend, timeout):
    if _ranks and (backend, timeout) not in _ranks:
        raise ConfigError(f"backend and timeout were {next(iter(_ranks))} at the first boost() of this process; they are the same for all")
    if not _ranks:
        _ranks[backend, timeout] = connect(backend, timeout)
        end_waits_on_interrupts(_ranks[backend, timeout])
    return _ranks[backend, timeout]


def _marked(model, names):
    """Of each parameter: name, parameter, order of dims if it is the weight of a linear layer, else "", and whether that layer
    is the model's head. Optimizers of matrices, such as Muon, update the weights of linear layers other than the head."""
    orders = {id(module.weight): order for module in model.modules() if (order := _weight_order(module))}
    head = model.get_output_embeddings() if callable(getattr(model, "get_output_embeddings", None)) else None
    return [(name, parameter, orders.get(id(parameter), ""), parameter is getattr(head, "weight", None))
            for parameter, name in names.items()]


def _weight_order(module):
    if isinstance(module, torch.nn.Linear):
        return "out_in"
    is_of_gpt2 = type(module).__name__ == "Conv1D" and type(module).__module__ == "transformers.pytorch_utils"
    return "in_out" if is_of_gpt2 else ""


def _check_parameters(names, optimizer):
    groups = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    strange = sum(parameter not in names for parameter in groups)
    if strange:
        raise ConfigError(f"the optimizer has {strange} parameters that are not the model's; make it of model.parameters()")
    in_groups = set(groups)
    left = [name for parameter, name in names.items() if parameter.requires_grad and parameter not in in_groups]
    if left:
        raise ConfigError(f"{len(left)} trainable parameters of the model are not in the optimizer, such as {left[0]}: "
                          "add them, or set requires_grad_(False)")
    for parameter, name in names.items():
        if not parameter.is_floating_point():
            raise ConfigError(f"{name} is {parameter.dtype}: the engine has parameters of real numbers only")


def _dtype_of(names):
    types = {parameter.dtype for parameter in names}
    if len(types) > 1 or not types <= set(_DTYPES):
        raise ConfigError(f"the model's parameters are {', '.join(sorted(map(str, types)))}: pass dtype=")
    return _DTYPES[types.pop()]


def _shares(offload):
    for kind, where in offload.items():
        if kind not in _KINDS:
            raise ConfigError(f"offload has {kind!r}; there are {', '.join(_KINDS)}")
        if isinstance(where, str):
            where = {where: 1.0}
        unknown = set(where) - {"host", "nvme"}
        if unknown:
            raise ConfigError(f"offload[{kind!r}] is {where}; there are \"host\" and \"nvme\"")
        yield kind, float(where.get("host", 0)), float(where.get("nvme", 0))


@contextlib.contextmanager
def gather(model: torch.nn.Module) -> collections.abc.Iterator[None]:
    """While it lasts, all weights of a boosted model are whole on every rank, to be read, and saved by
    model.save_pretrained() or torch.save(). Changes are lost. Call it on all ranks."""
    with boosted_of(model).gathering():
        yield


def boosted_of(model):
    """The Boosted of a model. Raises ConfigError if there is none."""
    boosted = find_boosted(model)
    if boosted is None:
        raise ConfigError("this model was not boosted: call colossal.boost() first")
    return boosted


def find_boosted(model_or_parameter):
    """The Boosted of a module or parameter; None if it has none."""
    return getattr(model_or_parameter, "boosted_by_colossal", None)
