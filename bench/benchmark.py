"""What the measurements of this folder share: their arguments, and rounds whose figures add up."""
import argparse
import json
import pathlib
import sys

import runner

BUILD = runner.BENCH.parent / "build"


def words(text):
    return text.split(",")


def numbers(text):
    return [int(word) for word in words(text)]


def dtype(text):
    if text not in ("auto", "bf16", "fp32"):
        raise argparse.ArgumentTypeError("there are auto, bf16, fp32")
    if text == "auto":
        return "bf16" if runner.has_bf16_products() else "fp32"
    return text


class Parser(argparse.ArgumentParser):
    """Takes --out, --rounds and --binary, the program of the build that is measured."""

    def __init__(self, description, binary, rounds=5):
        super().__init__(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
        self.add_argument("--out", type=pathlib.Path, required=True, help="folder for the figures and the page")
        self.add_argument("--rounds", type=int, default=rounds)
        self.add_argument("--binary", type=pathlib.Path, default=BUILD / binary)

    def add_dtype(self):
        self.add_argument("--dtype", type=dtype, default="auto",
                          help="auto (bf16 where the CPU multiplies it, else fp32), bf16, fp32")

    def add_names(self, name, known, **options):
        """--NAME: a list of words, all of them among `known`"""
        def parse(text):
            for word in words(text):
                if word not in known:
                    raise argparse.ArgumentTypeError(f"no {word}; there are {', '.join(known)}")
            return words(text)
        self.add_argument(f"--{name}", type=parse, **options)


def run_rounds(arguments, run_round, report):
    """run_round(file of results, its number), then report(that file, folder) -> page, for each round;
    earlier rounds in the same folder stay and count."""
    (arguments.out / "logs").mkdir(parents=True, exist_ok=True)
    results = arguments.out / "results.jsonl"
    done = [json.loads(line)["round"] for line in results.read_text().splitlines()] if results.exists() else []
    first = max(done, default=0) + 1
    for number in range(first, first + arguments.rounds):
        run_round(results, number)
        page = report(results, arguments.out)
    show(page, arguments.out)


def show(page, out):
    print(page.markdown())
    print(f"page with plots: {out / 'index.html'}", file=sys.stderr)
