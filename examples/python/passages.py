"""The data of these examples: texts that every Debian has, and a program of Python, as bytes. A token is a byte, so that no tokenizer is needed."""
import argparse
import pathlib

import torch

FOLDER = pathlib.Path("/usr/share/common-licenses")
LICENSES = ("Apache-2.0", "GPL-3", "MPL-2.0")


class Passages(torch.utils.data.Dataset):
    """Passages of licenses, of `length` bytes, one after another, each a dict as transformers' models take it."""

    def __init__(self, length, names=LICENSES):
        self.rows = [row for name in names for row in _passages_of(FOLDER / name, length)]

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, index):
        return {"input_ids": self.rows[index], "labels": self.rows[index]}


class LabelledPassages(torch.utils.data.Dataset):
    """As many passages of a license (label 0) as of a Python program (label 1). part: "train", or "test", which has every fifth."""

    def __init__(self, length, part):
        rows = [_passages_of(path, length) for path in (FOLDER / "GPL-3", pathlib.Path(argparse.__file__))]
        pairs = [pair for index, pair in enumerate(zip(*rows)) if (index % 5 == 4) == (part == "test")]
        self.rows = [(row, label) for pair in pairs for label, row in enumerate(pair)]

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, index):
        tokens, label = self.rows[index]
        return {"input_ids": tokens, "labels": label}


def _passages_of(path, length):
    tokens = torch.frombuffer(bytearray(path.read_bytes()), dtype=torch.uint8).long()
    return list(tokens.split(length)[:-1])  # the last is shorter
