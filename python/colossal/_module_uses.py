"""Weights that are on the device only around their uses (zero=3, offloaded parameters): each call of a module brings the
weights that it reads."""
import torch
from torch.overrides import TorchFunctionMode


class ModuleUses:
    """Says before and after each call of a module which weights the engine must have on the device. They are those that the
    module owns, and those of other modules that it has read in its first call without calling them: attention that reads
    out_proj.weight, a head that reads the embedding's table. To see these, the first call has the weights of all modules
    below it."""

    def __init__(self, engine, model):
        self._engine = engine
        self._weights = {module: list(module.parameters(recurse=False)) for module in model.modules()}
        self._below = {module: list(module.parameters()) for module in model.modules()}
        self._seen = set()  # modules that have been called
        self._calls = []  # the modules that run, outermost first, with the weights that each call has brought
        self._watcher = None

    def has_seen(self, module):
        return module in self._seen

    def begin(self, module, brings_all):
        """brings_all: whether the pass has all weights anyway."""
        is_first = module not in self._seen
        brought = self._below[module] if is_first and not brings_all else self._weights[module]
        for weight in brought:
            self._engine.before_use(weight)
        self._calls.append((module, brought, is_first))
        if is_first and self._watcher is None:
            self._watcher = _Watcher(self)
            self._watcher.__enter__()
            self._watcher.depth = len(self._calls)

    def end(self, module):
        if not self._calls or self._calls[-1][0] is not module:
            return  # a call that began outside of a pass
        if self._watcher is not None and self._watcher.depth == len(self._calls):
            self._watcher.__exit__(None, None, None)
            self._watcher = None
        _, brought, _ = self._calls.pop()
        self._seen.add(module)
        for weight in brought:
            self._engine.after_use(weight)

    def read(self, weight):
        """An operator reads a weight."""
        if any(weight is own for call, _, _ in self._calls for own in self._weights[call]):
            return
        for call, _, _ in reversed(self._calls):  # a module may pass the weight of one that is below it to another
            if any(weight is below for below in self._below[call]):
                self._weights[call].append(weight)
                return


class _Watcher(TorchFunctionMode):
    """Sees the operators of a module's first call."""

    def __init__(self, uses):
        super().__init__()
        self._uses = uses
        self.depth = 0

    def __torch_function__(self, function, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if function not in _NO_READS:
            for each in (*args, *kwargs.values()):
                for tensor in each if isinstance(each, (list, tuple)) else (each,):
                    if isinstance(tensor, torch.nn.Parameter):
                        self._uses.read(tensor)
        return function(*args, **kwargs)


# What may be asked of a weight that is not on the device.
_NO_READS = {
    *(getattr(torch.Tensor, name).__get__ for name in (
        "dtype", "device", "shape", "requires_grad", "is_leaf", "grad", "grad_fn", "ndim", "is_cuda", "_version", "layout", "is_sparse")),
    torch.Tensor.size, torch.Tensor.dim, torch.Tensor.numel, torch.Tensor.is_floating_point, torch.Tensor.is_complex,
    torch.Tensor.is_contiguous, torch.Tensor.stride, torch.Tensor.element_size, torch.Tensor.__hash__,
    torch.Tensor.get_device, torch.is_floating_point, torch.is_complex,
}
