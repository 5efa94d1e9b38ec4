#!/usr/bin/env python3
"""What each optimizer costs: memory of its state, and the seconds of a step beside AdamW's, in turn. See README.md.

  bench/optimizers.py --out DIR [--rounds 3]
"""
import json
import statistics

import benchmark
import runner
from page import Page, Table, spread

LAYERS, HIDDEN, SEQUENCE, BATCH, STEPS, WARMUP = 8, 512, 256, 16, 8, 3
NAMES = ("adamw", "adam", "sgd", "lion", "adan", "lamb", "lars", "adafactor", "came", "muon", "galore")
MIB = 1 << 20


def parse_arguments():
    return benchmark.Parser(__doc__, "colossal", rounds=3).parse_args()


def measure(arguments, corpus, name):
    lines, _ = runner.train(arguments.binary, corpus, arguments.out, name, [
        "--model.preset=gpt2-tiny", f"--model.n_layer={LAYERS}", f"--model.n_embd={HIDDEN}", "--model.n_head=8",
        f"--data.sequence_length={SEQUENCE}", f"--train.global_batch={BATCH}", f"--train.steps={STEPS}",
        f"--optimizer.name={name}", "--optimizer.learning_rate=1e-4", "--train.threads=2", "--precision.compute=fp32",
        "--scheduler.name=constant"], ranks=1)
    return {"step_seconds": statistics.median(line["step_seconds"] for line in lines[WARMUP:]),
            "state_bytes": lines[-1]["memory_by_kind"]["optimizer"]}


def report(results, out):
    rounds = [json.loads(line) for line in results.read_text().splitlines()]
    page = Page("Optimizers")
    page.note(f"{runner.cpu_name()}. {len(rounds)} rounds of {STEPS - WARMUP} steps, each optimizer in turn; a figure is "
              f"the median over rounds of a round's median step. {LAYERS} layers of {HIDDEN}, {BATCH} sequences of "
              f"{SEQUENCE} tokens a step, fp32, one rank of two threads. The step beside AdamW's: the ratio in the same "
              "round. The cost of an update does not depend on the batch, so larger batches bring it closer to 1. State "
              "is all that the optimizer stores; the weights themselves are the masters.")
    table = Table("optimizer", "ms a step: minimum", "median", "maximum", "beside AdamW's", "MiB of state")
    for name in NAMES:
        seconds = [each[name]["step_seconds"] for each in rounds]
        ratio = statistics.median(each[name]["step_seconds"] / each["adamw"]["step_seconds"] for each in rounds)
        table.add(name, *(f"{1e3 * value:,.0f}" for value in spread(seconds)), f"{ratio:.2f}",
                  f"{rounds[0][name]['state_bytes'] / MIB:,.1f}")
    page.table(table)
    page.write(out)
    return page


def main():
    arguments = parse_arguments()

    def run_round(results, number):
        corpus = runner.make_corpus(arguments.out)
        found = {name: measure(arguments, corpus, name) for name in NAMES}
        with open(results, "a") as file:
            print(json.dumps({"round": number, **found}), file=file)

    benchmark.run_rounds(arguments, run_round, report)


if __name__ == "__main__":
    main()
