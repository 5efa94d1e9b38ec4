#!/usr/bin/env python3
"""Draws docs/architecture/overview.svg: the folders by level, and the way of a batch and of a save.

The levels are those of check_layers.py. Usage: tools/draw_architecture.py > docs/architecture/overview.svg
"""
from check_layers import LEVELS

STYLE = (".folder{fill:#eef3fb;stroke:#5b7db1}.batch{fill:#f5f1e6;stroke:#a58b4f}.save{fill:#e9f3ea;stroke:#5c9164}"
         ".head{font-size:15px;font-weight:bold}.note{fill:#555;font-size:11px}"
         ".arrow{stroke:#444;fill:none;marker-end:url(#tip)}")
TIP = ('<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
       '<path d="M0,0 L8,4 L0,8 z" fill="#444"/></marker></defs>')
TOP, PITCH = 70, 40
HEIGHT = TOP + PITCH * len(LEVELS) + 10
BATCH = [("TrainingTask makes micro-batches", "data/, tune/"),
         ("Engine::forward_backward begins a step", "engine/"),
         ("PipelineExecutor runs the schedule", "forward, backward, send, receive"),
         ("Blocks run through Activations", "memory/: keep, recompute or offload"),
         ("A layer reads weight.use(scope)", "nn/: ParameterHandle"),
         ("ChunkEngine fetches the weight", "memory/: gathers it, or reads a tier"),
         ("Operators compute, groups send", "ops/, comm/: the ledger counts each byte"),
         ("Gradients are reduced chunk by chunk", "while backward goes on"),
         ("Control all-reduce, then the update", "Engine::update: all ranks decide alike")]
SAVE = [("FilePlan gives every tensor a place", "checkpoint/: files, offsets, sizes"),
        ("Rank 0 creates the files", "io/: under a temporary name"),
        ("Each rank writes its shards", "strided ones are exchanged first"),
        ("Training may update again", "all values have been read"),
        ("Sync; then the manifest", "sizes and checksums, written last"),
        ("Rename to step-000100", "a reader sees all of it, or nothing"),
        ("Older checkpoints are removed", "as checkpoint.keep says")]


def box(style, x, y, width, height, text, note=""):
    shape = f'<rect class="{style}" x="{x}" y="{y}" width="{width}" height="{height}" rx="4"/>'
    if note:
        return [shape, f'<text x="{x + 10}" y="{y + 19}">{text}</text>',
                f'<text class="note" x="{x + 10}" y="{y + 36}">{note}</text>']
    return [shape, f'<text x="{x + width // 2}" y="{y + 20}" text-anchor="middle">{text}</text>']


def title(x, text, note):
    return [f'<text class="head" x="{x}" y="30">{text}</text>', f'<text class="note" x="{x}" y="50">{note}</text>']


def folders(x, width):
    lines = title(x, "Folders by level", "each includes itself and lower levels only")
    for row, level in enumerate(range(len(LEVELS) - 1, -1, -1)):
        names = LEVELS[level]
        y, each = TOP + row * PITCH, (width - 24) // len(names)
        lines.append(f'<text class="note" x="{x}" y="{y + 20}">{level}</text>')
        for place, name in enumerate(names):
            lines += box("folder", x + 24 + place * each, y, each - 6, 30, name)
    return lines


def way(x, width, style, steps):
    height, gap = 46, 16
    lines = []
    for place, (text, note) in enumerate(steps):
        y = TOP + place * (height + gap)
        lines += box(style, x, y, width, height, text, note)
        if place + 1 < len(steps):
            lines.append(f'<path class="arrow" d="M{x + width // 2},{y + height} v{gap}"/>')
    return lines


def drawing():
    return [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 940 {HEIGHT}" '
            'font-family="Helvetica, Arial, sans-serif" font-size="13">',
            "<title>Colossal: folders by level, the way of a batch, the way of a save</title>",
            f"<style>{STYLE}</style>", TIP, f'<rect width="940" height="{HEIGHT}" fill="white"/>',
            *folders(20, 330),
            *title(375, "The way of a batch", "a step on one rank"), *way(375, 265, "batch", BATCH),
            *title(665, "The way of a save", "while training goes on"), *way(665, 255, "save", SAVE),
            "</svg>"]


if __name__ == "__main__":
    print("\n".join(drawing()))
