"""boost(): the engine trains a module in the place of torch. Model and optimizer stay the same objects, and the loop of
the program, too: hooks of the module say where passes begin and end, and optimizer.step() is the engine's update."""
import contextlib
import types
import weakref

import torch
from torch.utils import _pytree

from ._engine import ConfigError, ModuleEngine, connect
from ._optimizers import Optimizer, groups_of, settings_of

_KINDS = ("parameters", "gradients", "optimizer", "activations")
_boosted = weakref.WeakKeyDictionary()  # models -> Boosted
_jobs = 0  # number of boosts so far, the same on all ranks


def boost(model, optimizer="adamw", *, zero=0, dtype="fp32", lr=1e-3, weight_decay=0.0, max_grad_norm=0.0, offload=None,
          nvme_path="", backend="auto", timeout=300.0, chunk_bytes=None, window_bytes=None):
    """Lets the engine train `model` on all ranks of the job, as DistributedDataParallel would. Returns (model, optimizer):
    the same model and, if it is an optimizer of torch, the same optimizer. Call it on all ranks.

    optimizer      a torch.optim.AdamW, Adam or SGD of the model's parameters, which may have been given to a scheduler, or
                   the name of an optimizer of the engine ("adamw", "lamb", "lars", "lion", "adafactor", "came", ...), with
                   lr and weight_decay
    zero           0 to 3: divides optimizer state (1), gradients (2) and weights (3) among the ranks
    dtype          "fp32", "bf16" (weights and activations; masters stay fp32) or "fp64"
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
        optimizer = Optimizer(names, optimizer, lr, weight_decay)
    strange = [parameter for group in optimizer.param_groups for parameter in group["params"] if parameter not in names]
    if strange:
        raise ConfigError(f"the optimizer has {len(strange)} parameters that are not the model's; make it of model.parameters()")
    global _jobs
    _jobs += 1
    cluster = connect(zero=zero, backend=backend, timeout=timeout, job=f"boost{_jobs}/")
    settings = optimizer.engine_settings if isinstance(optimizer, Optimizer) else settings_of(optimizer)
    engine = ModuleEngine.make(
        cluster, list((name, parameter) for parameter, name in names.items()), settings.name, settings.betas, settings.eps,
        settings.momentum, settings.nesterov, groups_of(optimizer, names), dtype, list(_shares(offload or {})), nvme_path,
        chunk_bytes, window_bytes)
    _boosted[model] = Boosted(model, optimizer, cluster, engine, max_grad_norm)
    return model, optimizer


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
def gather(model):
    """While it lasts, all weights of a boosted model are whole on every rank, to be read, and saved by
    model.save_pretrained() or torch.save(). Changes are lost. Call it on all ranks."""
    engine = _of(model).engine
    engine.begin_gathering()
    try:
        yield
    finally:
        engine.end_gathering()


def _of(model):
    if model not in _boosted:
        raise ConfigError("this model was not boosted: call colossal.boost() first")
    return _boosted[model]


class Boosted:
    """The engine's side of a model: what its hooks call."""

    def __init__(self, model, optimizer, cluster, engine, max_grad_norm):
        self.cluster, self.engine, self.max_grad_norm = cluster, engine, max_grad_norm
        self.synchronizes = True  # not inside no_sync()
        self.awaits_backward = False  # since a forward pass whose gradients are wanted
        self.rates = [group["lr"] for group in optimizer.param_groups]
        # Tensors and modules stay as they are: this only watches them. dynamo does not look into the hooks.
        watch = torch.compiler.disable
        model.register_forward_pre_hook(watch(self._before_forward), prepend=True)
        model.register_forward_hook(watch(self._after_forward), always_call=True)
        if engine.weights_are_transient:
            for module in model.modules():
                own = list(module.parameters(recurse=False))
                if own:
                    module.register_forward_pre_hook(watch(lambda _module, _input, own=own: self._use(own)))
                    module.register_forward_hook(watch(lambda _module, _input, _output, own=own: self._end_use(own)),
                                                 always_call=True)
        model.no_sync = self._no_sync
        model._apply = types.MethodType(_apply, model)
        model._is_accelerate_prepared = True  # accelerate then leaves the model to us
        optimizer.grad_norm = None
        optimizer.zero_grad = lambda set_to_none=True: None  # the engine releases gradients

        def step(closure=None):
            return self._step(optimizer, closure)
        step._wrapped_by_lr_sched = True  # schedulers ask whether step() was called: _step() tells them
        optimizer.step = step

    def _use(self, weights):
        for weight in weights:
            self.engine.before_use(weight)

    def _end_use(self, weights):
        for weight in weights:
            self.engine.after_use(weight)

    def _before_forward(self, module, _inputs):
        for name, parameter in module.named_parameters():
            if not self.engine.is_weight(parameter):
                raise ConfigError(f"{name} has other memory than boost() gave it: something has moved or replaced the parameter; "
                                  "change weights in place, inside torch.no_grad()")
        if torch.is_grad_enabled():
            self.engine.begin_forward()
            self.pass_ = "forward"
        else:
            self.engine.begin_evaluation()
            self.pass_ = "evaluation"

    def _after_forward(self, _module, _inputs, output):
        if self.pass_ == "evaluation":
            return self.engine.end_evaluation()
        self.engine.end_forward()
        self.awaits_backward = True
        if output is None:  # the forward pass has failed
            return
        for tensor in _pytree.tree_leaves(dict(output) if hasattr(output, "keys") else output):
            if isinstance(tensor, torch.Tensor) and tensor.requires_grad:
                tensor.register_hook(self._begin_backward)

    def _begin_backward(self, _gradient):
        if not self.awaits_backward:
            return
        self.awaits_backward = False
        self.engine.begin_backward(self.synchronizes)
        torch.autograd.Variable._execution_engine.queue_callback(self.engine.end_backward)

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
        rates = [group["lr"] for group in optimizer.param_groups]
        for first, rate in zip(self.rates, rates):
            if rate * self.rates[0] != first * rates[0] and abs(rate * self.rates[0] - first * rates[0]) > 1e-9 * abs(first * rates[0]):
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
