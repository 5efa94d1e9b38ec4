#!/usr/bin/env python3
"""The largest batch of a vision transformer of 5 billion parameters on 64 GPUs in each tensor mode, and its predicted
speed, both from `colossal plan`. Colossal-AI's claim for 64 GPUs in one tensor-parallel group is 14 times the batch and
5 times the speed of dividing along one dimension (Megatron-LM). See README.md.

  bench/largest_batch.py --out DIR
"""
import json
import pathlib
import sys

import benchmark
import runner
from page import Page, Table

ROOT = pathlib.Path(__file__).resolve().parents[1]
CLUSTER = ROOT / "examples" / "clusters" / "h100.toml"
RANKS, BUDGET = 64, 76 << 30  # bytes of a rank: hosts.memory of the cluster
MODEL = ["--model.preset=vit-huge", "--model.hidden_size=4096", "--model.intermediate_size=16384",
         "--model.num_hidden_layers=24", "--model.num_attention_heads=64", "--model.patch_size=16"]
GROUP = f"--parallel.tp={RANKS}"
SETTINGS = {
    "1d, whole tokens (Megatron-LM)": [GROUP, "--parallel.tp_sequence=false"],
    "1d, divided tokens": [GROUP],
    "2d": [GROUP, "--parallel.tp_mode=2d"],
    "2.5d, 4 squares of 4 x 4": [GROUP, "--parallel.tp_mode=2.5d", "--parallel.tp_depth=4"],
    "3d": [GROUP, "--parallel.tp_mode=3d"],
    "dp 64, ZeRO 3": ["--parallel.zero=3"],
}
STEP = 64  # batches are multiples of this
CLAIMED_BATCH, CLAIMED_SPEED = 14, 5


def plan(arguments, name, flags, batch):
    """What a step of `batch` images costs a rank."""
    is_divided = GROUP not in flags
    command = [arguments.binary, "plan", arguments.out / "run.toml", f"--ranks={RANKS}", "--classify", "--json",
               f"--cluster={CLUSTER}", "--precision.compute=bf16", *MODEL, *flags, f"--train.global_batch={batch}",
               f"--train.micro_batch={batch // RANKS if is_divided else batch}"]
    lines, _ = runner.run(command, arguments.out / "logs" / f"{name.split(',')[0]}-{batch}.txt")
    found = json.loads(lines[lines.index("{"):])
    print(f"{name}: {batch} images: {found['memory_at_peak'] / 2**30:.1f} GiB", file=sys.stderr, flush=True)
    return found


def largest(arguments, name, flags):
    """The largest batch that fits, and its plan: memory grows evenly with the batch."""
    def fitting(batch):
        """The plan, or None: with the memory of the hosts, `plan` refuses what does not fit."""
        try:
            return plan(arguments, name, flags, batch)
        except runner.Failed as error:
            if "memory." not in str(error):
                raise
            return None

    small, large = (plan(arguments, name, flags, batch)["memory_at_peak"] for batch in (STEP, 2 * STEP))
    batch = max(STEP, int(STEP + (BUDGET - small) / (large - small) * STEP) // STEP * STEP)
    found = fitting(batch)
    while found is None:
        batch -= STEP
        found = fitting(batch)
    while (more := fitting(batch + STEP)) is not None:
        batch, found = batch + STEP, more
    return batch, found


def report(results, _):
    page = Page("The largest batch of a vision transformer on 64 GPUs")
    found = json.loads(results.read_text())
    base = found[next(iter(SETTINGS))]
    page.note(f"{base['parameters'] / 1e9:.1f} billion parameters (24 layers of 4096 features, 64 heads, images of 224 x "
              "224 in patches of 16), bf16, on 8 hosts of 8 H100 with 76 GiB each, as examples/clusters/h100.toml "
              f"describes them. All from `colossal plan`, nothing measured. Colossal-AI claims up to {CLAIMED_BATCH} "
              f"times the batch and {CLAIMED_SPEED} times the speed of the first row for one tensor-parallel group of "
              "64 GPUs.")
    table = Table("layout", "largest batch", "times the first", "images/s", "times the first", "images/s at its batch of "
                  f"{base['batch']}", "times the first")
    for name, of in found.items():
        table.add(name, f"{of['batch']:,}", f"{of['batch'] / base['batch']:.1f}", f"{of['images_per_second']:,.0f}",
                  f"{of['images_per_second'] / base['images_per_second']:.1f}", f"{of['at_first_batch']:,.0f}",
                  f"{of['at_first_batch'] / base['at_first_batch']:.1f}")
    page.table(table)
    return page


def main():
    arguments = benchmark.Parser(__doc__, "colossal", rounds=1).parse_args()
    arguments.out = arguments.out.resolve()
    (arguments.out / "logs").mkdir(parents=True, exist_ok=True)
    (arguments.out / "run.toml").write_text('[data]\ntrain = ["images"]\n')
    found = {}
    for name, flags in SETTINGS.items():
        batch, plans = largest(arguments, name, flags)
        first = found[next(iter(SETTINGS))]["batch"] if found else batch
        at_first = plans if first == batch else plan(arguments, name, flags, first)
        found[name] = {"batch": batch, "parameters": plans["parameters"] * (RANKS if GROUP in flags else 1),
                       "images_per_second": batch / plans["predicted_step_seconds"],
                       "at_first_batch": first / at_first["predicted_step_seconds"]}
    results = arguments.out / "results.json"
    results.write_text(json.dumps(found))
    benchmark.show(report(results, arguments.out), arguments.out)


if __name__ == "__main__":
    main()
