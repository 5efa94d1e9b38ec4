"""Models of transformers as objects, for train() and tune(): their weights go to the engine and come back through the hosts' memory."""
import contextlib
import os
import shutil
import tempfile
import time

from ._engine import ConfigError

_PATIENCE = 600.0  # seconds that a rank waits for the rank of its host that writes the model, or removes it
_runs = 0  # of this process; all ranks make the same ones


@contextlib.contextmanager
def handed_over(model, tokenizer, sections):
    """Yields (sections with the model's folder in the place of the object, a function that takes the finished run and gives the
    object its weights). Folders are in /dev/shm, if there is one, and are removed at the end. All ranks call it."""
    if not (hasattr(model, "save_pretrained") and hasattr(model, "from_pretrained")):
        raise ConfigError(f"model is a {type(model).__name__}: train() takes models of transformers, and boost() any module")
    folder = _folder_of_run()
    given, trained = os.path.join(folder, "given"), os.path.join(folder, "trained")
    writes = int(os.environ.get("LOCAL_RANK", 0)) == 0
    checkpoint = dict(sections.get("checkpoint", {}))
    is_kept = "checkpoint.directory" in sections or bool(checkpoint.get("directory"))
    adapter = sections.get("adapter.kind", dict(sections.get("adapter", {})).get("kind", "none"))
    if adapter != "none" and not is_kept:
        raise ConfigError(f"adapter.kind = \"{adapter}\": the object keeps its weights, and only checkpoints have the adapter; give "
                          "checkpoint={\"directory\": ...}")
    if not is_kept:
        if _ranks_here() != int(os.environ.get("WORLD_SIZE", 1)):
            raise ConfigError("the ranks are on several hosts: give checkpoint={\"directory\": ...}, a folder that all of them share")
        checkpoint["directory"] = trained
    try:
        if writes:
            model.save_pretrained(given)
            if tokenizer is not None:
                tokenizer.save_pretrained(given)
            _mark(folder, "written")
        _wait_for(folder, ["written"])
        precision = {} if "precision" in sections or "precision.compute" in sections else {"precision": {"compute": _precision_of(model)}}
        run = {**precision, **sections, "model": {"path": given}, "checkpoint": checkpoint}
        yield run, lambda finished: _take_back(model, finished) if adapter == "none" else None
        _mark(folder, f"read-{os.environ.get('LOCAL_RANK', 0)}")
        if writes:
            _wait_for(folder, [f"read-{rank}" for rank in range(_ranks_here())])
    finally:
        if writes:
            shutil.rmtree(folder, ignore_errors=True)


def _precision_of(model):
    dtype = str(next(model.parameters()).dtype).removeprefix("torch.")
    known = {"float64": "fp64", "float32": "fp32", "bfloat16": "bf16"}
    if dtype not in known:
        raise ConfigError(f"the model is {dtype}: give precision={{\"compute\": ...}}, one of {', '.join(known.values())}")
    return known[dtype]


def _folder_of_run():
    """The same for all ranks of a host, which one process has started, and of no other run."""
    global _runs
    _runs += 1
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else tempfile.gettempdir()
    if "RANK" not in os.environ:
        return tempfile.mkdtemp(prefix="colossal-model-", dir=memory)
    job = f"{os.environ.get('TORCHELASTIC_RUN_ID', '')}-{os.environ.get('MASTER_PORT', '')}-{os.getppid()}-{_runs}"
    folder = os.path.join(memory, f"colossal-model-{job}")
    os.makedirs(folder, exist_ok=True)
    return folder


def _ranks_here():
    return int(os.environ.get("LOCAL_WORLD_SIZE", os.environ.get("WORLD_SIZE", 1)))


def _mark(folder, name):
    with open(os.path.join(folder, name), "w"):
        pass


def _wait_for(folder, names):
    end = time.monotonic() + _PATIENCE
    while missing := [name for name in names if not os.path.exists(os.path.join(folder, name))]:
        if time.monotonic() > end:
            raise ConfigError(f"after {_PATIENCE:.0f} s, other ranks of this host have not come as far as this one: {', '.join(missing)}")
        time.sleep(0.02)


def _take_back(model, run):
    """Gives the object the weights of the run's last checkpoint."""
    found = type(model).from_pretrained(run.checkpoint, dtype=next(model.parameters()).dtype)
    model.load_state_dict(found.state_dict())
