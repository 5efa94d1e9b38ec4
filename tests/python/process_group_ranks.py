"""The ranks of the tests of init_process_group("colossal"), as torchrun starts them."""
import datetime
import os
import subprocess
import sys

import torch
import torch.distributed as dist

import colossal.distributed  # noqa: F401  (registers the backend)

RANK, SIZE = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])


def become_a_host():
    """Of HOSTS=2, starts the last rank again in a namespace of its own, by which a rank knows its host."""
    if os.environ.get("HOSTS") != "2" or "ON_OTHER_HOST" in os.environ:
        return
    apart = ["unshare", "--user", "--map-root-user"]
    if subprocess.run([*apart, "true"]).returncode != 0:
        print("skipped: this system refuses user namespaces")
        sys.exit()
    if RANK == SIZE - 1:
        os.environ["ON_OTHER_HOST"] = "1"
        os.execvp(apart[0], [*apart, sys.executable, *sys.argv])


def make_groups():
    """Makes the default process group, "colossal", and one over gloo, which it returns."""
    torch.set_num_threads(1)
    for attempt in range(2):  # a process group can be made again after it was destroyed
        dist.init_process_group("colossal", timeout=datetime.timedelta(seconds=60))
        dist.barrier()
        if attempt == 0:
            dist.destroy_process_group()
    return dist.new_group(backend="gloo")
