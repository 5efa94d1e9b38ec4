"""Writes sampling_golden.json: what transformers' logits processors and warpers make of some logits.

Usage: sampling_golden.py > sampling_golden.json
"""
import json
import math

import torch
from transformers import (MinPLogitsWarper, RepetitionPenaltyLogitsProcessor, TemperatureLogitsWarper,
                          TopKLogitsWarper, TopPLogitsWarper, TypicalLogitsWarper)

SEEN = [3, 5, 3, 0, 9]
CASES = [
    {"temperature": 0.7},
    {"temperature": 1.6, "top_k": 5},
    {"top_p": 0.6},
    {"top_p": 0.97, "temperature": 1.3},
    {"min_p": 0.2},
    {"min_p": 0.05, "top_k": 9},
    {"typical_p": 0.3},
    {"typical_p": 0.9, "temperature": 0.5},
    {"repetition_penalty": 1.4},
    {"repetition_penalty": 0.6, "top_p": 0.8},
    {"repetition_penalty": 1.2, "temperature": 0.8, "top_k": 12, "top_p": 0.9, "min_p": 0.03, "typical_p": 0.95},
]


def probabilities(logits, case):
    processors = []
    if "repetition_penalty" in case:
        processors.append(RepetitionPenaltyLogitsProcessor(case["repetition_penalty"]))
    if "temperature" in case:
        processors.append(TemperatureLogitsWarper(case["temperature"]))
    for key, kind in (("top_k", TopKLogitsWarper), ("top_p", TopPLogitsWarper), ("min_p", MinPLogitsWarper),
                      ("typical_p", TypicalLogitsWarper)):
        if key in case:
            processors.append(kind(case[key]))
    scores = logits[None].clone()
    for processor in processors:
        scores = processor(torch.tensor([SEEN]), scores)
    return scores.softmax(-1)[0].tolist()


logits = torch.tensor([3 * math.sin(2.3 * i) + math.cos(i * i) for i in range(20)], dtype=torch.float64)
print(json.dumps({"logits": logits.tolist(), "seen": SEEN,
                  "cases": [{"options": case, "probabilities": probabilities(logits, case)} for case in CASES]},
                 indent=1))
