#!/usr/bin/env python3
"""Writes trl_golden.json: losses and gradients of TRL's own trainers for given log-probabilities, in fp64.

Needs trl 1.16.0 alone; the tests read the file and do not. What a trainer asks of a model
(log-probabilities of the labels) is given to it by a stub, so that its formulas run as they are.
"""
import json
import pathlib
import types

import torch
import without_data  # noqa: F401
from trl.experimental.cpo import CPOTrainer
from trl.experimental.orpo import ORPOTrainer
from trl.trainer.dpo_trainer import DPOTrainer
from trl.trainer.kto_trainer import KTOTrainer

DPO_TYPES = ["sigmoid", "hinge", "ipo", "exo_pair", "nca_pair", "robust", "bco_pair", "sppo_hard", "aot", "aot_unpaired",
             "apo_zero", "apo_down", "discopop", "sft", "sigmoid_norm"]
DIVERGENCES = ["reverse_kl", "forward_kl", "js_divergence"]  # TRL's alpha_divergence has no fp64
METRICS = ["entropy", "num_tokens", "logits/chosen", "logits/rejected", "mean_token_accuracy", "rewards/chosen",
           "rewards/rejected", "rewards/accuracies", "rewards/margins", "logps/chosen", "logps/rejected", "kl"]
PROMPTS, LENGTHS = [2, 1, 3, 2], [3, 6, 4, 1, 5, 2, 3, 4]  # chosen, then rejected


class Accelerator(types.SimpleNamespace):
    device = torch.device("cpu")
    gather = gather_for_metrics = staticmethod(lambda x: x)


class Model(torch.nn.Module):
    is_gradient_checkpointing = False


def rows():
    """Ids and completion masks [8, sequence], log-probabilities [8, sequence - 1] of policy and reference."""
    width = max(p + n for p, n in zip(PROMPTS * 2, LENGTHS))
    mask = torch.zeros(8, width, dtype=torch.long)
    for i, (prompt, length) in enumerate(zip(PROMPTS * 2, LENGTHS)):
        mask[i, prompt : prompt + length] = 1
    generator = torch.Generator().manual_seed(1)
    draw = lambda: -3 * torch.rand(8, width - 1, generator=generator, dtype=torch.float64) * mask[:, 1:]
    return mask, draw(), draw()


def outputs_of(log_probs):
    zeros = torch.zeros_like(log_probs).detach()
    return types.SimpleNamespace(log_probs=log_probs, entropy=zeros, mean_logits=zeros, is_top1=zeros.bool())


def stub_of(log_probs):
    return lambda **_: outputs_of(log_probs)


def case(log_probs, loss):
    """The gradient is that of the log-probability of a whole completion: of each of its tokens the same."""
    gradient, = torch.autograd.grad(loss, log_probs)
    if gradient.dim() == 2:
        gradient = torch.stack([row[prompt - 1] for row, prompt in zip(gradient, PROMPTS * 2)])
    return {"loss": loss.item(), "gradient": gradient.tolist()}


def dpo(loss_type, divergence, ld_alpha=None):
    mask, policy, reference = rows()
    policy.requires_grad_()
    model = Model()
    trainer = types.SimpleNamespace(
        model=model, accelerator=Accelerator(), aux_loss_enabled=False, ld_alpha=ld_alpha, precompute_ref_logps=False,
        ref_model=lambda **_: outputs_of(reference), f_divergence_type=divergence, f_alpha_divergence_coef=0.5, beta=0.3,
        label_smoothing=0.1, loss_types=[loss_type], loss_weights=[1.0], use_weighting=False, _tp_size=1,
        args=types.SimpleNamespace(discopop_tau=0.05, gradient_checkpointing=False, gradient_checkpointing_kwargs=None),
        _metrics={"train": {name: [] for name in METRICS}}, _total_train_tokens=0)
    inputs = {"completion_mask": mask, "input_ids": torch.zeros_like(mask), "attention_mask": torch.ones_like(mask)}
    loss = DPOTrainer._compute_loss(trainer, stub_of(policy), inputs, False)
    return case(policy, loss)


def sums():
    mask, policy, reference = rows()
    return policy.sum(1), reference.sum(1), torch.tensor(LENGTHS, dtype=torch.float64)


def cpo(loss_type, alpha):
    policy, _, lengths = sums()
    policy.requires_grad_()
    scores = policy / lengths if loss_type in ("ipo", "simpo") else policy
    trainer = types.SimpleNamespace(accelerator=Accelerator(), alpha=alpha, beta=0.3, label_smoothing=0.1, simpo_gamma=0.5,
                                    loss_type=loss_type)
    return case(policy, CPOTrainer.cpo_loss(trainer, scores[:4], scores[4:])[0].mean())


def orpo():
    policy, _, lengths = sums()
    policy.requires_grad_()
    scores = policy / lengths
    trainer = types.SimpleNamespace(accelerator=Accelerator(), beta=0.3)
    return case(policy, -ORPOTrainer.odds_ratio_loss(trainer, scores[:4], scores[4:])[0].mean())


def kto(loss_type):
    mask, policy, reference = rows()
    policy.requires_grad_()
    label = torch.tensor([True, False, True, True, False, False, True, False])
    kl = torch.tensor([0.9, -0.2] * 4, dtype=torch.float64)
    stub = stub_of(policy)
    trainer = types.SimpleNamespace(
        model=Model(), accelerator=Accelerator(), aux_loss_enabled=False, beta=0.3,
        precompute_ref_logps=False, calculate_KL=loss_type == "kto", ref_model=lambda **_: outputs_of(reference),
        loss_type=loss_type, desirable_weight=1.5, undesirable_weight=0.8, _tp_size=1, _total_train_tokens=0,
        args=types.SimpleNamespace(gradient_checkpointing=False, gradient_checkpointing_kwargs=None),
        _compute_kl_logps=lambda model, _: kl if model is stub else torch.zeros(8, dtype=torch.float64),
        _metrics={"train": {name: [] for name in METRICS}})
    inputs = {"completion_mask": mask, "input_ids": torch.zeros_like(mask), "attention_mask": torch.ones_like(mask),
              "label": label}
    loss = KTOTrainer._compute_loss(trainer, stub, inputs, False)
    return {**case(policy, loss), "label": label.tolist(), "kl": kl.mean().item()}


def main():
    policy, reference, lengths = sums()
    golden = {"trl": "1.16.0", "policy": policy.tolist(), "reference": reference.tolist(), "lengths": lengths.tolist(),
              "beta": 0.3, "label_smoothing": 0.1, "simpo_gamma": 0.5, "alpha": 0.7,
              "dpo": {f"{t}/{d}": dpo(t, d) for t in DPO_TYPES for d in DIVERGENCES},
              "cpo": {f"{t}/{a}": cpo(t, a) for t in ("sigmoid", "hinge", "ipo", "simpo") for a in (0.0, 0.7)},
              "orpo": orpo(), "kto": {t: kto(t) for t in ("kto", "apo_zero_unpaired")}}
    path = pathlib.Path(__file__).with_name("trl_golden.json")
    path.write_text(json.dumps(golden, indent=1) + "\n")
    print(f"{path}: {len(golden['dpo'])} losses of DPO, {len(golden['cpo'])} of CPO, ORPO, {len(golden['kto'])} of KTO")


if __name__ == "__main__":
    main()
