#!/usr/bin/env python3
"""What plans predict for published runs: Megatron-Core's weak scaling on H100 (Megatron-LM, README: table of models; a
vocabulary of 131,072, sequences of 4,096, 48 replicas), with the rates of examples/clusters/h100.toml. Takes no GPU.

  bench/published.py --out DIR
"""
import statistics

import benchmark
import runner
from page import Page, Table

VOCABULARY, SEQUENCE, REPLICAS = 131072, 4096, 48
CLUSTER = runner.BENCH.parent / "examples" / "clusters" / "h100.toml"
# layers, hidden size, heads, tp, pp, global batch, published TFLOP/s of a GPU
RUNS = {
    "1.7B": (24, 2048, 16, 1, 1, 192, 408.8),
    "7.1B": (30, 4096, 32, 2, 1, 192, 465.9),
    "16B": (32, 6144, 48, 4, 1, 192, 489.1),
    "32B": (48, 7168, 56, 8, 1, 192, 459.6),
    "70B": (84, 8192, 64, 8, 2, 384, 419.7),
    "119B": (92, 10240, 80, 8, 4, 768, 420.5),
    "177B": (96, 12288, 96, 8, 6, 1152, 432.8),
    "314B": (96, 16384, 128, 8, 8, 1536, 474.4),
    "462B": (112, 18432, 144, 8, 16, 3072, 459.9),
}


def flops(layers, hidden, batch):
    """Of a step, as Megatron-LM counts them (D. Narayanan et al. 2021, equation 3, without recomputation)."""
    return 72 * batch * SEQUENCE * layers * hidden ** 2 * (
        1 + SEQUENCE / (6 * hidden) + VOCABULARY / (12 * layers * hidden))


def predict(arguments, name):
    layers, hidden, heads, tp, pp, batch, published = RUNS[name]
    ranks = tp * pp * REPLICAS
    chunks = next(c for c in (4, 3, 2, 1) if layers % (pp * c) == 0)
    flags = [f"--model.n_layer={layers}", f"--model.n_embd={hidden}", f"--model.n_head={heads}",
             f"--model.vocab_size={VOCABULARY}", f"--model.n_positions={SEQUENCE}", f"--data.sequence_length={SEQUENCE}",
             f"--train.global_batch={batch}", "--train.micro_batch=1", f"--parallel.tp={tp}", f"--parallel.pp={pp}",
             "--precision.compute=bf16", "--memory.recompute=selective", "--parallel.zero=1",
             f"--parallel.cluster={CLUSTER}", "--memory.device_budget=2TiB"]
    if pp > 1 and chunks > 1:
        flags += ["--parallel.pp_schedule=interleaved", f"--parallel.pp_chunks={chunks}"]
    plan = runner.plan(arguments.binary, runner.make_corpus(arguments.out), arguments.out, name, flags, ranks)
    rate = flops(layers, hidden, batch) / plan["predicted_step_seconds"] / ranks / 1e12
    return plan, ranks, rate, published


def main():
    parser = benchmark.Parser(__doc__, "colossal", rounds=1)
    parser.add_names("runs", RUNS, default=list(RUNS))
    arguments = parser.parse_args()
    (arguments.out / "logs").mkdir(parents=True, exist_ok=True)
    page, errors = Page("Published runs, predicted"), []
    table = Table("model", "GPUs", "predicted s", "predicted TFLOP/s", "published", "error", "GiB at the peak")
    for name in arguments.runs:
        plan, ranks, rate, published = predict(arguments, name)
        errors.append(rate / published - 1)
        table.add(name, f"{ranks:,}", f"{plan['predicted_step_seconds']:.2f}", f"{rate:.0f}", f"{published:.0f}",
                  f"{100 * errors[-1]:+.0f} %", f"{plan['memory_at_peak'] / 2 ** 30:.0f}")
        print(table.rows[-1], plan["predicted_seconds_by_kind"], flush=True)
    page.note("Megatron-Core on H100 (Megatron-LM's README): GPT, a vocabulary of 131,072, sequences of 4,096, 48 "
              "replicas, and tp, pp and batch of its table. Rates: examples/clusters/h100.toml. TFLOP/s of a GPU as "
              f"Megatron-LM counts them. Mean of the absolute errors: "
              f"{100 * statistics.mean(map(abs, errors)):.0f} %; largest {100 * max(map(abs, errors)):.0f} %.")
    page.table(table)
    page.write(arguments.out)
    benchmark.show(page, arguments.out)


if __name__ == "__main__":
    main()
