#!/usr/bin/env python3
"""Times the collectives of this project's backends and of the peers in turn, round by round. Figures
go to OUT/results.jsonl; a second call with the same OUT adds rounds. See README.md.

  bench/collectives.py --out DIR [--rounds 5] [--ranks 2,4] [--systems gloo,shm,shm-shared,torch-gloo,deepspeed-shm]
"""
import json
import statistics
import sys

import benchmark
import plot
import runner
from page import Page, Table, spread

OURS = ("gloo", "shm", "shm-shared")
PEERS = {"torch-gloo": "gloo", "deepspeed-shm": "deepspeed"}  # system: backend
OPERATIONS = ("all_reduce", "reduce_scatter", "all_gather")
SIZES = [4096 << (2 * i) for i in range(9)]  # 4 KiB to 256 MiB


def parse_arguments():
    parser = benchmark.Parser(__doc__, "comm_benchmark")
    parser.add_argument("--ranks", type=benchmark.numbers, default=[2, 4])
    parser.add_names("systems", [*OURS, *PEERS], default=[*OURS, *PEERS])
    parser.add_argument("--sizes", type=benchmark.numbers, default=SIZES, help="bytes of the whole buffer")
    parser.add_argument("--seconds", type=float, default=0.5, help="of each figure")
    return parser.parse_args()


def measure(arguments, system, ranks):
    log = arguments.out / "logs" / f"{system}-{ranks}.txt"
    sizes = map(str, arguments.sizes)
    if system in PEERS:
        return runner.peer("allreduce.py", [PEERS[system], arguments.seconds, *sizes], log, ranks)
    output, others = runner.run([arguments.binary, system, ranks, arguments.seconds, *sizes], log)
    return [json.loads(line) for line in output.splitlines()], others


def run_round(arguments, results, number):
    for ranks in arguments.ranks:
        for system in arguments.systems:
            named = {"round": number, "system": system, "ranks": ranks}
            try:
                lines, others = measure(arguments, system, ranks)
                rows = [named | line | {"other_cores": round(others, 2)} for line in lines]
                said = f"{len(rows)} figures" + (f" (others used {others:.2f} cores meanwhile)"
                                                 if others > 0.3 else "")
            except runner.Failed as failure:
                rows = [named | {"error": str(failure)}]
                said = str(failure)
            with open(results, "a") as file:
                for row in rows:
                    print(json.dumps(row), file=file)
            print(f"round {number}  {ranks} ranks  {system:14} {said}", file=sys.stderr, flush=True)


def operation_table(figures, systems, ours):
    """figures: {(system, bytes): {round: seconds}}"""
    others = [system for system in systems if system != ours]
    table = Table("buffer", *(f"{system}, GB/s" for system in systems),
                  *(f"{system} / {ours}" for system in others))
    for size in sorted({size for _, size in figures}):
        cells = []
        for system in systems:
            seconds = figures.get((system, size), {}).values()
            median = statistics.median(seconds) if seconds else None
            cells.append(f"{plot.duration(median)}, {size / median / 1e9:.3g}" if seconds else "")
        for system in others:
            theirs, mine = figures.get((system, size), {}), figures.get((ours, size), {})
            ratios = [theirs[r] / mine[r] for r in theirs if r in mine]
            cells.append(" / ".join(f"{r:.2f}" for r in spread(ratios)) if ratios else "")
        table.add(plot.data_size(size), *cells)
    return table


def report(results, out):
    rows = [json.loads(line) for line in results.read_text().splitlines()]
    page = Page("Collectives between ranks of one host")
    others = max((row["other_cores"] for row in rows if "other_cores" in row), default=0)
    page.note(f"On {runner.cpu_name()}; fp32, ranks are processes of one thread; GB/s are bytes of the "
              "whole buffer by the time of a call. Times: median over rounds of the median call, in the "
              "plots with the range over rounds. Ratios of times: minimum / median / maximum over the rounds in which both ran; more "
              f"than 1: ours is faster. Others used at most {others:.2f} cores meanwhile.")
    for ranks in sorted({row["ranks"] for row in rows}):
        for operation in OPERATIONS:
            figures = {}
            for row in rows:
                if row["ranks"] == ranks and row.get("operation") == operation:
                    figures.setdefault((row["system"], row["bytes"]), {})[row["round"]] = row["seconds"]
            if not figures:
                continue
            systems = list(dict.fromkeys(system for system, _ in figures))
            ours = "shm" if "shm" in systems else systems[0]
            page.heading(f"{operation}, {ranks} ranks")
            page.table(operation_table(figures, systems, ours))
            series = [(system, sorted((size, spread(list(seconds.values())))
                                      for (s, size), seconds in figures.items() if s == system), False)
                      for system in systems]
            page.figure(plot.lines(f"{operation}, {ranks} ranks", "whole buffer", "time of a call", series,
                                   show_x=plot.data_size, show_y=plot.duration,
                                   x_ticks=sorted({size for _, size in figures})))
        for row in rows:
            if row["ranks"] == ranks and "error" in row:
                page.note(f"{row['system']} with {ranks} ranks failed in round {row['round']}: {row['error']}")
    page.write(out)
    return page


def main():
    arguments = parse_arguments()
    benchmark.run_rounds(arguments, lambda results, number: run_round(arguments, results, number), report)


if __name__ == "__main__":
    main()
