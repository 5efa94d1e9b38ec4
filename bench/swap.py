#!/usr/bin/env python3
"""Compares the bandwidth of SwapFile, the tier on disk, with that of fio on the same disk: same block
size and depth, both around the page cache through io_uring, in turn round by round. See README.md.

  bench/swap.py [--directory .] [--bytes 2147483648] [--rounds 5] [--threads]
"""
import argparse
import json
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile

import benchmark
import runner
from page import Table, spread

WORKLOADS = {"read": "read", "write": "write", "mixed": "rw"}  # name: fio's


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--directory", type=pathlib.Path, default=pathlib.Path.cwd(), help="on the disk")
    parser.add_argument("--bytes", type=int, default=2 << 30, help="of each of the two files")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", action="store_true", help="ours as where io_uring is refused")
    parser.add_argument("--binary", type=pathlib.Path, default=benchmark.BUILD / "swap_benchmark")
    arguments = parser.parse_args()
    if not shutil.which("fio"):
        parser.error("fio is missing: run tools/setup bench")
    return arguments


class Ours:
    """A swap_benchmark that keeps its file over the rounds."""

    def __init__(self, arguments):
        command = [arguments.binary, arguments.directory, str(arguments.bytes)]
        self.process = subprocess.Popen(command + ["threads"] * arguments.threads, text=True,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE)
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


class Fio:
    def __init__(self, folder, figures):
        self.command = [
            "fio", "--name=swap", f"--filename={folder}/fio", "--direct=1", "--ioengine=io_uring",
            f"--size={figures['bytes']}", f"--bs={figures['block']}", f"--iodepth={figures['depth']}",
            "--output-format=json"]
        self.measure("write")  # lays out the file

    def measure(self, workload):
        """GB/s, reads and writes together"""
        done = subprocess.run([*self.command, f"--rw={WORKLOADS[workload]}"], check=True, text=True,
                              stdout=subprocess.PIPE)
        job, = json.loads(done.stdout)["jobs"]
        milliseconds = max(job["read"]["runtime"], job["write"]["runtime"])
        return (job["read"]["io_bytes"] + job["write"]["io_bytes"]) / milliseconds * 1e-6


def main():
    arguments = parse_arguments()
    ours = Ours(arguments)
    figures = {workload: {"ours": [], "fio": []} for workload in WORKLOADS}
    with tempfile.TemporaryDirectory(dir=arguments.directory) as folder:
        systems = {"ours": ours, "fio": Fio(folder, ours.figures)}
        for number in range(arguments.rounds):
            for workload, measured in figures.items():
                # who is first takes turns: a disk may slow down under what came before
                for name in sorted(systems, reverse=number % 2 == 0):
                    measured[name].append(systems[name].measure(workload))
            print(f"round {number + 1}", file=sys.stderr, flush=True)
    ours.close()
    print(f"{ours.figures['method']}; blocks of {ours.figures['block'] >> 10} KiB, {ours.figures['depth']} under way; "
          f"files of {ours.figures['bytes'] >> 20} MiB; {runner.cpu_name()}. Ours writes the reserved file the first "
          f"time at {ours.figures['first_write']:.2f} GB/s.\n")
    table = Table("", "fio GB/s, median", "ours GB/s, median", "ours / fio min / median / max")
    for workload, measured in figures.items():
        ratios = spread([a / b for a, b in zip(measured["ours"], measured["fio"])])
        table.add(workload, *(f"{statistics.median(measured[name]):.2f}" for name in ("fio", "ours")),
                  " / ".join(f"{ratio:.2f}" for ratio in ratios))
    print(table.markdown())


if __name__ == "__main__":
    main()
