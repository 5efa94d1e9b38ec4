#!/usr/bin/env python3
"""How step time and memory grow with model size, sequence length and batch, through `colossal train`,
against ideal lines. Writes OUT/scaling.md (a fragment for bench/results/growth.md) and its plots, *.svg.
See README.md.

  bench/scaling.py --out DIR [--rounds 3] [--sweeps size,sequence,batch] [--dtype auto] [--ranks 1]
"""
import json
import shlex
import statistics
import sys

import benchmark
import plot
import runner
from page import Table, spread

BASE = {"layers": 4, "hidden": 256, "heads": 4, "vocabulary": 512, "sequence": 256, "batch": 8}
WARMUP = 1

# The points of each sweep: what differs from BASE. A sequence sweep has the same tokens in each step.
SWEEPS = {
    "size": [{"layers": 5, "hidden": 128, "heads": 2}, {}, {"layers": 6, "hidden": 384, "heads": 6},
             {"layers": 8, "hidden": 512, "heads": 8}, {"layers": 10, "hidden": 640, "heads": 10},
             {"layers": 12, "hidden": 768, "heads": 12, "vocabulary": 50304}],
    "sequence": [{"sequence": length, "batch": 8192 // length}
                 for length in (128, 256, 512, 1024, 2048, 4096, 8192)],
    "batch": [{"batch": batch} for batch in (1, 2, 4, 8, 16, 32, 64)],
}


def parse_arguments():
    parser = benchmark.Parser(__doc__, "colossal", rounds=3)
    parser.add_names("sweeps", SWEEPS, default=list(SWEEPS))
    parser.add_dtype()
    parser.add_argument("--ranks", type=int, default=1)
    parser.add_argument("--threads", type=int, default=1, help="of each rank")
    parser.add_argument("--steps", type=int, default=4, help="timed steps of a run")
    parser.add_argument("--points", type=int, help="of each sweep, the first so many; default: all")
    return parser.parse_args()


def parameters(point):
    """Of GPT-2 with a tied head, as it is run here: as many positions as a sequence has tokens."""
    layers, hidden = point["layers"], point["hidden"]
    return layers * (12 * hidden**2 + 13 * hidden) + (point["vocabulary"] + point["sequence"] + 2) * hidden


def tokens(point):
    return point["batch"] * point["sequence"]


def ideal_flops(point):
    """Of a step: 6(12LH² + VH) + 12LHT a token."""
    layers, hidden = point["layers"], point["hidden"]
    weights = 12 * layers * hidden**2 + point["vocabulary"] * hidden
    return tokens(point) * (6 * weights + 12 * layers * hidden * point["sequence"])


def ideal_bytes(point, arguments):
    """Of a rank, less what does not depend on the point. A parameter has weight and gradient, and
    its share of master (if it is not the weight itself) and two moments in fp32. Activations: 16 numbers
    a token, layer and hidden unit (V. Korthikanti et al., "Reducing Activation Recomputation", 2022,
    without dropout's masks, attention's scores never kept)."""
    element = 2 if arguments.dtype == "bf16" else 4
    state = 12 if arguments.dtype == "bf16" else 8
    activations = 16 * element * tokens(point) * point["layers"] * point["hidden"] / arguments.ranks
    return parameters(point) * (2 * element + state / arguments.ranks) + activations


def train_flags(point, arguments):
    return [*runner.gpt2_flags(point | {"positions": point["sequence"]}), f"--train.threads={arguments.threads}",
            f"--precision.compute={arguments.dtype}", f"--train.steps={WARMUP + arguments.steps}"]


def run_round(arguments, corpus, figures):
    """figures: {(sweep, index of the point): [row]}"""
    for sweep in arguments.sweeps:
        for index, change in enumerate(SWEEPS[sweep][:arguments.points]):
            point = BASE | change
            lines, others = runner.train(arguments.binary, corpus, arguments.out, f"{sweep}-{index}",
                                         train_flags(point, arguments), arguments.ranks)
            row = {"sweep": sweep, **point, "other_cores": round(others, 2),
                   "step_seconds": statistics.median(line["step_seconds"] for line in lines[WARMUP:]),
                   "memory_peak_bytes": lines[-1]["memory_peak_bytes"]}
            figures.setdefault((sweep, index), []).append(row)
            with open(arguments.out / "results.jsonl", "a") as results:
                print(json.dumps(row), file=results)
            print(f"{sweep:9} {change}  {plot.duration(row['step_seconds'])}  "
                  f"{plot.data_size(row['memory_peak_bytes'])}", file=sys.stderr, flush=True)


AXES = {
    "size": ("parameters", parameters, lambda count: f"{plot.number(count / 1e6)} M"),
    "sequence": ("tokens in a sequence, 8,192 a step", lambda point: point["sequence"], plot.number),
    "batch": ("sequences of 256 tokens in a step", lambda point: point["batch"], plot.number),
}


def command(arguments, sweep):
    return shlex.join(["bench/scaling.py", "--out", str(arguments.out), f"--sweeps={sweep}",
                       f"--dtype={arguments.dtype}", f"--ranks={arguments.ranks}",
                       f"--threads={arguments.threads}", f"--rounds={arguments.rounds}",
                       f"--steps={arguments.steps}",
                       *([f"--points={arguments.points}"] if arguments.points else [])])


def write_sweep(arguments, sweep, rows_of_points):
    """Returns the Markdown of one sweep; writes its two plots."""
    x_name, x_of, show_x = AXES[sweep]
    points = [rows[0] for rows in rows_of_points]
    xs = [x_of(point) for point in points]
    seconds = [spread([row["step_seconds"] for row in rows]) for rows in rows_of_points]
    memory = [spread([row["memory_peak_bytes"] / 2**20 for row in rows]) for rows in rows_of_points]
    ideal_seconds = [seconds[0][1] * ideal_flops(p) / ideal_flops(points[0]) for p in points]
    ideal_memory = [memory[0][1] + (ideal_bytes(p, arguments) - ideal_bytes(points[0], arguments)) / 2**20
                    for p in points]
    text = [f"### Growth with {sweep}\n", f"`{command(arguments, sweep)}`\n"]
    for what, measured, ideal, show in (("step time", seconds, ideal_seconds, plot.duration),
                                        ("peak memory, MiB", memory, ideal_memory, plot.number)):
        title = what.split(",")[0]
        name = f"{sweep}-{title.replace(' ', '-')}.svg"
        dashed = [(x, (y, y, y)) for x, y in zip(xs, ideal)]
        series = [("measured", list(zip(xs, measured)), False), ("ideal", dashed, True)]
        (arguments.out / name).write_text(plot.lines(f"{title.capitalize()} by {sweep}", x_name, what, series,
                                                     show_x=show_x, show_y=show, x_ticks=xs))
        text.append(f"![{title} by {sweep}]({name})\n")
    table = Table(x_name, "layers × hidden", "sequences × tokens", "step min / median / max", "of the ideal",
                  "peak memory of a rank, MiB", "of the ideal", "others' cores")
    for rows, x, s, ideal_s, m, ideal_m in zip(rows_of_points, xs, seconds, ideal_seconds, memory, ideal_memory):
        point = rows[0]
        table.add(show_x(x), f"{point['layers']} × {point['hidden']}", f"{point['batch']} × {point['sequence']}",
                  " / ".join(map(plot.duration, s)), f"{s[1] / ideal_s:.2f}",
                  f"{m[1]:,.0f}", f"{m[1] / ideal_m:.2f}",
                  f"{max(row['other_cores'] for row in rows):.2f}")
    return "\n".join(text) + "\n" + table.markdown() + "\n"


def write_fragment(arguments, figures):
    text = ["## How cost grows\n",
            f"On {runner.cpu_name()}; {arguments.dtype}, ranks: {arguments.ranks}, threads a rank: "
            f"{arguments.threads}; medians over {arguments.rounds} rounds, bars from minimum to maximum. The "
            "ideal (dashed) goes through the first point. Of time: it grows as the FLOPs of a step, "
            "6(12LH² + VH) + 12LHT a token. Of memory: it grows by weights, gradients and optimizer state, and by "
            "16 numbers of activations a token, layer and hidden unit.\n"]
    for sweep in arguments.sweeps:
        rows = [figures[key] for key in sorted(figures) if key[0] == sweep]
        text.append(write_sweep(arguments, sweep, rows))
    (arguments.out / "scaling.md").write_text("\n".join(text))


def main():
    arguments = parse_arguments()
    arguments.out.mkdir(parents=True, exist_ok=True)
    corpus = runner.make_corpus(arguments.out)
    figures = {}
    for _ in range(arguments.rounds):
        run_round(arguments, corpus, figures)
        write_fragment(arguments, figures)
    print((arguments.out / "scaling.md").read_text())


if __name__ == "__main__":
    main()
