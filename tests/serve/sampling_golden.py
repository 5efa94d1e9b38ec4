"""Writes sampling_golden.json: what transformers' logits processors and warpers make of some logits.

Usage: sampling_golden.py > sampling_golden.json
"""
import json
import math

import torch
from transformers import (GenerationConfig, GPT2Config, GPT2LMHeadModel, MinPLogitsWarper, RepetitionPenaltyLogitsProcessor, TemperatureLogitsWarper,
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

# Settings whose effect depends on where the prompt ends: the number of tokens of the prompt, and the settings.
SOURCE = [6, 0, 9, 5, 3]
ENDS = [7, 12]
PLACED = [
    (2, {"sequence_bias": [[[4], 1.5], [[9, 2], -3.0], [[0, 9, 11], 2.5], [[8, 1], 9.0]]}),
    (2, {"bad_words_ids": [[14], [9, 2], [3, 9, 11], [7]]}),
    (2, {"no_repeat_ngram_size": 1}),
    (4, {"no_repeat_ngram_size": 2}),
    (2, {"encoder_no_repeat_ngram_size": 1}),
    (2, {"encoder_no_repeat_ngram_size": 2}),
    (2, {"encoder_repetition_penalty": 1.3, "repetition_penalty": 1.7}),
    (2, {"min_length": 5}),
    (2, {"min_length": 6}),
    (2, {"min_new_tokens": 3}),
    (2, {"min_new_tokens": 4, "exponential_decay_length_penalty": [1, 1.5]}),
    (2, {"exponential_decay_length_penalty": [1, 1.5], "suppress_tokens": [1, 12]}),
    (2, {"exponential_decay_length_penalty": [3, 1.5]}),
    (5, {"begin_suppress_tokens": [2, 8], "suppress_tokens": [19]}),
    (4, {"begin_suppress_tokens": [2, 8]}),
    (2, {"forced_eos_token_id": 7, "max_length": 6}),
    (2, {"forced_eos_token_id": [7, 12], "max_length": 6, "min_length": 9}),
    (2, {"forced_eos_token_id": 7, "max_length": 7}),
    (5, {"forced_bos_token_id": 3}),
    (2, {"no_repeat_ngram_size": 1, "min_length": 9, "sequence_bias": [[[2], 4.0]], "repetition_penalty": 0.7,
         "temperature": 0.8, "top_k": 9, "top_p": 0.95, "suppress_tokens": [18]}),
]


def probabilities_of_placed(logits, prompt, settings):
    config = GenerationConfig(**{"do_sample": True, "max_length": 30, **settings})
    config._eos_token_tensor = torch.tensor(ENDS)
    model = GPT2LMHeadModel(GPT2Config(vocab_size=len(logits), n_embd=4, n_head=1, n_layer=1))
    scores = model._get_logits_processor(config, input_ids_seq_length=prompt, encoder_input_ids=torch.tensor([SOURCE]),
                                         device="cpu")(torch.tensor([SEEN]), logits[None].clone())
    return scores.softmax(-1)[0].tolist()


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
                  "cases": [{"options": case, "probabilities": probabilities(logits, case)} for case in CASES],
                  "source": SOURCE, "end_tokens": ENDS,
                  "placed": [{"prompt": prompt, "options": settings,
                              "probabilities": probabilities_of_placed(logits, prompt, settings)}
                             for prompt, settings in PLACED]},
                 indent=1))
