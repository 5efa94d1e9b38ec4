"""Prints what transformers turns heads by: a line of each case, its name, the attention factor and the frequencies.

Cases are those of rotary_oracle_test.cpp, in the same order.
"""
import os

os.environ["TRANSFORMERS_VERBOSITY"] = "error"

from transformers import LlamaConfig
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

PAIRS = 16  # of heads of 32 channels
POSITIONS = 128  # of the first training


def print_case(name, rope_type, length=None, positions=4 * POSITIONS, **parameters):
    config = LlamaConfig(hidden_size=64, num_attention_heads=2, max_position_embeddings=positions,
                         rope_parameters=dict(rope_type=rope_type, rope_theta=500.0, **parameters))
    frequencies, factor = ROPE_INIT_FUNCTIONS[rope_type](config, seq_len=length)
    print(name, float(factor), *[float(frequency) for frequency in frequencies])


original = dict(original_max_position_embeddings=POSITIONS)
divisors = dict(short_factor=[1 + 0.125 * i for i in range(PAIRS)], long_factor=[2 + 0.5 * i for i in range(PAIRS)])
print_case("linear", "linear", factor=3.0)
print_case("partial", "linear", factor=3.0, partial_rotary_factor=0.5)
print_case("dynamic_short", "dynamic", length=100, positions=POSITIONS, factor=2.0)
print_case("dynamic_long", "dynamic", length=300, positions=POSITIONS, factor=2.0)
print_case("yarn", "yarn", factor=4.0, **original)
print_case("yarn_untruncated", "yarn", factor=8.0, truncate=False, beta_fast=20.0, beta_slow=2.0, mscale=0.8,
           mscale_all_dim=0.5, **original)
print_case("yarn_attention", "yarn", factor=4.0, attention_factor=1.5, partial_rotary_factor=0.75, **original)
print_case("longrope_short", "longrope", length=POSITIONS, factor=4.0, **original, **divisors)
print_case("longrope_long", "longrope", length=POSITIONS + 1, factor=4.0, **original, **divisors)
print_case("llama3", "llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, **original)
print_case("proportional", "proportional", factor=2.0, partial_rotary_factor=0.25)
