#!/usr/bin/env python3
"""Writes policy_golden.json: losses and gradients of TRL's trainers that learn from a model's own completions, in fp64.

Needs trl 1.16.0 alone; the tests read the file and do not. The log-probabilities of a model are given to a trainer by a stub,
so that its formulas run as they are.
"""
import itertools
import json
import math
import pathlib
import types
from collections import defaultdict

import torch
import without_data  # noqa: F401
from trl.experimental.gkd import GKDTrainer
from trl.trainer.grpo_trainer import GRPOTrainer
from trl.trainer.rloo_trainer import RLOOTrainer

LOSSES = ["grpo", "bnpo", "dr_grpo", "dapo", "cispo", "sapo"]
LENGTHS, WIDTH, MAX_LENGTH = [3, 7, 5, 1, 6, 2, 7, 4], 7, 10


class Accelerator(types.SimpleNamespace):
    device, num_processes, sync_gradients = torch.device("cpu"), 1, False
    gather = gather_for_metrics = staticmethod(lambda x: x)
    reduce = staticmethod(lambda x, reduction: x)


def rows():
    mask = torch.zeros(8, WIDTH, dtype=torch.long)
    for i, length in enumerate(LENGTHS):
        mask[i, :length] = 1
    generator = torch.Generator().manual_seed(2)
    draw = lambda scale: scale * torch.rand(8, WIDTH, generator=generator, dtype=torch.float64)
    old = -3 * draw(1)
    return mask, old + draw(1) - 0.5, old, old + draw(0.6) - 0.3, torch.linspace(-1.3, 1.6, 8, dtype=torch.float64)


def importance(mode, clip_min, clip_max):
    """GRPOTrainer's vllm_importance_sampling_ratio, which it makes in the midst of sampling: [rows, tokens or 1]."""
    mask, _, old, reference, _ = rows()
    logs = (old - reference) * mask  # the reference in place of the sampler
    if mode.startswith("sequence"):
        logs = logs.sum(dim=-1, keepdim=True)
    ratio = torch.exp(logs)
    if mode.endswith("truncate"):
        return torch.clamp(ratio, min=clip_min, max=clip_max)
    return ratio.masked_fill((ratio < (clip_min or -math.inf)) | (ratio > clip_max), value=0.0)


def grpo(loss_type, level, beta, delta, corrects, correction=None):
    mask, policy, old, reference, advantages = rows()
    policy.requires_grad_()
    epsilon_high = 1.1 if loss_type == "cispo" else 0.28
    trainer = types.SimpleNamespace(
        model=types.SimpleNamespace(training=True), accelerator=Accelerator(), aux_loss_enabled=False, beta=beta,
        top_entropy_quantile=1.0, off_policy_mask_threshold=None, importance_sampling_level=level, loss_type=loss_type,
        epsilon_low=0.2, epsilon_high=epsilon_high, use_vllm=correction is not None,
        vllm_importance_sampling_correction=True, current_gradient_accumulation_steps=1,
        max_completion_length=MAX_LENGTH, _entropy_bonus_enabled=False, _metrics={"train": defaultdict(list)},
        args=types.SimpleNamespace(delta=delta, use_bias_correction_kl=corrects, sapo_temperature_pos=1.0,
                                   sapo_temperature_neg=1.05, steps_per_generation=1),
        _get_per_token_logps_and_entropies=lambda *_, **__: (policy, torch.zeros_like(policy).detach(), None))
    inputs = {"prompt_ids": torch.zeros(8, 1, dtype=torch.long), "prompt_mask": torch.ones(8, 1, dtype=torch.long),
              "completion_ids": torch.zeros(8, WIDTH, dtype=torch.long), "completion_mask": mask, "advantages": advantages,
              "old_per_token_logps": old, "ref_per_token_logps": reference, "num_items_in_batch": mask.sum().double()}
    if correction:
        inputs["importance_sampling_ratio"] = importance(*correction)
    loss = GRPOTrainer._compute_loss(trainer, None, inputs)
    gradient, = torch.autograd.grad(loss, policy)
    told = {name: values[-1] for name, values in trainer._metrics["train"].items() if name in
            ("kl", "clip_ratio/low_mean", "clip_ratio/high_mean", "clip_ratio/region_mean", "cispo_clip_ratio")}
    return {"loss": loss.item(), "gradient": gradient.tolist(), "metrics": told, "epsilon_high": epsilon_high,
            "delta": delta, "beta": beta, "corrects": corrects, "level": level, "type": loss_type}


def rloo():
    mask, policy, old, _, advantages = rows()
    policy.requires_grad_()
    trainer = types.SimpleNamespace(
        model=types.SimpleNamespace(training=True), accelerator=Accelerator(), aux_loss_enabled=False, epsilon_low=0.2,
        epsilon_high=0.28, _metrics={"train": defaultdict(list)},
        _get_per_token_logps_and_entropies=lambda *_, **__: (policy, torch.zeros_like(policy).detach(), None))
    inputs = {"prompt_ids": torch.zeros(8, 1, dtype=torch.long), "prompt_mask": torch.ones(8, 1, dtype=torch.long),
              "completion_ids": torch.zeros(8, WIDTH, dtype=torch.long), "completion_mask": mask, "advantages": advantages,
              "old_logps": (old * mask).sum(1)}
    loss = RLOOTrainer._compute_loss(trainer, None, inputs)
    gradient, = torch.autograd.grad(loss, policy)
    return {"loss": loss.item(), "gradient": gradient.tolist()}


def distillation(beta):
    generator = torch.Generator().manual_seed(3)
    student, teacher = (torch.randn(1, 4, 9, generator=generator, dtype=torch.float64) for _ in range(2))
    student.requires_grad_()
    loss = GKDTrainer.generalized_jsd_loss(student, teacher, beta=beta, temperature=0.9, reduction="sum")
    gradient, = torch.autograd.grad(loss, student)
    return {"beta": beta, "student": student.tolist(), "teacher": teacher.tolist(), "loss": loss.item(),
            "gradient": gradient.tolist()}


def main():
    # A trainer makes tensors of Python's numbers (SAPO's temperatures, masks), which else would be rounded to fp32.
    torch.set_default_dtype(torch.float64)
    mask, policy, old, reference, advantages = rows()
    cases = {}
    for loss_type, level in itertools.product(LOSSES, ("token", "sequence")):
        for beta, delta, corrects in ((0.0, None, False), (0.3, 1.4, False), (0.3, None, True)):
            cases[f"{loss_type}/{level}/{beta}/{delta}/{corrects}"] = grpo(loss_type, level, beta, delta, corrects)
    corrected = []
    for mode, clip_min in itertools.product(("token_truncate", "token_mask", "sequence_truncate", "sequence_mask"),
                                            (None, 0.95)):
        correction = mode, clip_min, 1.1
        corrected.append({**grpo("dapo", "token", 0.3, None, False, correction), "mode": mode, "clip_min": clip_min,
                          "clip_max": 1.1})
    golden = {"trl": "1.16.0", "policy": policy.tolist(), "old": old.tolist(), "reference": reference.tolist(),
              "mask": mask.tolist(), "advantages": advantages.tolist(), "max_length": MAX_LENGTH, "grpo": cases,
              "corrected": corrected,
              "rloo": rloo(), "distillation": [distillation(beta) for beta in (0.0, 0.3, 1.0)]}
    path = pathlib.Path(__file__).with_name("policy_golden.json")
    path.write_text(json.dumps(golden) + "\n")
    print(f"{path}: {len(cases)} losses of GRPO, RLOO, {len(golden['distillation'])} of distillation")


if __name__ == "__main__":
    main()
