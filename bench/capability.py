#!/usr/bin/env python3
"""The largest GPT that trains within a budget of device memory, by setting: hidden size 64 k, k layers,
k heads, vocabulary 50,304, one sequence of 512 tokens a rank. Ours is found by dry runs and then trained for three
steps, as are the peers' sizes; what counts is a rank's peak resident size, base included, less what rests on the
host. Where this machine's memory or disk cannot hold the model that the device could train, the largest that it holds is
trained, and both are told. See README.md.

  bench/capability.py --out DIR [--systems ddp,stage3,...] [--budget 1024] [--dtype fp32]
"""
import json
import math
import shutil
import sys

import benchmark
import runner
from page import Table

MIB = 1 << 20
STAGE3 = ["--parallel.zero=3"]
FULL = ["--memory.recompute=full"]
ROWS = ["--memory.table_rows=4096"]


def all_on(tier):
    return [f"--memory.offload_{kind}={tier}" for kind in ("parameters", "gradients", "optimizer", "activations")]


# In order of what they hold.
PEERS = {"ddp": "PyTorch DDP", "fsdp2": "PyTorch FSDP2"}
OURS = {
    "stage0": ("ZeRO 0", ["--parallel.zero=0"]),
    "stage1": ("ZeRO 1", ["--parallel.zero=1"]),
    "stage2": ("ZeRO 2", ["--parallel.zero=2"]),
    "stage3": ("ZeRO 3", STAGE3),
    "recompute": ("ZeRO 3, recompute full", [*STAGE3, *FULL]),
    "rows": ("... and tables in blocks of 4,096 rows", [*STAGE3, *FULL, *ROWS]),
    "host": ("... and all on the host", [*STAGE3, *FULL, *ROWS, *all_on("host")]),
    "nvme": ("... or all on NVMe", [*STAGE3, *FULL, *ROWS, *all_on("nvme")]),
}
VOCABULARY, SEQUENCE, RANKS, STEPS = 50304, 512, 2, 3


def parse_arguments():
    parser = benchmark.Parser(__doc__, "colossal", rounds=1)
    parser.add_names("systems", {**PEERS, **OURS}, default=[*PEERS, *OURS])
    parser.add_dtype()
    parser.add_argument("--budget", type=int, default=1024, help="MiB of a rank")
    parser.add_argument("--share", type=float, default=0.8, help="of free memory and disk that may be taken")
    return parser.parse_args()


def parameters(k):
    hidden = 64 * k
    return k * (12 * hidden**2 + 13 * hidden) + (VOCABULARY + SEQUENCE + 2) * hidden


def size_of(k):
    return {"layers": k, "hidden": 64 * k, "heads": k, "vocabulary": VOCABULARY, "positions": SEQUENCE,
            "sequence": SEQUENCE, "batch": RANKS}


def peer_bytes(arguments, system, k, corpus):
    """Resident on the rank that took most."""
    size = {key: value for key, value in size_of(k).items() if key != "positions"}
    flags = [f"--{key}={value}" for key, value in size.items()]
    flags += ["--warmup=1", f"--steps={STEPS - 1}", f"--dtype={arguments.dtype}", "--threads=1", f"--corpus={corpus}"]
    lines, _ = runner.peer("torch_train.py", [system, *flags], arguments.out / "logs" / f"{system}-{k}.txt",
                           RANKS, threads=1)
    return lines[-1]["memory_peak_bytes"]


def our_flags(arguments, system, k):
    return [*runner.gpt2_flags(size_of(k)), f"--train.steps={STEPS}", "--train.threads=1",
            f"--precision.compute={arguments.dtype}", *OURS[system][1], f"--memory.nvme_path={arguments.out}"]


def our_step(arguments, system, k, corpus):
    """The last step's line of metrics.jsonl."""
    lines, _ = runner.train(arguments.binary, corpus, arguments.out, f"{system}-{k}",
                            our_flags(arguments, system, k), RANKS)
    return lines[-1]


def device_bytes(step):
    return step["memory_peak_bytes"] - step.get("host_bytes", 0)


def dry_run(arguments, system, k, corpus):
    return runner.plan(arguments.binary, corpus, arguments.out, f"{system}-{k}-plan",
                       our_flags(arguments, system, k), RANKS)


def largest(fits):
    """The largest k from 1 on that fits, given that smaller ones do; 0 where 1 does not."""
    if not fits(1):
        return 0
    good, bad = 1, 2
    while fits(bad):
        good, bad = bad, 2 * bad
    while bad - good > 1:
        middle = (good + bad) // 2
        good, bad = (middle, bad) if fits(middle) else (good, middle)
    return good


def holds(arguments, plan):
    """Whether this machine has the memory and the disk for it."""
    with open("/proc/meminfo") as lines:
        memory = next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable"))
    disk = shutil.disk_usage(arguments.out).free
    return (RANKS * (plan.get("host_bytes", 0) + (arguments.budget << 20)) < arguments.share * memory
            and RANKS * plan.get("nvme_bytes", 0) < arguments.share * disk)


def search_peer(arguments, system, corpus):
    sizes = {}

    def fits(k):
        try:
            sizes[k] = peer_bytes(arguments, system, k, corpus)
        except runner.Failed as failure:
            print(f"{system:10} k {k}: {failure}", file=sys.stderr, flush=True)
            return False
        tell(system, k, sizes[k])
        return sizes[k] <= arguments.budget << 20

    k = largest(fits)
    return k, k, sizes.get(k, math.nan)


def search_ours(arguments, system, corpus):
    """(largest by dry runs, largest trained, its bytes)"""
    # What a process takes beside its tensors, measured at the smallest size.
    smallest = our_step(arguments, system, 1, corpus)
    budget = (arguments.budget << 20) - device_bytes(smallest) + smallest["memory_at_peak"]
    plans = {}

    def fits(k):
        plans[k] = dry_run(arguments, system, k, corpus)
        return plans[k]["memory_at_peak"] <= budget

    found = largest(fits)
    trained = largest(lambda k: k <= found and holds(arguments, plans.get(k) or dry_run(arguments, system, k, corpus)))
    while trained > 0:
        taken = device_bytes(our_step(arguments, system, trained, corpus))
        tell(system, trained, taken)
        if taken <= arguments.budget << 20:
            return found, trained, taken
        found = min(found, trained - 1)
        trained -= 1
    return found, 0, math.nan


def tell(system, k, taken):
    print(f"{system:10} k {k:2}  {parameters(k) / 1e6:8.1f} M  {taken / MIB:6.0f} MiB", file=sys.stderr, flush=True)


def main():
    arguments = parse_arguments()
    (arguments.out / "logs").mkdir(parents=True, exist_ok=True)
    corpus = runner.make_corpus(arguments.out)
    table = Table("setting", "layers × hidden by dry runs", "parameters, M", "trained, M", "MiB of a rank, trained",
                  "times the first, trained", "by dry runs")
    first = None
    with open(arguments.out / "results.jsonl", "a") as results:
        for system in arguments.systems:
            is_peer = system in PEERS
            found, trained, taken = (search_peer if is_peer else search_ours)(arguments, system, corpus)
            print(json.dumps({"system": system, "dtype": arguments.dtype, "budget": arguments.budget, "found": found,
                              "trained": trained, "device_bytes": taken}), file=results, flush=True)
            name = PEERS[system] if is_peer else OURS[system][0]
            if trained == 0:
                table.add(name, "none", *[""] * 5)
                continue
            first = first or parameters(trained)
            table.add(name, f"{found} × {64 * found}", f"{parameters(found) / 1e6:,.1f}",
                      f"{parameters(trained) / 1e6:,.1f}", f"{taken / MIB:,.0f}",
                      f"{parameters(trained) / first:.1f}", "" if is_peer else f"{parameters(found) / first:.1f}")
    print(table.markdown())


if __name__ == "__main__":
    main()
