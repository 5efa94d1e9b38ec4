"""Each optimizer changes weights as PyTorch's, transformers' or the paper's formula does."""
import json
import math
import subprocess
import unittest

import torch
from transformers import AutoModelForCausalLM, GPT2Config
from transformers.optimization import Adafactor

from harness import COLOSSAL, EndToEndTest

SEQUENCE, SAMPLES, STEPS, RATE, DECAY = 16, 4, 4, 1e-2, 0.1


class Reference:
    """Updates tensors one by one; update() returns by what to change a weight."""

    def __init__(self, parameters):
        self.parameters = list(parameters)
        self.states = [{} for _ in self.parameters]
        self.steps = 0

    def step(self):
        self.steps += 1
        with torch.no_grad():
            for weight, state in zip(self.parameters, self.states):
                self.update(weight, weight.grad, state, DECAY if weight.dim() >= 2 else 0)

    def average(self, state, name, value, beta):
        state[name] = beta * state.get(name, torch.zeros_like(value)) + (1 - beta) * value
        return state[name]

    def unbiased(self, average, beta):
        return average / (1 - beta**self.steps)

    def adam_direction(self, gradient, state, beta1, beta2, eps):
        first = self.unbiased(self.average(state, "first", gradient, beta1), beta1)
        second = self.unbiased(self.average(state, "second", gradient**2, beta2), beta2)
        return first / (second.sqrt() + eps)


class Lion(Reference):
    def update(self, weight, gradient, state, decay):
        direction = (0.9 * state.get("m", torch.zeros_like(weight)) + 0.1 * gradient).sign()
        weight -= RATE * (direction + decay * weight)
        self.average(state, "m", gradient, 0.99)


class Adan(Reference):
    def update(self, weight, gradient, state, decay):
        difference = gradient - state.get("previous", gradient)
        m = self.unbiased(self.average(state, "m", gradient, 0.98), 0.98)
        v = self.unbiased(self.average(state, "v", difference, 0.92), 0.92)
        n = self.unbiased(self.average(state, "n", (gradient + 0.92 * difference)**2, 0.99), 0.99)
        weight -= RATE * (m + 0.92 * v) / (n.sqrt() + 1e-8)
        weight /= 1 + RATE * decay
        state["previous"] = gradient.clone()


class Lamb(Reference):
    def update(self, weight, gradient, state, decay):
        direction = self.adam_direction(gradient, state, 0.9, 0.999, 1e-6) + decay * weight
        ratio = weight.norm() / direction.norm() if weight.dim() >= 2 else 1
        weight -= RATE * ratio * direction


class Lars(Reference):
    def update(self, weight, gradient, state, decay):
        ratio = 1
        if weight.dim() >= 2:
            ratio = 1e-3 * weight.norm() / (gradient.norm() + decay * weight.norm() + 1e-8)
        state["m"] = 0.9 * state.get("m", 0) + ratio * (gradient + decay * weight)
        weight -= RATE * state["m"]


class Came(Reference):
    def factored(self, state, name, squares, beta):
        rows = self.average(state, name + "rows", squares.mean(1), beta)
        columns = self.average(state, name + "columns", squares.mean(0), beta)
        return ((rows / rows.mean()).unsqueeze(1) * columns).rsqrt()

    def update(self, weight, gradient, state, decay):
        squares = gradient**2 + EPS
        if weight.dim() >= 2:
            direction = self.factored(state, "square", squares, 0.999) * gradient
        else:
            direction = self.average(state, "square", squares, 0.999).rsqrt() * gradient
        direction /= max(1, direction.pow(2).mean().sqrt())
        m = self.average(state, "m", direction, 0.9)
        if weight.dim() >= 2:
            m = self.factored(state, "residual", (direction - m)**2 + 1e-16, 0.9999) * m
        weight -= RATE * (decay * weight + m)


class OfMatrices(Reference):
    """Of Conv1D layers, whose weights are [inputs, outputs]; AdamW for the rest."""
    def update(self, weight, gradient, state, decay):
        if weight.dim() < 2 or weight.shape[1] == 24 and weight.shape[0] in (SEQUENCE, 257):  # tables
            direction = self.adam_direction(gradient, state, 0.9, 0.95, 1e-8)
        else:
            direction = self.direction(gradient.T, state).T
        weight -= RATE * (decay * weight + direction)


class Muon(OfMatrices):
    def direction(self, gradient, state):
        m = self.average(state, "m", gradient, 0.95)
        x = (1 - 0.95) * gradient + 0.95 * m
        wide = x.shape[0] <= x.shape[1]
        x = x if wide else x.T
        x = x / x.norm()
        for _ in range(5):
            gram = x @ x.T
            x = 3.4445 * x + (-4.7750 * gram + 2.0315 * gram @ gram) @ x
        x = x if wide else x.T
        return self.scale(*x.shape) * x

    def scale(self, outputs, inputs):
        return 0.2 * math.sqrt(max(outputs, inputs))


class Galore(OfMatrices):
    def update(self, weight, gradient, state, decay):
        super().update(weight, gradient, state, decay)
        if "projection" in state:  # these decay after the update
            weight += RATE * RATE * decay * state["direction"].T

    def direction(self, gradient, state):
        if (self.steps - 1) % 3 == 0:
            u, _, v = torch.linalg.svd(gradient, full_matrices=False)
            vectors = u[:, :5] if gradient.shape[0] < gradient.shape[1] else v[:5].T
            vectors = vectors * vectors.gather(0, vectors.abs().argmax(0, keepdim=True)).sign()
            state["projection"] = vectors if gradient.shape[0] < gradient.shape[1] else vectors.T
        projection, left = state["projection"], gradient.shape[0] < gradient.shape[1]
        low = projection.T @ gradient if left else gradient @ projection.T
        m, v = self.average(state, "m", low, 0.9), self.average(state, "v", low**2, 0.95)
        move = 0.25 * m / (v.sqrt() + 1e-8) * math.sqrt(1 - 0.95**self.steps) / (1 - 0.9**self.steps)
        state["direction"] = projection @ move if left else move @ projection
        return state["direction"]


class OriginalMuon(Muon):
    def scale(self, outputs, inputs):
        return math.sqrt(max(1, outputs / inputs))


EPS = 1e-10  # of Adafactor and CAME, in whose denominators rounding shows else


def by_torch(kind, **options):
    def make(parameters):
        parameters = list(parameters)
        return kind([{"params": [p for p in parameters if p.dim() >= 2], "weight_decay": DECAY},
                     {"params": [p for p in parameters if p.dim() < 2], "weight_decay": 0}], lr=RATE, **options)
    return make


def adafactor(**options):
    return by_torch(Adafactor, eps=(EPS, 1e-3), relative_step=False, warmup_init=False, **options)


CASES = {
    "adamw": ([], by_torch(torch.optim.AdamW, betas=(0.9, 0.95))),
    "adam": (["--optimizer.betas=0.8,0.9"], by_torch(torch.optim.Adam, betas=(0.8, 0.9))),
    "sgd": ([], by_torch(torch.optim.SGD)),
    "sgd nesterov": (["--optimizer.momentum=0.9", "--optimizer.nesterov=true"],
                     by_torch(torch.optim.SGD, momentum=0.9, nesterov=True)),
    "lion": ([], Lion),
    "adan": ([], Adan),
    "lamb": ([], Lamb),
    "lars": ([], Lars),
    "adafactor": ([f"--optimizer.eps={EPS}"], adafactor(scale_parameter=True)),
    "adafactor momentum": ([f"--optimizer.eps={EPS}", "--optimizer.betas=0.7", "--optimizer.scale_by_parameter=false",
                            "--optimizer.clip_threshold=0.5"],
                           adafactor(scale_parameter=False, beta1=0.7, clip_threshold=0.5)),
    "came": ([f"--optimizer.eps={EPS}"], Came),
    "muon": ([], Muon),
    "galore": (["--optimizer.rank=5", "--optimizer.projection_interval=3"], Galore),
    "muon original": (["--optimizer.muon_scale=original"], OriginalMuon),
}


class Optimizers(EndToEndTest):
    def setUp(self):
        super().setUp()
        self.model = self.directory / "model"
        torch.manual_seed(1)
        AutoModelForCausalLM.from_config(GPT2Config(
            vocab_size=257, n_positions=SEQUENCE, n_embd=24, n_layer=2, n_head=3, n_inner=40, resid_pdrop=0,
            embd_pdrop=0, attn_pdrop=0, initializer_range=0.2, bos_token_id=0, eos_token_id=0,
            dtype=torch.float64)).save_pretrained(self.model)
        generator = torch.Generator().manual_seed(2)
        text = torch.randint(1, 250, (SEQUENCE * SAMPLES + 1,), generator=generator)
        (self.directory / "text.bin").write_bytes(bytes(text.tolist()))
        self.batch = torch.stack([text[i * SEQUENCE:(i + 1) * SEQUENCE + 1] for i in range(SAMPLES)])

    def expect_weights(self, name, flags, make, ranks=1):
        model = AutoModelForCausalLM.from_pretrained(self.model, dtype=torch.float64)
        optimizer = make(model.parameters())
        losses = []
        for _ in range(STEPS):
            model.zero_grad()
            logits = model(self.batch[:, :-1]).logits
            loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), self.batch[:, 1:].flatten())
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            losses.append(loss.item())
        run = self.directory / f"run of {name} on {ranks}"
        self.run_colossal(run, name, STEPS, flags, ranks)
        metrics = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
        for line, loss in zip(metrics, losses, strict=True):
            self.assertLess(abs(line["loss"] / loss - 1), 1e-8, f"{name}, step {line['step']}")
        self.expect_saved(run, model.state_dict(), name)

    def run_colossal(self, run, name, steps, flags, ranks):
        toml = self.directory / "run.toml"
        toml.write_text(f'[model]\npath = "{self.model}"\n[data]\ntrain = ["{self.directory}/text.bin"]\n')
        self.model_flags = []
        self.train(f"--checkpoint.directory={run}", f"--log.directory={run}", "--log.report=false",
                   "--data.tokenizer=bytes", f"--data.sequence_length={SEQUENCE}", f"--train.global_batch={SAMPLES}",
                   f"--train.steps={steps}", "--scheduler.name=constant", "--train.threads=1",
                   f"--optimizer.name={name.split()[0]}", f"--optimizer.learning_rate={RATE}",
                   f"--optimizer.weight_decay={DECAY}", "--precision.compute=fp64", *flags, ranks=ranks)

    def saved(self, run):
        return AutoModelForCausalLM.from_pretrained(run / f"step-{STEPS:06}", dtype=torch.float64).state_dict()

    def expect_saved(self, run, weights, name):
        saved = self.saved(run)
        for key, weight in weights.items():
            found = saved[key]
            if key.endswith("c_attn.bias"):  # gradients of the keys' biases are rounding errors of 0
                found, weight = (torch.cat([bias[:24], bias[48:]]) for bias in (found, weight))
            self.assertLess((found - weight).norm().item(), 1e-8 * weight.norm().item() + 1e-10, f"{name}: {key}")

    def test_as_the_reference_on_one_rank(self):
        for name, (flags, make) in CASES.items():
            with self.subTest(name):
                self.expect_weights(name, flags, make)

    def test_as_the_reference_on_ranks(self):
        for name, layout in (("lamb", "--parallel.zero=2"), ("came", "--parallel.tp=2"), ("muon", "--parallel.tp=2")):
            with self.subTest(name):
                flags, make = CASES[name]
                self.expect_weights(name, [*flags, layout], make, ranks=2)

    def test_a_run_goes_on_at_another_layout(self):
        for name in ("adafactor momentum", "came", "lamb", "muon", "adan", "galore"):
            with self.subTest(name):
                flags = CASES[name][0]
                whole, parts = self.directory / f"{name} whole", self.directory / f"{name} in parts"
                self.run_colossal(whole, name, STEPS, flags, 1)
                self.run_colossal(parts, name, STEPS // 2, [*flags, "--parallel.zero=3"], 2)
                self.run_colossal(parts, name, STEPS, [*flags, "--parallel.tp=2"], 2)
                self.expect_saved(parts, self.saved(whole), name)

    def test_groups(self):
        groups = ('--optimizer.groups=[{pattern = "bias|norm", name = "sgd"}, {pattern = "blocks.1", frozen = true},'
                  ' {pattern = "position", learning_rate_scale = 0}]')
        runs = {}
        for ranks, flags in ((1, []), (2, ["--parallel.pp=2"]), (2, ["--parallel.zero=3"])):
            run = runs[ranks, *flags] = self.directory / "-".join(["groups", *flags])
            self.run_colossal(run, "muon", STEPS, [groups, *flags], ranks)
            self.expect_saved(run, self.saved(runs[1,]), f"{flags}")
        before = AutoModelForCausalLM.from_pretrained(self.model, dtype=torch.float64).state_dict()
        moved = {key for key, weight in self.saved(runs[1,]).items() if not torch.equal(weight, before[key])}
        stays = {key for key in before if ".h.1." in key or ".wpe." in key}
        self.assertEqual(moved, set(before) - stays)

    def test_plan_knows_the_bytes(self):
        for name, layout in (("lamb", "--parallel.pp=2"), ("came", "--parallel.zero=2"), ("muon", "--parallel.tp=2"),
                             ("muon", "--parallel.zero=2"), ("galore", "--parallel.zero=0")):
            with self.subTest(f"{name} {layout}"):
                run = f"planned-{name}-{layout[-4:]}"
                flags = [*self.flags(run, checkpoints=False), "--train.steps=2", f"--optimizer.name={name}", layout]
                self.train(*flags, ranks=2)
                planned = subprocess.run([COLOSSAL, "plan", self.toml, "--ranks=2", *flags, "--json"],
                                         capture_output=True, text=True, check=True)
                self.assertEqual(json.loads(planned.stdout)["bytes_sent"], self.metrics(run)[2]["bytes_sent"])

    def test_refusals(self):
        def refused(*flags):
            return self.train("--data.sequence_length=16", "--train.global_batch=4", *self.model_flags, *flags, expect=2)

        self.assertIn("optimizer.groups: no parameter matches \"layers.7\"; parameters are token_embedding.weight, ",
                      refused('--optimizer.groups=[{pattern = "layers.7"}]'))
        self.assertIn("optimizer.momentum: adamw has no such setting", refused("--optimizer.momentum=0.9"))
        self.assertIn('nearest: "adafactor"', refused("--optimizer.name=adafacto"))
        self.assertIn('"muon" for "embedding": it updates the weights of linear layers',
                      refused('--optimizer.groups=[{pattern = "embedding", name = "muon"}]'))
        self.assertIn("adan has 3 decay rates", refused("--optimizer.name=adan", "--optimizer.betas=0.9,0.9"))
        self.assertIn("optimizer.rank: lion has no such setting", refused("--optimizer.name=lion", "--optimizer.rank=4"))
        self.assertIn('scheduler.decay_steps is a setting of wsd and power, but scheduler.name = "cosine"',
                      refused("--scheduler.decay_steps=5"))


if __name__ == "__main__":
    unittest.main()
