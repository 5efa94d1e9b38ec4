#!/usr/bin/env python3
"""The largest GPT that trains within a budget of device memory, by setting: hidden size 64 k, k layers,
k heads, vocabulary 50,304, one sequence of 512 tokens a rank. Each size tried is trained for three steps;
what counts is a rank's peak resident size, base included, less what rests on the host. See README.md.

  bench/capability.py --out DIR [--systems ddp,stage3,...] [--budget 1024] [--dtype fp32] [--largest 20]
"""
import json
import sys

import benchmark
import runner
from page import Table

FULL = ["--memory.recompute=full"]
HOST = [f"--memory.offload_{kind}=host" for kind in ("parameters", "gradients", "optimizer", "activations")]
NVME = [flag.replace("=host", "=nvme") for flag in HOST]

# In order of what they hold: each search begins where the one before it ended.
SYSTEMS = {
    "ddp": ("PyTorch DDP", None),
    "fsdp2": ("PyTorch FSDP2", None),
    "stage0": ("ZeRO 0", ["--parallel.zero=0"]),
    "stage1": ("ZeRO 1", ["--parallel.zero=1"]),
    "stage2": ("ZeRO 2", ["--parallel.zero=2"]),
    "stage3": ("ZeRO 3", ["--parallel.zero=3"]),
    "recompute": ("ZeRO 3, recompute full", ["--parallel.zero=3", *FULL]),
    "host": ("ZeRO 3, all on the host", ["--parallel.zero=3", *HOST]),
    "host-recompute": ("... and recompute full", ["--parallel.zero=3", *FULL, *HOST]),
    "nvme-recompute": ("ZeRO 3, all on NVMe, recompute full", ["--parallel.zero=3", *FULL, *NVME]),
}
VOCABULARY, SEQUENCE, RANKS, STEPS = 50304, 512, 2, 3


def parse_arguments():
    parser = benchmark.Parser(__doc__, "colossal", rounds=1)
    parser.add_names("systems", SYSTEMS, default=list(SYSTEMS))
    parser.add_dtype()
    parser.add_argument("--budget", type=int, default=1024, help="MiB of a rank")
    parser.add_argument("--largest", type=int, default=40, help="no more layers than these are tried")
    return parser.parse_args()


def parameters(k):
    hidden = 64 * k
    return k * (12 * hidden**2 + 13 * hidden) + (VOCABULARY + SEQUENCE + 2) * hidden


def device_bytes(arguments, system, k, corpus):
    """Of the rank that took most."""
    name = f"{system}-{k}"
    if SYSTEMS[system][1] is None:
        flags = [f"--layers={k}", f"--hidden={64 * k}", f"--heads={k}", f"--vocabulary={VOCABULARY}",
                 f"--sequence={SEQUENCE}", f"--batch={RANKS}", "--warmup=1", f"--steps={STEPS - 1}",
                 f"--dtype={arguments.dtype}", "--threads=1", f"--corpus={corpus}"]
        lines, _ = runner.peer("torch_train.py", [system, *flags], arguments.out / "logs" / f"{name}.txt",
                               RANKS, threads=1)
        return lines[-1]["memory_peak_bytes"]
    flags = [f"--model.n_layer={k}", f"--model.n_embd={64 * k}", f"--model.n_head={k}",
             f"--model.vocab_size={VOCABULARY}", f"--model.n_positions={SEQUENCE}",
             f"--data.sequence_length={SEQUENCE}", f"--train.global_batch={RANKS}", f"--train.steps={STEPS}",
             "--train.threads=1", f"--precision.compute={arguments.dtype}", *SYSTEMS[system][1],
             f"--memory.nvme_path={arguments.out}"]
    lines, _ = runner.train(arguments.binary, corpus, arguments.out, name, flags, RANKS)
    return lines[-1]["memory_peak_bytes"] - lines[-1].get("host_bytes", 0)


def search(arguments, system, start, corpus):
    """The rows of the sizes tried; the largest that fits is found by steps of one from `start`."""
    rows = {}

    def fits(k):
        try:
            peak = device_bytes(arguments, system, k, corpus)
        except runner.Failed as failure:
            print(f"{system:15} k {k}: {failure}", file=sys.stderr, flush=True)
            return False
        rows[k] = {"system": system, "k": k, "parameters": parameters(k), "device_bytes": peak,
                   "fits": peak <= arguments.budget << 20}
        print(f"{system:15} k {k:2}  {parameters(k) / 1e6:7.1f} M  {peak / 2**20:7.0f} MiB", file=sys.stderr,
              flush=True)
        return rows[k]["fits"]

    k = start
    if fits(k):
        while k < arguments.largest and fits(k + 1):
            k += 1
    else:
        while k > 1 and not fits(k - 1):
            k -= 1
    return list(rows.values())


def main():
    arguments = parse_arguments()
    (arguments.out / "logs").mkdir(parents=True, exist_ok=True)
    corpus = runner.make_corpus(arguments.out)
    start, first = 4, None
    table = Table("setting", "layers", "hidden", "parameters, M", "MiB of a rank", "times the first")
    with open(arguments.out / "results.jsonl", "a") as results:
        for system in arguments.systems:
            rows = search(arguments, system, start, corpus)
            for row in rows:
                print(json.dumps(row), file=results, flush=True)
            best = max((row for row in rows if row["fits"]), key=lambda row: row["k"], default=None)
            if best is None:
                table.add(SYSTEMS[system][0], "none", "", "", "", "")
                continue
            start = best["k"]
            first = first or best["parameters"]
            table.add(SYSTEMS[system][0], best["k"], 64 * best["k"], f"{best['parameters'] / 1e6:,.1f}",
                      f"{best['device_bytes'] / 2**20:,.0f}", f"{best['parameters'] / first:.1f}")
    print(table.markdown())


if __name__ == "__main__":
    main()
