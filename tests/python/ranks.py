"""What the programs that torchrun starts share."""
import tempfile

import torch.distributed


def shared_directory():
    """A new directory, the same on all ranks."""
    paths = [tempfile.mkdtemp() if torch.distributed.get_rank() == 0 else None]
    torch.distributed.broadcast_object_list(paths)
    return paths[0]
