"""Boosted: the engine's side of a model. Hooks of its modules say where passes begin and end."""
import collections.abc
import contextlib
import dataclasses
import types
import weakref

import torch

from ._engine import ConfigError, Fetching
from ._module_uses import ModuleUses
from ._optimizers import first_rates, fixed_settings


_STATE_IS_THE_ENGINES = ("the optimizer's state is the engine's, divided among the ranks: use colossal.save(model, directory) and "
                         "colossal.load(model, directory) on all of them, or colossal.transformers.Trainer")


class Boosted:
    """A model, its optimizer, and the engine that trains them."""

    def __init__(self, model, optimizer, cluster, engine, max_grad_norm, dtype, offloads_activations):
        self.cluster, self.engine, self.max_grad_norm = cluster, engine, max_grad_norm
        self.runs = {}  # directory -> the Checkpoints there
        self._model, self._optimizer = model, optimizer
        self._synchronizes = True  # not inside no_sync()
        # Whether the step's last forward pass was outside of no_sync(), so that its backward pass may be the step's last; None: no pass.
        self._is_last = None
        self._pass = None  # "forward", "backward", "evaluation" or "gathering"
        self._entry, self._depth = None, 0  # the module whose call has begun the pass, and how many of its calls run
        self._has_stepped = False
        self._clip_once = None  # the norm that clip_grad_norm_() has asked for in this step
        self._rates, self._settings = first_rates(optimizer), fixed_settings(optimizer)
        self._checks_versions = dtype == "bf16"
        self.weights_have_changed()
        self._uses = ModuleUses(engine, model) if engine.weights_are_transient else None
        self._gradient_nodes = [torch.autograd.graph.get_gradient_edge(parameter).node for parameter in model.parameters()
                                if parameter.requires_grad]
        # Tensors and modules stay as they are: this only watches them. dynamo does not look into the hooks.
        watch = torch.compiler.disable
        parts = [module for module in model.modules() if next(module.parameters(), None) is not None]
        for module in parts if self._uses or offloads_activations else [model]:
            module.register_forward_pre_hook(watch(self._before_call), prepend=module is model)
            module.register_forward_hook(watch(self._after_call), always_call=True)
        this = weakref.ref(self)
        engine.on_unannounced_pass(lambda: this()._begin_backward(None))
        model.no_sync = self._no_sync
        model._apply = types.MethodType(_apply, model)
        model._is_accelerate_prepared = True  # accelerate then leaves the model to us
        optimizer.grad_norm = None
        optimizer.zero_grad = lambda set_to_none=True: self.discard()
        optimizer.state_dict, optimizer.load_state_dict = self._state_dict, self._load_state_dict

        with_hooks = torch.optim.Optimizer.profile_hook_step(lambda _optimizer, closure: self._step(closure))

        def step(closure=None):
            return with_hooks(optimizer, closure)
        step._wrapped_by_lr_sched = True  # schedulers ask whether step() was called: _step() tells them
        optimizer.step = step

    def __deepcopy__(self, _memo):
        raise ConfigError("a boosted model cannot be copied: its weights are the engine's; copy its state_dict() inside "
                          "colossal.gather(model)")

    @contextlib.contextmanager
    def gathering(self):
        """While it lasts, all weights are whole."""
        self._abandon_pass()
        self.engine.begin_gathering()
        self._pass = "gathering"
        try:
            yield
        finally:
            self._pass = None
            self.engine.end_gathering()

    def discard(self):
        """Drops the gradients of the step."""
        self._clip_once = None
        self.engine.discard_gradients()

    def clip(self, max_norm):
        """The next update scales gradients down to this norm of all ranks. Returns their norm."""
        if self.max_grad_norm and self.max_grad_norm != max_norm:
            raise ConfigError(f"clip_grad_norm_ to {max_norm}, but boost() was given max_grad_norm={self.max_grad_norm}: use one of them")
        self._abandon_pass()
        self._clip_once = max_norm
        return self.engine.gradient_norm()

    def ids_of_trained(self):
        return {id(parameter) for parameter in self._model.parameters() if parameter.requires_grad}

    def rates_of_groups(self):
        return [{key: float(group[key]) for key in ("lr", "initial_lr") if key in group} for group in self._optimizer.param_groups]

    def restore_rates(self, rates):
        """rates: an earlier result of rates_of_groups()"""
        groups = self._optimizer.param_groups
        if len(rates) != len(groups):
            raise ConfigError(f"the checkpoint is of an optimizer with {len(rates)} parameter groups, and this one has {len(groups)}")
        for group, saved in zip(groups, rates):
            group.update(saved)

    def wait_for_saves(self):
        """Until those that run beside the program have read the weights, which may then change."""
        for run in self.runs.values():
            run.wait_until_read()

    def weights_have_changed(self):
        """By the engine: their versions are no sign of a change by the program."""
        parameters = self._model.parameters() if self._checks_versions else ()
        self._versions = {parameter: parameter._version for parameter in parameters}

    def _state_dict(self):
        """Before this program's first step it has no state: accelerate asks for it when it prepares the optimizer."""
        if self._has_stepped:
            raise ConfigError(_STATE_IS_THE_ENGINES)
        return type(self._optimizer).state_dict(self._optimizer)

    def _load_state_dict(self, state):
        if state["state"]:
            raise ConfigError(_STATE_IS_THE_ENGINES)
        type(self._optimizer).load_state_dict(self._optimizer, state)

    def _abandon_pass(self):
        """Ends a pass that an exception has ended, if there is one."""
        if self._pass is not None:
            self.engine.abandon_pass()
            self._pass = None
            self._depth = 0

    def _before_call(self, module, _inputs):
        if self._pass == "gathering":
            return
        in_backward = torch._C._current_graph_task_id() != -1  # a module is recomputed
        if (self._pass == "backward" and not in_backward) or (self._pass in ("forward", "evaluation") and module is self._model):
            self._abandon_pass()
        if self._pass is None:
            self._begin_pass(module)
        if module is self._entry:
            self._depth += 1
        if self._uses:
            self._uses.begin(module, brings_all=self._brings_all)

    def _begin_pass(self, module):
        """module: the model, or a part of it that the program has called by itself"""
        self._check_weights()
        if module.training and self._synchronizes:  # as DistributedDataParallel does
            for buffer in module.buffers():
                self.cluster.broadcast(buffer)
        self._brings_all = self._uses is not None and not self._uses.has_seen(module) and module is not self._model
        fetching = Fetching.all if self._brings_all else Fetching.ahead if module is self._model else Fetching.on_demand
        if torch.is_grad_enabled():
            self.engine.begin_forward(fetching)
            self._pass = "forward"
        else:
            self.engine.begin_evaluation(fetching)
            self._pass = "evaluation"
        self._entry, self._depth = module, 0

    def _check_weights(self):
        for name, parameter in self._model.named_parameters():
            if not self.engine.is_weight(parameter):
                raise ConfigError(f"{name} has other memory than boost() gave it: something has moved or replaced the parameter")
            if self._versions and self._versions[parameter] != parameter._version:
                raise ConfigError(f"{name} was changed in place: with dtype=\"bf16\" the next step would undo it, because the masters "
                                  "are the engine's; change weights before boost()")

    def _after_call(self, module, _inputs, output):
        if self._pass == "gathering":
            return
        if self._uses:
            self._uses.end(module)
        if module is not self._entry or self._pass not in ("forward", "evaluation"):
            return
        self._depth -= 1
        if self._depth == 0:
            self._end_pass(output)

    def _end_pass(self, output):
        ended, self._pass, self._entry = self._pass, None, None
        if ended == "evaluation":
            return self.engine.end_evaluation()
        self.engine.end_forward()
        self._is_last = self._synchronizes
        for tensor in _tensors_of(output):
            if tensor.requires_grad:
                tensor.register_hook(self._begin_backward)

    def _begin_backward(self, _gradient):
        """When the gradient of a pass's output has come, or one that is needed before: of parts of the model, of second derivatives."""
        if self._pass == "backward":
            return
        self._pass = "backward"
        if self._collects_gradients():
            self.engine.begin_backward(self._synchronizes if self._is_last is None else self._is_last)
            end = self.engine.end_backward
        else:
            self.engine.begin_query()
            end = self.engine.end_query
        torch.autograd.Variable._execution_engine.queue_callback(lambda: self._end_backward(end))

    def _collects_gradients(self):
        """Whether the running backward pass computes gradients of parameters, and they are not those that torch.autograd.grad()
        returns."""
        for node in self._gradient_nodes:
            try:
                if torch._C._will_engine_execute_node(node):
                    return True
            except RuntimeError:  # torch.autograd.grad() with respect to this parameter
                return False
        return False

    def _end_backward(self, end):
        self._pass = None
        end()

    @contextlib.contextmanager
    def _no_sync(self):
        before, self._synchronizes = self._synchronizes, False
        try:
            yield
        finally:
            self._synchronizes = before

    def _step(self, closure):
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        self._abandon_pass()
        groups = self._optimizer.param_groups
        if fixed_settings(self._optimizer) != self._settings:
            raise ConfigError("the optimizer's settings, groups or trained parameters have changed since boost(): the engine takes new "
                              "learning rates only")
        rates = [group["lr"] for group in groups]
        for first, rate in zip(self._rates, rates):
            if abs(rate * self._rates[0] - first * rates[0]) > 1e-9 * abs(first * rates[0]):
                raise ConfigError(f"the learning rates of the parameter groups were {self._rates} and are {rates}: the engine keeps "
                                  "their ratios; let schedulers change all groups alike")
        self.wait_for_saves()
        max_norm = self.max_grad_norm if self._clip_once is None else self._clip_once
        self._clip_once, self._has_stepped, self._is_last = None, True, None
        result = self.engine.update(rates[0], max_norm)
        self.weights_have_changed()
        self._optimizer.grad_norm = None if result.skipped else result.grad_norm
        self._optimizer._opt_called = True
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
