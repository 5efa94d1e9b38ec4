#!/usr/bin/env python3
"""Draws docs/optimizers/schedules.svg: the learning rates of runs with each schedule.

  bench/schedules.py
"""
import json
import pathlib
import subprocess
import tempfile

import plot

ROOT = pathlib.Path(__file__).resolve().parents[1]
STEPS, WARMUP = 100, 10
SCHEDULES = {
    "cosine": [], "linear": [], "constant": [], "wsd": ["decay_steps=30"], "cosine_restarts": ["cycles=3"],
    "flat_cosine": ["flat_ratio=0.5"], "polynomial": ["power=3"], "exponential": ["decay_factor=0.96"],
    "step": ["decay_factor=0.5", "step_size=20"], "multistep": ["decay_factor=0.3", "milestones=40,70"],
    "inverse_sqrt": [], "power": ["decay_steps=30"], "one_cycle": ["warmup_steps=0"],
}
WIDTH, HEIGHT, COLUMNS, MARGIN, TITLE = 186, 90, 4, 16, 34


def learning_rates(name, settings, folder):
    folder.mkdir()
    toml = folder / "run.toml"
    toml.write_text("[model]\npreset = \"gpt2-tiny\"\n")
    subprocess.run([
        ROOT / "build" / "colossal", "train", toml, "--model.n_layer=1", "--model.n_embd=8",
        "--model.n_head=1", f"--data.train={__file__}", "--data.sequence_length=8", "--train.global_batch=1",
        f"--train.steps={STEPS}", f"--log.directory={folder}", "--log.report=false", "--precision.compute=fp32",
        f"--scheduler.name={name}", f"--scheduler.warmup_steps={WARMUP}", "--optimizer.learning_rate=1",
        "--optimizer.name=lars", *(f"--scheduler.{setting}" for setting in settings)], check=True, capture_output=True)
    return [json.loads(line)["learning_rate"] for line in (folder / "metrics.jsonl").read_text().splitlines()]


def chart(index, name, settings, rates):
    left = MARGIN + index % COLUMNS * (WIDTH + MARGIN)
    top = MARGIN + index // COLUMNS * (HEIGHT + TITLE + MARGIN)
    bottom = top + TITLE + HEIGHT
    points = " ".join(f"{left + step / STEPS * WIDTH:.1f},{bottom - rate * HEIGHT:.1f}"
                      for step, rate in enumerate(rates, 1))
    return [plot.text(left, top + 12, name, extra='font-weight="bold"'),
            plot.text(left, top + 26, ", ".join(settings) or " ", size=10, colour=plot.FAINT),
            plot.line(left, bottom, left + WIDTH, bottom), plot.line(left, bottom, left, top + TITLE),
            f'<polyline points="{points}" fill="none" stroke="{plot.COLOURS[1]}" stroke-width="1.5"/>']


def main():
    parts = []
    with tempfile.TemporaryDirectory() as directory:
        for index, (name, settings) in enumerate(SCHEDULES.items()):
            rates = learning_rates(name, settings, pathlib.Path(directory) / name)
            parts += chart(index, name, settings, rates)
    rows = -(-len(SCHEDULES) // COLUMNS)
    page = ROOT / "docs" / "optimizers" / "schedules.svg"
    page.parent.mkdir(exist_ok=True)
    page.write_text(plot.svg(MARGIN + COLUMNS * (WIDTH + MARGIN), MARGIN + rows * (HEIGHT + TITLE + MARGIN), parts) + "\n")


if __name__ == "__main__":
    main()
