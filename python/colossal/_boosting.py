"""boost(): the engine trains a module in the place of torch. Model and optimizer stay the same objects, and the loop of
the program, too: hooks of the module say where passes begin and end, and optimizer.step() is the engine's update."""
import collections.abc
import contextlib
import dataclasses
import types
import weakref
from typing import Any, TypeVar

import torch

from ._engine import Cluster, ConfigError, ModuleEngine, connect
from ._optimizers import Optimizer, first_rates, fixed_settings, groups_of, settings_of

Model = TypeVar("Model", bound=torch.nn.Module)
_KINDS = ("parameters", "gradients", "optimizer", "activations")
_boosted: weakref.WeakKeyDictionary[torch.nn.Module, "Boosted"] = weakref.WeakKeyDictionary()
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
    if model in _boosted:
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
        cluster, list((name, parameter) for parameter, name in names.items()), settings.name, settings.betas, settings.eps,
        settings.momentum, settings.nesterov, groups_of(optimizer, names), dtype, list(_shares(offload or {})), nvme_path,
        chunk_bytes, window_bytes)
    _boosted[model] = Boosted(model, optimizer, cluster, engine, max_grad_norm, dtype)
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
    return _ranks[backend, timeout]


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
    boosted = _of(model)
    boosted.engine.begin_gathering()
    boosted.pass_ = "gathering"
    try:
        yield
    finally:
        boosted.pass_ = None
        boosted.engine.end_gathering()


def _of(model):
    if model not in _boosted:
        raise ConfigError("this model was not boosted: call colossal.boost() first")
    return _boosted[model]


class Boosted:
    """The engine's side of a model: what its hooks call."""

    def __init__(self, model, optimizer, cluster, engine, max_grad_norm, dtype):
        self.cluster, self.engine, self.max_grad_norm = cluster, engine, max_grad_norm
        self.synchronizes = True  # not inside no_sync()
        self.is_last = True  # whether the last forward pass was outside of no_sync(): its backward pass is the step's last
        self.pass_ = None  # "forward", "backward", "evaluation" or "gathering"
        self.rates, self.settings = first_rates(optimizer), fixed_settings(optimizer)
        self.versions = {parameter: parameter._version for parameter in model.parameters()} if dtype == "bf16" else {}
        # Tensors and modules stay as they are: this only watches them. dynamo does not look into the hooks.
        watch = torch.compiler.disable
        model.register_forward_pre_hook(watch(self._before_forward), prepend=True)
        model.register_forward_hook(watch(self._after_forward), always_call=True)
        if engine.weights_are_transient:
            for module in model.modules():
                own = list(module.parameters(recurse=False))
                if own:
                    module.register_forward_pre_hook(watch(lambda module, _input, own=own: self._use(module, own)))
                    module.register_forward_hook(watch(lambda _module, _input, _output, own=own: self._end_use(own)),
                                                 always_call=True)
        model.no_sync = self._no_sync
        model._apply = types.MethodType(_apply, model)
        model._is_accelerate_prepared = True  # accelerate then leaves the model to us
        optimizer.grad_norm = None
        optimizer.zero_grad = lambda set_to_none=True: engine.discard_gradients()
        optimizer.state_dict = optimizer.load_state_dict = self._no_state

        def step(closure=None):
            return self._step(optimizer, closure)
        step._wrapped_by_lr_sched = True  # schedulers ask whether step() was called: _step() tells them
        optimizer.step = step

    def __deepcopy__(self, _memo):
        raise ConfigError("a boosted model cannot be copied: its weights are the engine's; copy its state_dict() inside "
                          "colossal.gather(model)")

    def _no_state(self, *_arguments, **_options):
        raise ConfigError("the optimizer's state is the engine's, and cannot be saved from Python yet")

    def _use(self, module, weights):
        if self.pass_ is None:
            raise ConfigError(f"{type(module).__name__} is called outside of the model's forward(), where its weights are sharded or "
                              "offloaded: call it inside colossal.gather(model)")
        for weight in weights:
            self.engine.before_use(weight)

    def _end_use(self, weights):
        for weight in weights:
            self.engine.after_use(weight)

    def _abandon_pass(self):
        """Ends a pass that an exception has ended, if there is one."""
        if self.pass_ is not None:
            self.engine.abandon_pass()
            self.pass_ = None

    def _before_forward(self, module, _inputs):
        if self.pass_ == "gathering":
            return
        self._abandon_pass()
        for name, parameter in module.named_parameters():
            if not self.engine.is_weight(parameter):
                raise ConfigError(f"{name} has other memory than boost() gave it: something has moved or replaced the parameter")
            if self.versions and self.versions[parameter] != parameter._version:
                raise ConfigError(f"{name} was changed in place: with dtype=\"bf16\" the next step would undo it, because the masters "
                                  "are the engine's; change weights before boost()")
        if module.training and self.synchronizes:  # as DistributedDataParallel does
            for buffer in module.buffers():
                self.cluster.broadcast(buffer)
        if torch.is_grad_enabled():
            self.engine.begin_forward()
            self.pass_ = "forward"
        else:
            self.engine.begin_evaluation()
            self.pass_ = "evaluation"

    def _after_forward(self, _module, _inputs, output):
        ended, self.pass_ = self.pass_, "gathering" if self.pass_ == "gathering" else None
        if ended == "evaluation":
            self.engine.end_evaluation()
        if ended != "forward":
            return
        self.engine.end_forward()
        self.is_last = self.synchronizes
        for tensor in _tensors_of(output):
            if tensor.requires_grad:
                tensor.register_hook(self._begin_backward)

    def _begin_backward(self, _gradient):
        if self.pass_ == "backward":
            return
        self.engine.begin_backward(self.is_last)
        self.pass_ = "backward"
        torch.autograd.Variable._execution_engine.queue_callback(self._end_backward)

    def _end_backward(self):
        self.pass_ = None
        self.engine.end_backward()

    @contextlib.contextmanager
    def _no_sync(self):
        before, self.synchronizes = self.synchronizes, False
        try:
            yield
        finally:
            self.synchronizes = before

    def _step(self, optimizer, closure):
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        self._abandon_pass()
        if fixed_settings(optimizer) != self.settings:
            raise ConfigError("the optimizer's settings, groups or trained parameters have changed since boost(): the engine takes new "
                              "learning rates only")
        rates = [group["lr"] for group in optimizer.param_groups]
        for first, rate in zip(self.rates, rates):
            if abs(rate * self.rates[0] - first * rates[0]) > 1e-9 * abs(first * rates[0]):
                raise ConfigError(f"the learning rates of the parameter groups were {self.rates} and are {rates}: the engine keeps "
                                  "their ratios; let schedulers change all groups alike")
        result = self.engine.update(rates[0], self.max_grad_norm)
        optimizer.grad_norm = None if result.skipped else result.grad_norm
        optimizer._opt_called = True
        return loss


def _apply(model, function, recurse=True):
    """What model.to(), .cuda(), .half() and the like call."""
    parameter = next(model.parameters())
    asked = function(torch.empty(0, dtype=parameter.dtype, device=parameter.device))
    if asked.dtype != parameter.dtype:
        raise ConfigError(f"the boosted model's weights are {parameter.dtype}, not {asked.dtype}: pass dtype= to boost()")
    if asked.device.type != parameter.device.type:
        raise ConfigError(f"the boosted model's weights are on {parameter.device}, not {asked.device}: the engine has placed them")
    return model


def _tensors_of(output):
    """The tensors of what a module returns, in containers and dataclasses of any depth."""
    if dataclasses.is_dataclass(output) and not isinstance(output, type):
        output = {field.name: getattr(output, field.name) for field in dataclasses.fields(output)}
    if isinstance(output, torch.Tensor):
        yield output
    elif isinstance(output, collections.abc.Mapping):
        for value in output.values():
            yield from _tensors_of(value)
    elif isinstance(output, (list, tuple)):
        for value in output:
            yield from _tensors_of(value)
