"""Architectures of transformers and diffusers by colossal.boost(), beside DistributedDataParallel in fp64, on the ranks that torchrun starts:
every ZeRO stage and the host; a checkpoint of one stage goes on at another, and from_pretrained() opens it.

  python -m torch.distributed.run --standalone --nproc-per-node=2 architecture_cases.py [Architectures.test_llama ...]
"""
import copy
import os
import unittest

import torch
import torch.distributed
from torch.nn.parallel import DistributedDataParallel

import colossal
from architectures import ARCHITECTURES, batch_of, model_of
from ranks import shared_directory

RANK = int(os.environ["RANK"])
LAYOUTS = [{"zero": 0}, {"zero": 1}, {"zero": 2}, {"zero": 3}, {"zero": 1, "offload": {"parameters": "host", "optimizer": "host"}}]
STEPS = 3


def optimizer_of(model):
    return torch.optim.AdamW(model.parameters(), lr=1e-2, weight_decay=0.1)


def train(name, model, optimizer, clip, steps):
    """Losses and norms of this rank."""
    found = []
    for step in steps:
        loss = model(**batch_of(name, 100 * step + RANK)).loss
        loss.backward()
        norm = clip()
        optimizer.step()
        optimizer.zero_grad()
        found += [loss.item(), float(norm if norm is not None else optimizer.grad_norm)]
    return found


class Architectures(unittest.TestCase):
    def reference(self, name):
        model = model_of(name)
        model.train()
        optimizer = optimizer_of(model)
        parallel = DistributedDataParallel(model, find_unused_parameters=True)
        found = train(name, parallel, optimizer, lambda: torch.nn.utils.clip_grad_norm_(model.parameters(), 0.5), range(STEPS))
        return found, copy.deepcopy(model.state_dict())

    def boosted(self, name, **layout):
        model = model_of(name)
        model.train()
        return colossal.boost(model, optimizer_of(model), max_grad_norm=0.5, chunk_bytes=4096, window_bytes=8192, **layout)

    def check(self, name):
        expected, expected_weights = self.reference(name)
        directory = shared_directory()
        for number, layout in enumerate(LAYOUTS):
            with self.subTest(**layout):
                model, optimizer = self.boosted(name, **layout)
                found = train(name, model, optimizer, lambda: None, range(STEPS - 1))
                path = colossal.save(model, f"{directory}/{number}", state={"epoch": number})
                # A run at the next layout goes on from there.
                other, other_optimizer = self.boosted(name, **LAYOUTS[(number + 1) % len(LAYOUTS)])
                loaded = colossal.load(other, f"{directory}/{number}", resume="must")
                self.assertEqual((loaded.step, loaded.path, loaded.state), (STEPS - 1, path, {"epoch": number}))
                found += train(name, other, other_optimizer, lambda: None, range(STEPS - 1, STEPS))
                torch.testing.assert_close(torch.tensor(found), torch.tensor(expected), rtol=1e-9, atol=1e-12)
                with colossal.gather(other):
                    self.assert_equal(other.state_dict(), expected_weights, 1e-9)
                if name == "unet":
                    continue  # diffusers has other names of files
                with colossal.gather(model):
                    opened = type(model).from_pretrained(path, dtype=torch.float64)
                    if RANK == 0:  # whose buffers are saved
                        self.assert_equal(opened.state_dict(), model.state_dict(), 0)

    def assert_equal(self, found, wanted, tolerance):
        self.assertEqual(found.keys(), wanted.keys())
        for key, value in wanted.items():
            torch.testing.assert_close(found[key], value, rtol=0, atol=tolerance, msg=lambda text, key=key: f"{key}: {text}")


for each in ARCHITECTURES:
    setattr(Architectures, f"test_{each}", lambda self, name=each: self.check(name))


if __name__ == "__main__":
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo")
    unittest.main(verbosity=2)
