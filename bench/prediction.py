#!/usr/bin/env python3
"""Predicted against measured times of a step: measures this machine, then runs each layout of two models on 1, 2 and
4 ranks, and compares with what `colossal plan --cluster` says. See README.md.

  bench/prediction.py --out DIR [--rounds 3]
"""
import itertools
import json
import statistics

import benchmark
import runner
from page import Page, Table, spread

STEPS, WARMUP = 8, 2
MODELS = {
    "4 layers of 256": {"layers": 4, "hidden": 256, "heads": 4, "vocabulary": 512, "sequence": 256, "batch": 16},
    "6 layers of 512": {"layers": 6, "hidden": 512, "heads": 8, "vocabulary": 2048, "sequence": 256, "batch": 8},
}
LAYOUTS = {
    1: {"alone": [], "recomputed": ["--memory.recompute=full"], "4 micro-batches": ["--train.micro_batch=2"]},
    2: {"dp 2": [], "dp 2, ZeRO 3": ["--parallel.zero=3"], "tp 2": ["--parallel.tp=2"], "sp 2": ["--parallel.sp=2"],
        "sp 2, Ulysses": ["--parallel.sp=2", "--parallel.sp_mode=ulysses"],
        "pp 2": ["--parallel.pp=2", "--train.micro_batch=2"],
        "pp 2, zb-h1": ["--parallel.pp=2", "--train.micro_batch=2", "--parallel.pp_schedule=zb-h1"]},
    4: {"dp 4": [], "dp 2, tp 2": ["--parallel.tp=2"], "tp 4": ["--parallel.tp=4"],
        "tp 4, 2d": ["--parallel.tp=4", "--parallel.tp_mode=2d"],
        "pp 2, dp 2": ["--parallel.pp=2", "--train.micro_batch=2"],
        "pp 4": ["--parallel.pp=4", "--train.micro_batch=2"]},
}
TYPES = ("fp32", "bf16")


def cases():
    for (model, size), dtype, ranks in itertools.product(MODELS.items(), TYPES, LAYOUTS):
        for layout, flags in LAYOUTS[ranks].items():
            yield {"model": model, "dtype": dtype, "ranks": ranks, "layout": layout}, [
                *runner.model_flags(size, None), *flags, f"--precision.compute={dtype}"]


def run_round(arguments, corpus, number):
    found = []
    for case, flags in cases():
        # The speed of a shared machine drifts: it is measured before the layouts of each model, type and rank count.
        cluster = arguments.out / f"cluster-{number}-{case['model']}-{case['dtype']}-{case['ranks']}.toml".replace(" ", "-")
        if not cluster.exists():
            runner.run([arguments.binary, "check", f"--cluster={cluster}"], arguments.out / "logs" / "check.txt")
        name = "-".join(str(part) for part in case.values()).replace(" ", "-").replace(",", "")
        plan = runner.plan(arguments.binary, corpus, arguments.out, name,
                           [*flags, f"--cluster={cluster.resolve()}"], case["ranks"])
        lines, others = runner.train(arguments.binary, corpus, arguments.out, name,
                                     [*flags, f"--train.steps={STEPS}"], case["ranks"])
        measured = statistics.median(line["step_seconds"] for line in lines[WARMUP:])
        found.append({**case, "predicted": plan["predicted_step_seconds"], "measured": measured, "others": others})
        print(f"{name}: predicted {found[-1]['predicted']:.3f} s, measured {measured:.3f} s", flush=True)
    return found


def rank_correlation(pairs):
    """Kendall's tau: of pairs of layouts, how many more are in the right order than in the wrong one."""
    signs = [((a[0] - b[0]) * (a[1] - b[1]) > 0) - ((a[0] - b[0]) * (a[1] - b[1]) < 0)
             for a, b in itertools.combinations(pairs, 2)]
    return statistics.mean(signs)


def report(results, out):
    rounds = [json.loads(line)["cases"] for line in results.read_text().splitlines()]
    page = Page("Predicted times of a step")
    page.note(f"{runner.cpu_name()}. {len(rounds)} rounds; in each, every layout runs {STEPS - WARMUP} "
              f"steps after {WARMUP}, and the machine is measured before each group of layouts; a figure is the median "
              "over rounds. Error: predicted over measured, less one. Order: Kendall's rank correlation between "
              "predicted and measured times of the layouts of one model, type and number of ranks: 1 if the order is "
              "the same.")
    table = Table("model, type, ranks, layout", "predicted ms", "measured ms", "error: minimum", "median", "maximum")
    errors, orders = [], []
    for index, case in enumerate(rounds[0]):
        of_case = [each[index] for each in rounds]
        error = [each["predicted"] / each["measured"] - 1 for each in of_case]
        errors.append(abs(statistics.median(error)))
        table.add(f"{case['model']}, {case['dtype']}, {case['ranks']}: {case['layout']}",
                  *(f"{1e3 * statistics.median(each[key] for each in of_case):.0f}" for key in ("predicted", "measured")),
                  *(f"{100 * value:+.0f} %" for value in spread(error)))
    keys = {(case["model"], case["dtype"], case["ranks"]) for case in rounds[0]}
    for each, key in itertools.product(rounds, sorted(keys)):
        orders.append(rank_correlation([(case["predicted"], case["measured"]) for case in each
                                        if (case["model"], case["dtype"], case["ranks"]) == key]))
    page.note(f"Mean of the absolute errors: {100 * statistics.mean(errors):.0f} %; largest "
              f"{100 * max(errors):.0f} %. Mean order: {statistics.mean(orders):.2f}.")
    page.table(table)
    page.write(out)
    return page


def main():
    arguments = benchmark.Parser(__doc__, "colossal", rounds=3).parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    corpus = runner.make_corpus(arguments.out)

    def one_round(results, number):
        found = run_round(arguments, corpus, number)
        with results.open("a") as lines:
            print(json.dumps({"round": number, "cases": found}), file=lines)
    benchmark.run_rounds(arguments, one_round, report)


if __name__ == "__main__":
    main()
