#!/usr/bin/env python3
"""A vision transformer on two ranks of one thread: ours, which reads PNG files, beside transformers under DDP with
images that lie in memory; in turn, in bf16. See README.md.

  bench/vision.py --out DIR [--rounds 3]
"""
import json
import random
import statistics
import struct
import zlib

import benchmark
import runner
from page import Page, Table, spread

VIT_SMALL = {"hidden_size": 384, "intermediate_size": 1536, "num_hidden_layers": 12, "num_attention_heads": 6,
             "image_size": 224, "patch_size": 16, "num_labels": 10}
RANKS, BATCH, STEPS, WARMUP, IMAGES, CLASSES = 2, 16, 8, 2, 128, 10
DDP = "transformers, DDP"
MIB = 1 << 20


def write_png(path, size, source):
    def chunk(kind, content):
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))
    rows = b"".join(b"\0" + source.randbytes(size * 3) for _ in range(size))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", size, size, 8, 2, 0, 0, 0)) +
                     chunk(b"IDAT", zlib.compress(rows, 1)) + chunk(b"IEND", b""))


def make_images(folder):
    if folder.exists():
        return
    source = random.Random(0)
    for number in range(IMAGES):
        write_png(folder / str(number % CLASSES) / f"{number:03}.png", VIT_SMALL["image_size"], source)


def ours(arguments, number):
    folder = arguments.out / "logs" / f"ours-{number}"
    folder.mkdir(parents=True)
    fields = "".join(f"{name} = {value}\n" for name, value in VIT_SMALL.items() if name != "num_labels")
    toml = folder / "run.toml"
    toml.write_text(f'[model]\npreset = "vit-small"\n{fields}[data]\ntrain = ["{arguments.out / "images"}"]\n')
    runner.run([arguments.binary, "tune", "classify", toml, f"--ranks={RANKS}", "--train.threads=1",
                f"--train.global_batch={BATCH}", f"--train.steps={WARMUP + STEPS}", "--precision.compute=bf16",
                "--scheduler.name=constant", f"--log.directory={folder / 'run'}"], folder / "log")
    lines = [json.loads(line) for line in (folder / "run" / "metrics.jsonl").read_text().splitlines()][WARMUP:]
    return {"step_seconds": statistics.median(line["step_seconds"] for line in lines),
            "memory_peak_bytes": max(line["memory_peak_bytes"] for line in lines)}


def theirs(arguments, number):
    lines, _ = runner.peer("vision_train.py", [
        f"--config={json.dumps(VIT_SMALL)}", f"--batch={BATCH}", f"--steps={STEPS}", f"--warmup={WARMUP}"],
        arguments.out / "logs" / f"ddp-{number}.txt", ranks=RANKS)
    return lines[-1]


def run_round(arguments, results, number):
    line = {"round": number, "ours": ours(arguments, number), DDP: theirs(arguments, number)}
    with results.open("a") as file:
        file.write(json.dumps(line) + "\n")


def report(results, _):
    lines = [json.loads(line) for line in results.read_text().splitlines()]
    page = Page("Vision transformers")
    page.note(f"ViT-small, {BATCH} images of 224 x 224 a step, {RANKS} ranks of one thread, bf16, on {runner.cpu_name()}. "
              f"{len(lines)} rounds, in turn: least, median, most.")
    table = Table("system", "images/s", "times DDP", "memory of a rank, MiB")
    rates = {system: spread([BATCH / line[system]["step_seconds"] for line in lines]) for system in ("ours", DDP)}
    for system, (least, median, most) in rates.items():
        memory = statistics.median(line[system]["memory_peak_bytes"] for line in lines) / MIB
        table.add(system, f"{least:.2f} {median:.2f} {most:.2f}", f"{median / rates[DDP][1]:.2f}", f"{memory:.0f}")
    page.table(table)
    return page


if __name__ == "__main__":
    arguments = benchmark.Parser(__doc__, "colossal", rounds=3).parse_args()
    arguments.out = arguments.out.resolve()
    make_images(arguments.out / "images")
    benchmark.run_rounds(arguments, lambda results, number: run_round(arguments, results, number), report)
