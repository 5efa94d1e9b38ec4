#!/usr/bin/env python3
"""Trains one step at each length that build/longest_sequence finds by dry runs, and compares the memory of a rank
beside parameters, gradients and optimizer state: what the dry run counted, what the run counted, and what was resident
above the base. See README.md.

  bench/longest_sequence.py --out DIR [--budget 512] [--dtype auto] [--largest 8]
"""
import sys

import benchmark
import runner
from page import Table

MIB = 1 << 20
STATES = ("parameters", "gradients", "optimizer")
# Of longest_sequence.cpp.
MODEL = ["--model.preset=llama-tiny", "--model.hidden_size=512", "--model.intermediate_size=1408",
         "--model.num_hidden_layers=8", "--model.num_attention_heads=8", "--model.num_key_value_heads=8",
         "--model.head_dim=64", "--model.vocab_size=32000", f"--model.max_position_embeddings={1 << 24}",
         "--train.global_batch=1", "--train.steps=1", "--train.threads=1"]


def parse_arguments():
    parser = benchmark.Parser(__doc__, "colossal", rounds=1)
    parser.add_dtype()
    parser.add_argument("--budget", type=int, default=512, help="MiB of a rank")
    parser.add_argument("--largest", type=int, default=8, help="sequences of no more ranks than these are trained")
    return parser.parse_args()


def main():
    arguments = parse_arguments()
    (arguments.out / "logs").mkdir(parents=True, exist_ok=True)
    corpus = runner.make_corpus(arguments.out)
    found, _ = runner.run([benchmark.BUILD / "longest_sequence", arguments.budget, arguments.dtype],
                          arguments.out / "logs" / "longest_sequence.txt")
    table = Table("sp", "mode", "tokens", "of sp times that alone", "dry run, MiB", "counted, MiB",
                  "resident above base, MiB", "seconds")
    for line in found.splitlines()[1:]:
        ranks, mode, tokens, share, dry = line.split()
        if int(ranks) > arguments.largest:
            continue
        flags = [*MODEL, f"--precision.compute={arguments.dtype}", f"--data.sequence_length={tokens}",
                 f"--parallel.sp={ranks}", f"--parallel.sp_mode={mode}"]
        lines, _ = runner.train(arguments.binary, corpus, arguments.out, f"{mode}-{ranks}", flags, int(ranks))
        step = lines[-1]
        states = sum(step["memory_by_kind"][kind] for kind in STATES)
        table.add(ranks, mode, f"{int(tokens):,}", share, dry,
                  f"{(step['memory_at_peak'] - states) / MIB:.1f}",
                  f"{(step['memory_peak_bytes'] - step['memory_base_bytes'] - states) / MIB:.1f}",
                  f"{step['step_seconds']:.0f}")
        print(" | ".join(table.rows[-1]), file=sys.stderr, flush=True)
    print(table.markdown())


if __name__ == "__main__":
    main()
