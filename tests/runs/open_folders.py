"""Opens checkpoints with transformers: open_folders.py DIRECTORY, for each DIRECTORY/*/checkpoints/step-*.

Each must load without a tensor missing, left over or of another shape. What transformers then saves
again has the same values, bit for bit, under the same names.
"""
import json
import pathlib
import shutil
import sys

import torch
import transformers
from safetensors import safe_open

transformers.logging.set_verbosity_error()
transformers.logging.disable_progress_bar()

# Of BART: transformers makes zeros of it where a folder has none, as ours do (docs/models.md).
LEFT_OUT = "final_logits_bias"


def read(folder):
    tensors = {}
    for file in sorted(folder.glob("*.safetensors")):
        with safe_open(file, "pt") as opened:
            tensors.update({name: opened.get_tensor(name) for name in opened.keys()})
    return tensors


def open_folder(folder):
    config = json.loads((folder / "config.json").read_text())
    model, loading = getattr(transformers, config["architectures"][0]).from_pretrained(
        folder, dtype=getattr(torch, config["dtype"]), output_loading_info=True)
    for problem in ("missing_keys", "unexpected_keys", "mismatched_keys", "error_msgs"):
        found = [key for key in loading.get(problem) or [] if key != LEFT_OUT]
        assert not found, f"{problem}: {found}"
    again = folder / "again"
    model.save_pretrained(again)
    ours, theirs = read(folder), read(again)
    shutil.rmtree(again)
    left_out = {name for name in set(theirs) - set(ours) if name != LEFT_OUT or theirs[name].any()}
    assert not left_out, f"not in ours: {sorted(left_out)}"
    for name, tensor in ours.items():
        if name not in theirs:  # a table that transformers saves once
            assert any(torch.equal(tensor, other) for other in theirs.values()), f"{name} is lost"
            continue
        assert torch.equal(theirs[name].to(tensor.dtype), tensor), f"{name} has other values"


def main(directory):
    folders = sorted(pathlib.Path(directory).glob("*/checkpoints/step-*"))
    assert folders, "no folders"
    failures = 0
    for folder in folders:
        try:
            open_folder(folder)
        except Exception as error:
            failures += 1
            config = json.loads((folder / "config.json").read_text())
            print(f"{config['model_type']} in {config['dtype']}: {type(error).__name__}: {error}", file=sys.stderr)
    print(f"{len(folders)} folders opened")
    sys.exit(failures > 0)


main(sys.argv[1])
