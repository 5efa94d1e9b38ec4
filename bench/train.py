#!/usr/bin/env python3
"""Trains the reference sizes with this project and its peers in turn, round by round, and prints and
draws how they compare. Every run's figures go to OUT/results.jsonl; a second call with the same OUT
adds rounds. See README.md.

  bench/train.py --out DIR [--rounds 5] [--sizes small,gpt2-124m] [--dtype auto] [--ranks 2]
                 [--systems ours,ddp,...]
"""
import json
import os
import statistics
import sys

import benchmark
import plot
import runner
from page import Page, Table, spread

SIZES = {
    "small": {"layers": 4, "hidden": 256, "heads": 4, "vocabulary": 512, "sequence": 256, "batch": 16,
              "warmup": 3, "steps": 12},
    "gpt2-124m": {"layers": 12, "hidden": 768, "heads": 12, "vocabulary": 50304, "sequence": 512,
                  "batch": 4, "warmup": 1, "steps": 4},
}


def decoder(family, **fields):
    """About 100 million parameters, of a family by its config.json."""
    config = {"model_type": family, "vocab_size": 32768, "hidden_size": 768, "intermediate_size": 2048,
              "num_hidden_layers": 12, "num_attention_heads": 12, "num_key_value_heads": 4, "head_dim": 64,
              "max_position_embeddings": 1024, "tie_word_embeddings": True, **fields}
    return {"config": config, "sequence": 512, "batch": 4, "warmup": 1, "steps": 4}


SIZES |= {
    "qwen3-100m": decoder("qwen3"),
    "gemma2-100m": decoder("gemma2", sliding_window=256, query_pre_attn_scalar=64),
}

# system: (environment, script)
PEERS = {
    "ddp": (".venv", "torch_train.py"),
    "fsdp2": (".venv", "torch_train.py"),
    "deepspeed1": (".venv", "deepspeed_train.py"),
    "deepspeed2": (".venv", "deepspeed_train.py"),
    "deepspeed3": (".venv", "deepspeed_train.py"),
    "colossalai": (".venv-colossalai", "colossalai_train.py"),
    "compile": (".venv", "torch_train.py"),
    "eager": (".venv", "torch_train.py"),
    "dtensor": (".venv", "dtensor_train.py"),
}
# Ours by layout; a peer is compared with ours at its own.
OURS = {"ours": [], "ours-zero3": ["--parallel.zero=3"], "ours-tp": ["--parallel.tp={ranks}"]}
OURS_OF = {"dtensor": "ours-tp", "fsdp2": "ours-zero3", "deepspeed3": "ours-zero3"}
ONE_PROCESS = ("compile", "eager")  # with as many threads as the others have in all


def parse_arguments():
    parser = benchmark.Parser(__doc__, "colossal")
    parser.add_names("sizes", SIZES, default=list(SIZES))
    parser.add_names("systems", [*OURS, *PEERS],
                     help="default: ours and all peers; with one rank ours, compile, eager")
    parser.add_dtype()
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--threads", type=int, help="of each rank; default: cores / ranks, one with one rank")
    parser.add_argument("--steps", type=int, help="timed steps of a run; default: 12 at small, 4 at gpt2-124m")
    arguments = parser.parse_args()
    if arguments.threads is None:
        arguments.threads = max(1, os.cpu_count() // arguments.ranks) if arguments.ranks > 1 else 1
    if arguments.systems is None:
        arguments.systems = ["ours", *ONE_PROCESS] if arguments.ranks == 1 else [*OURS, *PEERS]
    return arguments


def flops_per_token(size):
    """Of forward and backward: 6 for each weight of a product, 12LHT for attention."""
    if "config" in size:
        config, sequence = size["config"], size["sequence"]
        hidden, layers = config["hidden_size"], config["num_hidden_layers"]
        queries = config["num_attention_heads"] * config["head_dim"]
        keys = config["num_key_value_heads"] * config["head_dim"]
        weights = layers * hidden * (2 * queries + 2 * keys + 3 * config["intermediate_size"])
        # Of Gemma 2 every other layer has a window.
        seen = layers / 2 * (sequence + min(sequence, config.get("sliding_window", sequence)))
        return 6 * (weights + config["vocab_size"] * hidden) + 12 * queries * seen
    weights = 12 * size["layers"] * size["hidden"]**2 + size["vocabulary"] * size["hidden"]
    return 6 * weights + 12 * size["layers"] * size["hidden"] * size["sequence"]


def run_ours(arguments, system, size, corpus, name):
    flags = [*runner.model_flags(size, arguments.out), f"--train.steps={size['warmup'] + size['steps']}",
             f"--train.threads={arguments.threads}", f"--precision.compute={arguments.dtype}",
             "--scheduler.name=constant",
             "--train.gradient_clip=0", *(flag.format(ranks=arguments.ranks) for flag in OURS[system])]
    lines, others = runner.train(arguments.binary, corpus, arguments.out, name, flags, arguments.ranks)
    timed = [line["step_seconds"] for line in lines[size["warmup"]:]]
    return {
        "step_seconds": statistics.median(timed),
        "step_seconds_all": timed,
        "loss_first": lines[0]["loss"],
        "loss_last": lines[-1]["loss"],
        "memory_peak_bytes": lines[-1]["memory_peak_bytes"],
        "bytes_sent": sum(lines[-1]["bytes_sent"].values()),
    }, others


def run_peer(arguments, system, size, corpus, name):
    environment, script = PEERS[system]
    alone = system in ONE_PROCESS
    threads = arguments.threads * (arguments.ranks if alone else 1)
    flags = [f"--{key}={json.dumps(value) if key == 'config' else value}" for key, value in size.items()]
    flags += [f"--dtype={arguments.dtype}", f"--threads={threads}", f"--corpus={corpus}"]
    lines, others = runner.peer(script, [system, *flags], arguments.out / "logs" / f"{name}.txt",
                                1 if alone else arguments.ranks, environment, threads)
    return lines[-1], others


def measure(arguments, system, size, corpus, name):
    if system == "gemm":
        threads = arguments.ranks * arguments.threads
        lines, others = runner.peer("gemm.py", [arguments.dtype, threads],
                                    arguments.out / "logs" / f"{name}.txt", threads=threads)
        return lines[-1], others
    if system in OURS:
        return run_ours(arguments, system, size, corpus, name)
    return run_peer(arguments, system, size, corpus, name)


def run_round(arguments, corpus, results, number):
    for size_name in arguments.sizes:
        size = SIZES[size_name] | ({"steps": arguments.steps} if arguments.steps else {})
        for system in ["gemm", *arguments.systems]:
            row = {"round": number, "size": size_name, "system": system, "dtype": arguments.dtype,
                   "ranks": arguments.ranks, "threads": arguments.threads}
            try:
                figures, others = measure(arguments, system, size, corpus, f"{size_name}-{system}")
                row |= {**figures, "other_cores": round(others, 2)}
                if system != "gemm":
                    row["tokens_per_second"] = size["batch"] * size["sequence"] / row["step_seconds"]
            except runner.Failed as failure:
                row["error"] = str(failure)
            with open(results, "a") as lines:
                print(json.dumps(row), file=lines)
            said = row.get("error") or (f"{row['gemm_flops'] / 1e9:.0f} GFLOP/s" if system == "gemm"
                                        else f"{row['tokens_per_second']:,.0f} tokens/s")
            if row.get("other_cores", 0) > 0.3:
                said += f" (others used {row['other_cores']} cores meanwhile)"
            print(f"round {number}  {size_name:10} {system:11} {said}", file=sys.stderr, flush=True)


def show_spread(values, show="{:,.0f}"):
    return " / ".join(show.format(value) for value in spread(values))


def describe(size):
    if "config" in size:
        return ", ".join(f"{field} {value}" for field, value in size["config"].items())
    return (f"{size['layers']} layers, hidden {size['hidden']}, {size['heads']} heads, vocabulary "
            f"{size['vocabulary']:,}")


class Comparison:
    """The rows of one (size, dtype, ranks, threads)."""

    def __init__(self, rows):
        self.size = SIZES[rows[0]["size"]]
        self.failures = {row["system"]: row["error"] for row in rows if "error" in row}
        rows = [row for row in rows if "error" not in row]
        gemm = [row for row in rows if row["system"] == "gemm"]
        # The machine's rate when nothing disturbs it, and when what disturbs a step disturbs it too.
        self.gemm = max((row["gemm_flops"] for row in gemm), default=None)
        self.median_gemm = statistics.median([row["gemm_flops_median"] for row in gemm]) if gemm else None
        self.rounds = {}  # system: {round: row}
        for row in rows:
            if row["system"] != "gemm":
                self.rounds.setdefault(row["system"], {})[row["round"]] = row

    def values(self, system, key):
        return [row[key] for row in self.rounds[system].values()]

    def ratios(self, system):
        """ours / theirs, of the rounds that both ran in; none for ours"""
        if system in OURS:
            return []
        ours, theirs = self.rounds.get(OURS_OF.get(system, "ours"), {}), self.rounds[system]
        return [ours[r]["tokens_per_second"] / theirs[r]["tokens_per_second"] for r in theirs if r in ours]

    def gemm_shares(self, system, gemm):
        flops = flops_per_token(self.size)
        return [100 * tokens * flops / gemm for tokens in self.values(system, "tokens_per_second")]

    def median_shares(self, system):
        if not self.gemm:
            return ""
        return " / ".join(f"{statistics.median(self.gemm_shares(system, gemm)):.0f}"
                          for gemm in (self.gemm, self.median_gemm))

    def table(self):
        table = Table("system", "rounds", "tokens/s min / median / max", "ours / theirs min / median / max",
                      "% of GEMM rate, best / median product's", "peak memory a rank, MiB",
                      "sent a rank and step, MB", "loss first → last", "others' cores")
        for system in self.rounds:
            ratios = self.ratios(system)
            last = list(self.rounds[system].values())[-1]
            table.add(system, len(self.rounds[system]),
                      show_spread(self.values(system, "tokens_per_second")),
                      show_spread(ratios, "{:.2f}") if ratios else "",
                      self.median_shares(system),
                      f"{statistics.median(self.values(system, 'memory_peak_bytes')) / 2**20:,.0f}",
                      f"{statistics.median(self.values(system, 'bytes_sent')) / 1e6:,.1f}",
                      f"{last['loss_first']:.3f} → {last['loss_last']:.3f}",
                      f"{max(self.values(system, 'other_cores')):.2f}")
        return table

    def draw(self, page):
        def bars(title, axis_name, points, **options):
            rows = [(system, points(system)) for system in self.rounds]
            page.figure(plot.bars(title, axis_name, [row for row in rows if row[1]], **options))

        bars("Speed: median and range over the rounds", "tokens/s",
             lambda system: spread(self.values(system, "tokens_per_second")))
        if any(self.ratios(system) for system in self.rounds):
            bars("Ours over theirs, round by round: longer than 1 is faster than the peer", "ratio of tokens/s",
                 lambda system: self.ratios(system) and spread(self.ratios(system)),
                 reference=1.0)
        if self.gemm:
            bars(f"Share of the best product's rate of {self.gemm / 1e9:.0f} GFLOP/s", "%",
                 lambda system: spread(self.gemm_shares(system, self.gemm)))
        bars("Peak memory of a rank (VmHWM)", "MiB",
             lambda system: spread([v / 2**20 for v in self.values(system, "memory_peak_bytes")]))
        if any(max(self.values(system, "bytes_sent")) > 1e4 for system in self.rounds):
            bars("Sent by a rank in a step", "MB",
                 lambda system: spread([v / 1e6 for v in self.values(system, "bytes_sent")]))


def report(results, out):
    comparisons = {}
    for row in map(json.loads, results.read_text().splitlines()):
        comparisons.setdefault((row["size"], row["dtype"], row["ranks"], row["threads"]), []).append(row)
    page = Page("Training: this project and its peers")
    page.note(f"On {runner.cpu_name()}. A figure is the median of a run's steps after warm-up; spread is over "
              "rounds, in each of which every system ran once. GEMM rate: products of [1024, 768] by [768, 3072] "
              "on as many threads, the best of any round and the median of rounds. Sent: ours by metrics.jsonl, "
              "peers' by the loopback's counter. Others' cores: the most that other programs used during a "
              "run; figures with more than 0.3 are of a shared machine.")
    for (size_name, dtype, ranks, threads), rows in comparisons.items():
        comparison = Comparison(rows)
        size = comparison.size
        page.heading(f"{size_name}, {dtype}, ranks: {ranks}, threads a rank: {threads}")
        page.note(f"{describe(size)}, {size['batch']} sequences of {size['sequence']} tokens a step.")
        if comparison.rounds:
            page.table(comparison.table())
            comparison.draw(page)
        for system, failure in comparison.failures.items():
            page.note(f"{system} failed: {failure}")
    page.write(out)
    return page


def main():
    arguments = parse_arguments()
    arguments.out.mkdir(parents=True, exist_ok=True)
    corpus = runner.make_corpus(arguments.out)
    benchmark.run_rounds(arguments, lambda results, number: run_round(arguments, corpus, results, number), report)


if __name__ == "__main__":
    main()
