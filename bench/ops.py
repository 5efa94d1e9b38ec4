#!/usr/bin/env python3
"""Runs ops_benchmark, our operators and LibTorch's in random order, and prints and draws how they
compare. See README.md.

  bench/ops.py --out DIR [--rounds 5] [--filter REGEX] [--threads 1]
"""
import json

import benchmark
import plot
import runner
from page import Page, Table, spread


def parse_arguments():
    parser = benchmark.Parser(__doc__, "ops_benchmark")
    parser.add_argument("--filter", default=".", help="regular expression of names")
    parser.add_argument("--threads", type=int, default=1)
    return parser.parse_args()


def measure(arguments):
    """name without the last part: {"ours" or "libtorch": {round: figures}}"""
    output, others = runner.run(
        [arguments.binary, f"--benchmark_filter={arguments.filter}", "--benchmark_format=json",
         f"--benchmark_repetitions={arguments.rounds}", "--benchmark_enable_random_interleaving=true",
         "--benchmark_min_time=0.1"],
        arguments.out / "log.txt", environment={"COLOSSAL_BENCH_THREADS": str(arguments.threads)})
    (arguments.out / "results.json").write_text(output)
    figures = {}
    for run in json.loads(output)["benchmarks"]:
        if run["run_type"] == "iteration":
            name, whose = run["name"].removesuffix("/real_time").rsplit("/", 1)
            figures.setdefault(name, {}).setdefault(whose, {})[run["repetition_index"]] = run
    return figures, others


def main():
    arguments = parse_arguments()
    arguments.out.mkdir(parents=True, exist_ok=True)
    figures, others = measure(arguments)
    table = Table("operator, shape, type", "LibTorch, median", "ours, median",
                  "LibTorch / ours min / median / max", "error: LibTorch", "error: ours")
    ratios = {}
    for name, runs in sorted(figures.items()):
        seconds = {whose: {r: run["real_time"] * 1e-6 for r, run in rounds.items()}
                   for whose, rounds in runs.items()}
        both = seconds["libtorch"].keys() & seconds["ours"].keys()
        ratios[name] = spread([seconds["libtorch"][r] / seconds["ours"][r] for r in both])
        errors = [next(iter(runs[whose].values())).get("error") for whose in ("libtorch", "ours")]
        table.add(name, *(plot.duration(spread(list(seconds[whose].values()))[1])
                          for whose in ("libtorch", "ours")),
                  " / ".join(f"{ratio:.2f}" for ratio in ratios[name]),
                  *(f"{error:.3g}" if error is not None else "" for error in errors))
    page = Page("Operators: LibTorch's time over ours")
    page.note(f"On {runner.cpu_name()}; threads: {arguments.threads}. Forward and backward (AdamW: an update), "
              f"{arguments.rounds} rounds in random "
              "order; ratios compare the two of a round, more than 1: ours is faster. Error: root mean square "
              "of the error of outputs and gradients, over that of the values computed in fp64. AdamW "
              "in bf16: fp32 masters, bf16 gradients and weights; LibTorch needs conversions around its "
              f"update. Others used {others:.2f} cores meanwhile.")
    page.table(table)
    page.figure(plot.bars("LibTorch's time over ours: longer than 1, ours is faster", "ratio of times",
                          list(ratios.items()), reference=1.0, left=270, width=900))
    page.write(arguments.out)
    benchmark.show(page, arguments.out)


if __name__ == "__main__":
    main()
