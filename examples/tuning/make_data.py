#!/usr/bin/env python3
"""Writes small data sets for `colossal tune`: make_data.py FOLDER

A model of a few million parameters learns from them in a minute on two cores: sums in words, answered politely (chosen,
desirable) or not.
"""
import json
import pathlib
import random
import sys

NUMBERS = "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen " \
          "seventeen eighteen".split()


def example(draw):
    first, second = draw.randrange(10), draw.randrange(10)
    total = NUMBERS[first + second]
    return (f"What is {NUMBERS[first]} and {NUMBERS[second]}? ", f"It is {total}, if you please.",
            draw.choice([f"{total}, obviously.", "Who knows.", f"Not {NUMBERS[first]}."]))


def main():
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    draw = random.Random(1)
    files = {name: (folder / f"{name}.jsonl").open("w") for name in ("texts", "pairs", "verdicts")}
    for index in range(2000):
        prompt, polite, rude = example(draw)
        lines = {"texts": {"prompt": prompt, "completion": draw.choice([polite, rude])},
                 "pairs": {"prompt": prompt, "chosen": polite, "rejected": rude},
                 "verdicts": {"prompt": prompt, "completion": rude if index % 2 else polite, "label": index % 2 == 0}}
        for name, line in lines.items():
            files[name].write(json.dumps(line) + "\n")
    for file in files.values():
        file.close()


if __name__ == "__main__":
    main()
