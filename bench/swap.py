#!/usr/bin/env python3
"""Compares the bandwidth of SwapFile, the tier on disk, with that of fio on the same file: same block
size and depth, both around the page cache, fio through io_uring, in turn round by round. See README.md.

  bench/swap.py [--directory .] [--bytes 2147483648] [--rounds 7] [--threads] [--small-pages] [--computing]
"""
import argparse
import collections
import json
import pathlib
import random
import shutil
import statistics
import subprocess
import sys

import benchmark
import runner
from page import Table, spread

WORKLOADS = {"write": "write", "read": "read", "mixed": "rw"}  # name: fio's


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--directory", type=pathlib.Path, default=pathlib.Path.cwd(), help="on the disk")
    parser.add_argument("--bytes", type=int, default=2 << 30, help="of the file")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--threads", action="store_true", help="ours as where io_uring is refused")
    parser.add_argument("--small-pages", action="store_true", help="ours in memory such as fio's")
    parser.add_argument("--computing", action="store_true", help="both while every core multiplies matrices")
    parser.add_argument("--binary", type=pathlib.Path, default=benchmark.BUILD / "swap_benchmark")
    arguments = parser.parse_args()
    if not shutil.which("fio"):
        parser.error("fio is missing: run tools/setup bench")
    return arguments


class Ours:
    """A swap_benchmark that keeps its file over the rounds."""

    def __init__(self, arguments):
        command = [arguments.binary, arguments.directory, str(arguments.bytes),
                   *["threads"] * arguments.threads, *["small-pages"] * arguments.small_pages,
                   *["computing"] * arguments.computing]
        self.process = subprocess.Popen(command, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.figures = json.loads(self.answer())

    def answer(self):
        line = self.process.stdout.readline()
        if not line:
            sys.exit(self.process.wait() or 1)  # it has said why
        return line

    def measure(self, workload):
        print(workload, file=self.process.stdin, flush=True)
        return float(self.answer())

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def measure_fio(workload, ours):
    """GB/s, reads and writes together"""
    figures = ours.figures
    done = subprocess.run(
        ["fio", "--name=swap", f"--filename=/proc/{ours.process.pid}/fd/{figures['descriptor']}", "--direct=1",
         "--ioengine=io_uring", f"--rw={WORKLOADS[workload]}", f"--size={figures['bytes']}",
         f"--bs={figures['block']}", f"--iodepth={figures['depth']}", "--output-format=json"],
        check=True, text=True, stdout=subprocess.PIPE)
    job, = json.loads(done.stdout)["jobs"]
    milliseconds = max(job["read"]["runtime"], job["write"]["runtime"])
    return (job["read"]["io_bytes"] + job["write"]["io_bytes"]) / milliseconds * 1e-6


def run_round(ours, measured):
    """Adds a figure each. Who is first is drawn: a disk may slow down after what came before."""
    is_ours = False  # what the file holds
    for workload in WORKLOADS:
        for system in random.sample(("ours", "fio"), 2):
            if system == "fio":
                measured[workload, system].append(measure_fio(workload, ours))
                is_ours = is_ours and workload == "read"
            else:
                if workload != "write" and not is_ours:
                    ours.measure("write")  # it reads nothing that it has not written
                measured[workload, system].append(ours.measure(workload))
                is_ours = True


def main():
    arguments = parse_arguments()
    ours = Ours(arguments)
    measured = collections.defaultdict(list)
    for number in range(arguments.rounds):
        run_round(ours, measured)
        print(f"round {number + 1}", file=sys.stderr, flush=True)
    ours.close()
    pages = "small" if arguments.small_pages else "huge"
    computing = "; every core multiplies matrices meanwhile" if arguments.computing else ""
    print(f"{ours.figures['method']}, {pages} pages; blocks of {ours.figures['block'] >> 10} KiB, {ours.figures['depth']} under way; "
          f"a file of {ours.figures['bytes'] >> 20} MiB; {runner.cpu_name()}{computing}. Ours writes the reserved file the first "
          f"time at {ours.figures['first_write']:.2f} GB/s.\n")
    table = Table("GB/s", "fio median", "best", "ours median", "best", "ours / fio min / median / max", "of the bests")
    for workload in WORKLOADS:
        fio, mine = measured[workload, "fio"], measured[workload, "ours"]
        figures = [statistics.median(fio), max(fio), statistics.median(mine), max(mine)]
        ratios = spread([b / a for a, b in zip(fio, mine)])
        table.add(workload, *(f"{figure:.2f}" for figure in figures),
                  " / ".join(f"{ratio:.2f}" for ratio in ratios), f"{max(mine) / max(fio):.2f}")
    print(table.markdown())


if __name__ == "__main__":
    main()
