"""Makes the images of the examples: FOLDER/{train,test}/CLASS/NUMBER.png.

make_data.py pairs FOLDER    large and small shapes of several colours, and texts that describe them, in
                             FOLDER/{train,test}.jsonl; the kinds of those of the test, as labels, in FOLDER/kinds.jsonl
make_data.py shapes FOLDER   crosses, discs and rings in random colours, places and sizes, crosses turned, 32 x 32 pixels
make_data.py digits FOLDER   scikit-learn's handwritten digits, 8 x 8 pixels (needs scikit-learn)
"""
import json
import math
import pathlib
import random
import struct
import sys
import zlib


def write_png(path, width, height, pixels):
    """pixels: red, green and blue of each pixel, row by row."""
    def chunk(kind, content):
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))
    rows = b"".join(b"\0" + pixels[y * width * 3:(y + 1) * width * 3] for y in range(height))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)) +
                     chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))


INSIDE = {"cross": lambda x, y: min(abs(x), abs(y)) < 0.25 and max(abs(x), abs(y)) < 1,
          "disc": lambda x, y: x * x + y * y < 0.8,
          "ring": lambda x, y: 0.4 < x * x + y * y < 1}


COLOURS = {"red": (200, 20, 20), "green": (20, 150, 20), "blue": (20, 20, 200), "yellow": (220, 200, 20),
           "black": (10, 10, 10), "purple": (140, 20, 160)}
SIZES = {"small": (4, 6), "large": (8, 11)}


def draw(shape, source, size=32, colour=None, radii=(7, 10)):
    """A shape, a dark one unless it has a colour, on a light ground, with noise."""
    ground = [source.randrange(160, 256) for _ in range(3)]
    colour = colour or [source.randrange(96) for _ in range(3)]
    centre_x, centre_y, radius = source.uniform(11, 21), source.uniform(11, 21), source.uniform(*radii)
    turn = source.uniform(0, 2 * math.pi)
    pixels = bytearray()
    for row in range(size):
        for column in range(size):
            x, y = (column - centre_x) / radius, (row - centre_y) / radius
            turned = x * math.cos(turn) + y * math.sin(turn), y * math.cos(turn) - x * math.sin(turn)
            inside = INSIDE[shape](*turned)
            for value in colour if inside else ground:
                pixels.append(max(0, min(255, round(value + source.gauss(0, 10)))))
    return bytes(pixels)


def make_shapes(folder):
    source = random.Random(1)
    for split, count in (("train", 2000), ("test", 200)):
        for shape in INSIDE:
            for number in range(count):
                write_png(folder / split / shape / f"{number:04}.png", 32, 32, draw(shape, source))


def make_pairs(folder):
    source = random.Random(2)
    for split, count in (("train", 6000), ("test", 300)):
        rows, kinds = [], []
        for number in range(count):
            shape, colour, size = (source.choice(list(kinds)) for kinds in (INSIDE, COLOURS, SIZES))
            path = folder / split / f"{number:04}.png"
            write_png(path, 32, 32, draw(shape, source, colour=COLOURS[colour], radii=SIZES[size]))
            text = source.choice((f"a {size} {colour} {shape}", f"a {colour} {shape}, {size}", f"{size} {shape} in {colour}"))
            rows.append(json.dumps({"image": f"{split}/{path.name}", "text": text}))
            kinds.append(json.dumps({"image": f"{split}/{path.name}", "label": f"a {size} {colour} {shape}"}))
        (folder / f"{split}.jsonl").write_text("\n".join(rows) + "\n")
    (folder / "kinds.jsonl").write_text("\n".join(kinds) + "\n")


def make_digits(folder):
    from sklearn.datasets import load_digits
    digits = load_digits()
    for number, (image, digit) in enumerate(zip(digits.images, digits.target)):
        split = "test" if number % 5 == 4 else "train"
        pixels = bytes(int(value) * 255 // 16 for row in image for value in row for _ in range(3))
        write_png(folder / split / str(digit) / f"{number:04}.png", 8, 8, pixels)


if __name__ == "__main__":
    {"pairs": make_pairs, "shapes": make_shapes, "digits": make_digits}[sys.argv[1]](pathlib.Path(sys.argv[2]))
