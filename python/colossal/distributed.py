"""torch.distributed over shared memory within a host, and TCP between hosts: importing this registers the backend
"colossal" for tensors on the CPU.

    import colossal.distributed
    torch.distributed.init_process_group("colossal")
"""
import atexit

import torch.distributed

from . import _engine  # noqa: F401  (refuses another version of torch)
from ._c10d import end_all, make_process_group  # type: ignore[import-not-found]


def _create(options, backend_options):
    if backend_options is not None:
        raise ValueError(f"pg_options={backend_options!r}: the backend \"colossal\" has no options; leave pg_options out")
    return make_process_group(options)


torch.distributed.Backend.register_backend("colossal", _create, extended_api=True, devices=["cpu"])
atexit.register(end_all)
