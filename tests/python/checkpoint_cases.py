"""colossal.save() and colossal.load() of a module of one's own, with buffers and dropout: a run that goes on is the run that
was not interrupted; also on other numbers of ranks.

  python -m torch.distributed.run --standalone --nproc-per-node=2 checkpoint_cases.py
"""
import json
import os
import subprocess
import sys
import unittest

import torch
import torch.distributed

import colossal
from ranks import shared_directory

RANK, RANKS = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
ROWS = 12  # of all ranks together


class Net(torch.nn.Module):
    def __init__(self, dropout=0.0):
        super().__init__()
        torch.manual_seed(3)
        self.first = torch.nn.Linear(5, 17)
        self.norm = torch.nn.BatchNorm1d(17)
        self.drop = torch.nn.Dropout(dropout)
        self.last = torch.nn.Linear(17, 3)
        self.register_buffer("table", torch.arange(4, dtype=torch.int32))
        self.register_buffer("scratch", torch.zeros(2), persistent=False)

    def forward(self, x):
        return self.last(self.drop(torch.tanh(self.norm(self.first(x)))))


def boosted(zero=0, dropout=0.0, dtype=torch.float64, evaluates=False, **settings):
    """evaluates: batch norm uses its buffers, so that the ranks' rows do not matter"""
    model = Net(dropout).to(dtype)
    if evaluates:
        model.norm.eval()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, weight_decay=0.0)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.9)
    colossal.boost(model, optimizer, zero=zero, chunk_bytes=256, window_bytes=512, **settings)
    return model, optimizer, scheduler


def train(model, optimizer, scheduler, steps):
    losses = []
    for step in steps:
        generator = torch.Generator().manual_seed(step)
        rows = torch.randn(ROWS, 5, generator=generator, dtype=torch.float64)[RANK::RANKS].to(next(model.parameters()).dtype)
        loss = model(rows).square().mean()
        loss.backward()
        optimizer.step()
        scheduler.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    return losses


def weights(model):
    with colossal.gather(model):
        return {name: value.clone() for name, value in model.state_dict().items()}


class Checkpoints(unittest.TestCase):
    def test_goes_on_as_if_never_interrupted(self):
        """With dropout, batch norm, bf16 and a schedule, at another stage."""
        for dtype, zero, later in ((torch.float64, 0, 3), (torch.float64, 3, 1), (torch.bfloat16, 2, 3)):
            with self.subTest(dtype=dtype, zero=zero, later=later):
                directory = shared_directory()
                torch.manual_seed(10 + RANK)
                whole = boosted(zero, dropout=0.3, dtype=dtype)
                torch.manual_seed(20 + RANK)
                train(*whole, range(2))
                colossal.save(whole[0], directory, state={"scheduler": whole[2].state_dict()})
                wanted = train(*whole, range(2, 5))
                part = boosted(later, dropout=0.3, dtype=dtype)
                torch.manual_seed(99)  # what load() undoes
                loaded = colossal.load(part[0], directory)
                part[2].load_state_dict(loaded.state["scheduler"])
                self.assertEqual(loaded.step, 2)
                self.assertAlmostEqual(part[1].param_groups[0]["lr"], 1e-2 * 0.9 ** 2)
                self.assertEqual(train(*part, range(2, 5)), wanted)
                torch.testing.assert_close(weights(part[0]), weights(whole[0]), rtol=0, atol=0)
                self.assertEqual(part[0].norm.num_batches_tracked.item(), 5)

    def test_saves_beside_the_passes_and_keeps_the_newest(self):
        directory = shared_directory()
        run = boosted(1)
        for step in range(4):
            train(*run, range(step, step + 1))
            self.assertIsNone(colossal.save(run[0], directory, keep=2, wait=False))
        path = colossal.save(run[0], directory, keep=2)
        self.assertTrue(path.endswith("step-000004"))
        self.assertEqual(sorted(name for name in os.listdir(directory) if name.startswith("step-")), ["step-000003", "step-000004"])
        other = boosted(3)
        self.assertEqual(colossal.load(other[0], f"{directory}/step-000003").step, 3)
        train(*other, range(3, 4))
        torch.testing.assert_close(weights(other[0]), weights(run[0]), rtol=0, atol=1e-12)

    def test_a_save_that_runs_has_the_weights_of_its_step(self):
        directory = shared_directory()
        run = boosted(1, evaluates=True)
        train(*run, range(1))
        first = colossal.save(run[0], directory)
        train(*run, range(1, 3))
        wanted = weights(run[0])
        colossal.save(run[0], directory, wait=False)
        colossal.load(run[0], first)  # changes the weights at once
        last = colossal.save(run[0], f"{directory}/other")  # waits for the first
        other = boosted(0, evaluates=True)
        self.assertEqual(colossal.load(other[0], directory).step, 3)
        torch.testing.assert_close(weights(other[0]), wanted, rtol=0, atol=0)
        self.assertEqual(colossal.load(other[0], last).step, 1)

    def test_other_numbers_of_ranks(self):
        directory = shared_directory()
        run = boosted(3, evaluates=True)
        train(*run, range(2))
        colossal.save(run[0], directory)
        train(*run, range(2, 4))
        wanted = {name: value.tolist() for name, value in weights(run[0]).items()}
        found = [None]
        if RANK == 0:
            environment = {key: value for key, value in os.environ.items() if not key.startswith(("TORCHELASTIC", "MASTER", "RANK", "WORLD",
                                                                                                  "LOCAL", "GROUP", "ROLE"))}
            found = [[json.loads(subprocess.run(
                [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={ranks}", __file__, "--go-on", directory,
                 str(zero)], env=environment, check=True, capture_output=True, text=True).stdout) for ranks, zero in ((1, 0), (3, 2))]]
        torch.distributed.broadcast_object_list(found)
        for each in found[0]:
            for name, value in wanted.items():
                torch.testing.assert_close(torch.tensor(each[name]), torch.tensor(value), rtol=0, atol=1e-12, msg=name)

    def test_says_what_is_wrong(self):
        directory = shared_directory()
        run = boosted(1)
        self.assertEqual(colossal.load(run[0], f"{directory}/new"), colossal.Loaded(0, None, {}))
        with self.assertRaisesRegex(ValueError, 'holds no whole checkpoint'):
            colossal.load(run[0], f"{directory}/none", resume="must")
        with self.assertRaisesRegex(ValueError, "state must be of"):
            colossal.save(run[0], f"{directory}/new", state={"tensor": torch.ones(1)})
        train(*run, range(1))
        colossal.save(run[0], f"{directory}/new")
        other = boosted(0)
        with self.assertRaisesRegex(ValueError, "never"):
            colossal.load(other[0], f"{directory}/new", resume="never")
        with self.assertRaisesRegex(ValueError, "resume|checkpoints"):
            colossal.save(other[0], f"{directory}/new")  # of another run
        model = torch.nn.Linear(5, 17)
        colossal.boost(model, torch.optim.AdamW(model.parameters()))
        with self.assertRaisesRegex(ValueError, "another model"):
            colossal.load(model, f"{directory}/new")
        model = Net().double()
        colossal.boost(model, torch.optim.SGD(model.parameters(), lr=0.1))
        with self.assertRaisesRegex(ValueError, 'trained with optimizer.name = "adamw"'):
            colossal.load(model, f"{directory}/new")
        with self.assertRaisesRegex(ValueError, "colossal.save"):
            run[1].state_dict()
        with self.assertRaisesRegex(ValueError, "colossal.save"):
            run[1].load_state_dict({"state": {0: {}}, "param_groups": []})


def go_on(directory, zero):
    run = boosted(zero, evaluates=True)
    loaded = colossal.load(run[0], directory, resume="must")
    train(*run, range(loaded.step, 4))
    if RANK == 0:
        found = {name: value.tolist() for name, value in weights(run[0]).items()}
        print(json.dumps(found))
    else:
        weights(run[0])


if __name__ == "__main__":
    torch.set_num_threads(1)
    if sys.argv[1:2] == ["--go-on"]:
        go_on(sys.argv[2], int(sys.argv[3]))
    else:
        torch.distributed.init_process_group("gloo")
        unittest.main(verbosity=2)
