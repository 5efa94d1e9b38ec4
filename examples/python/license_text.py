"""The data of these examples: texts that every Debian has, as bytes. A token is a byte, so that no tokenizer is needed."""
import pathlib

import torch

FOLDER = pathlib.Path("/usr/share/common-licenses")
NAMES = ("Apache-2.0", "GPL-3", "MPL-2.0")


class Passages(torch.utils.data.Dataset):
    """Passages of `length` bytes, one after another, each a dict as transformers' models take it."""

    def __init__(self, length, names=NAMES):
        self.rows = []
        for name in names:
            tokens = torch.frombuffer(bytearray((FOLDER / name).read_bytes()), dtype=torch.uint8).long()
            self.rows += tokens.split(length)[:-1]  # the last is shorter

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, index):
        return {"input_ids": self.rows[index], "labels": self.rows[index]}


class NamedPassages(torch.utils.data.Dataset):
    """Passages with the number of the text that they come from. part: "train", or "test", which has every fifth passage."""

    def __init__(self, length, part, names=NAMES):
        self.rows = [(row["input_ids"], number) for number, name in enumerate(names)
                     for index, row in enumerate(Passages(length, (name,))) if (index % 5 == 4) == (part == "test")]

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, index):
        tokens, number = self.rows[index]
        return {"input_ids": tokens, "labels": number}
