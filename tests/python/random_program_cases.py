"""Programs that call forward, backward, no_sync, evaluation, steps, checkpoints and failing passes in random orders: what
colossal.boost() trains is what torch trains with the mean of the ranks' gradients, or a clear error on all ranks.

  python -m torch.distributed.run --standalone --nproc-per-node=2 random_program_cases.py [first seed] [number of programs]
"""
import contextlib
import os
import random
import sys

import torch
import torch.distributed

import colossal
from ranks import shared_directory

RANK = int(os.environ["RANK"])
LAYOUTS = [{"zero": 0}, {"zero": 1}, {"zero": 2}, {"zero": 3}, {"zero": 1, "offload": {"parameters": "host", "optimizer": "host"}},
           {"zero": 3, "offload": {"gradients": "host"}}, {"zero": 0, "offload": {"activations": "host"}}]


class Net(torch.nn.Module):
    """With a module that is used twice, one that not every pass uses, and tied weights."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(5)
        self.table = torch.nn.Embedding(13, 6)
        self.twice = torch.nn.Linear(6, 6)
        self.sometimes = torch.nn.Linear(6, 6)
        self.head = torch.nn.Linear(6, 13, bias=False)
        self.head.weight = self.table.weight

    def forward(self, ids, sometimes=False):
        hidden = torch.tanh(self.twice(self.table(ids)))
        if sometimes:
            hidden = torch.tanh(self.sometimes(hidden))
        return self.head(self.twice(hidden))


class Torch:
    """What a program means."""

    def __init__(self, _layout):
        self.model = Net().double()
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-2)

    def no_sync(self):
        return contextlib.nullcontext()

    def step(self):
        gradients = [parameter.grad for parameter in self.model.parameters()]
        used = torch.tensor([gradient is not None for gradient in gradients], dtype=torch.float64)
        torch.distributed.all_reduce(used)
        for parameter, any_used in zip(self.model.parameters(), used):
            if any_used:
                if parameter.grad is None:
                    parameter.grad = torch.zeros_like(parameter)
                torch.distributed.all_reduce(parameter.grad)
                parameter.grad /= torch.distributed.get_world_size()
        self.optimizer.step()
        self.optimizer.zero_grad()

    def zero_grad(self):
        self.optimizer.zero_grad()

    def weights(self):
        return {name: value.clone() for name, value in self.model.state_dict().items()}

    def checkpoint(self):
        pass


class Engine(Torch):
    def __init__(self, layout):
        super().__init__(layout)
        colossal.boost(self.model, self.optimizer, chunk_bytes=256, window_bytes=0, **layout)

    def no_sync(self):
        return self.model.no_sync()

    def step(self):
        self.optimizer.step()
        self.optimizer.zero_grad()

    def weights(self):
        with colossal.gather(self.model):
            return super().weights()

    def checkpoint(self):
        directory = shared_directory()
        colossal.save(self.model, directory, wait=random.Random(directory).random() < 0.5)


def run(subject, seed):
    """The program of the seed. Returns the losses of this rank, and the weights."""
    choose = random.Random(seed)  # the same on all ranks
    losses, pending = [], []
    in_step = 0  # backward passes since the last step

    def forward(sometimes):
        ids = torch.randint(0, 13, (2, 3), generator=torch.Generator().manual_seed(1000 * seed + 10 * len(losses) + RANK))
        loss = torch.nn.functional.cross_entropy(subject.model(ids, sometimes).flatten(0, 1), ids.flatten())
        losses.append(loss.item())
        return loss

    def backward():
        nonlocal in_step
        if choose.random() < 0.3:
            loss = sum(pending)
            pending.clear()
        else:
            loss = pending.pop(choose.randrange(len(pending)))
        keeps = choose.random() < 0.2
        loss.backward(retain_graph=keeps)
        if keeps and choose.random() < 0.5:
            loss.backward()
        in_step += 1

    def synchronized():
        """A forward and a backward pass outside of no_sync: a step may follow."""
        nonlocal in_step
        forward(choose.random() < 0.3).backward()
        in_step += 1

    for _ in range(choose.randrange(6, 25)):
        action = choose.choice(["forward", "forward", "backward", "backward", "synchronized", "step", "step", "evaluate", "zero_grad",
                                "checkpoint", "gather", "fail", "drop", "input"])
        if action == "forward":
            with subject.no_sync() if choose.random() < 0.5 else contextlib.nullcontext():
                pending.append(forward(choose.random() < 0.3))
        elif action == "backward" and pending:
            backward()
        elif action == "synchronized":
            synchronized()
        elif action == "step":
            if in_step:
                synchronized()  # gradients of no_sync wait for it
            subject.step()
            in_step = 0
            pending.clear()  # torch refuses graphs whose weights have changed
        elif action == "evaluate":
            with torch.no_grad():
                forward(choose.random() < 0.3)
        elif action == "zero_grad":
            subject.zero_grad()
            in_step = 0
        elif action == "checkpoint" and choose.random() < 0.3:
            subject.checkpoint()
        elif action == "gather":
            subject.weights()
        elif action == "fail" and not pending and not in_step:
            try:
                subject.model(torch.full((1, 1), 99))
            except IndexError:
                pass
        elif action == "drop" and pending:
            pending.pop()
        elif action == "input" and pending:
            loss = pending[-1]
            torch.autograd.grad(loss, [subject.model.twice.weight] if choose.random() < 0.3 else [loss], retain_graph=True)
    return losses, subject.weights()


def main(first, count):
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo")
    for seed in range(first, first + count):
        layout = LAYOUTS[seed % len(LAYOUTS)]
        try:
            wanted_losses, wanted = run(Torch(layout), seed)
            losses, weights = run(Engine(layout), seed)
            torch.testing.assert_close(losses, wanted_losses, rtol=1e-9, atol=0)
            for name, value in wanted.items():
                torch.testing.assert_close(weights[name], value, rtol=0, atol=1e-9, msg=lambda text, name=name: f"{name}: {text}")
        except BaseException:
            print(f"rank {RANK}: program {seed} at {layout} failed", file=sys.stderr, flush=True)
            raise
    if RANK == 0:
        print(f"{count} programs: equal to torch")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 0, int(sys.argv[2]) if len(sys.argv) > 2 else 200)
