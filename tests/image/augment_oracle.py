"""Writes what torchvision makes of images of Pillow, for augment_test.cpp.

Usage: augment_oracle.py FOLDER. FOLDER/NAME.rgb: height, width, a line feed, and the pixels.
"""
import json
import pathlib
import sys

import numpy as np
import PIL.Image
import torch

FOLDER = pathlib.Path(sys.argv[1])
sys.path.append(str(pathlib.Path(__file__).resolve().parents[2] / ".venv" / "apart"))
if torch.version.cuda is None:
    # torchvision's own operators need CUDA; nothing here calls them, but they must be known.
    library = torch.library.Library("torchvision", "DEF")
    library.define("nms(Tensor boxes, Tensor scores, float iou_threshold) -> Tensor")
    library.define("qnms(Tensor boxes, Tensor scores, float iou_threshold) -> Tensor")
from torchvision.transforms import ColorJitter, RandomResizedCrop  # noqa: E402
from torchvision.transforms import functional as F  # noqa: E402

CHANGES = [F.adjust_brightness, F.adjust_contrast, F.adjust_saturation, F.adjust_hue]
RANDOM = np.random.default_rng(1)


def write_image(name, image):
    array = np.asarray(image)
    with open(FOLDER / f"{name}.rgb", "wb") as file:
        file.write(f"{array.shape[0]} {array.shape[1]}\n".encode())
        file.write(array.tobytes())


def sources():
    yield np.stack(np.meshgrid(np.arange(0, 256, 5), np.arange(0, 256, 3), indexing="ij"), -1)
    for height, width in ((1, 1), (7, 5), (60, 80)):
        yield RANDOM.integers(0, 256, (height, width, 3))


def add_changes():
    """Each change with factors within and beyond its range, and all in a random order."""
    cases = []
    for number, source in enumerate(sources()):
        if source.shape[2] == 2:
            source = np.concatenate([source, RANDOM.integers(0, 256, source.shape[:2] + (1,))], -1)
        image = PIL.Image.fromarray(source.astype(np.uint8))
        write_image(f"source_{number}", image)
        for _ in range(40):
            factors = [float(v) for v in RANDOM.uniform(0, 2, 3)] + [float(RANDOM.uniform(-0.5, 0.5))]
            if RANDOM.random() < 0.2:
                factors = [0.0, 0.0, 0.0, 0.5]
            order = [int(v) for v in RANDOM.permutation(4)]
            result = image
            for change in order:
                result = CHANGES[change](result, factors[change])
            write_image(f"all_{len(cases)}", result)
            for change in range(4):
                write_image(f"single_{change}_{len(cases)}", CHANGES[change](image, factors[change]))
            cases.append({"source": number, "factors": factors, "order": order})
    return cases


def quantiles(values):
    return [float(v) for v in np.quantile(np.asarray(values, dtype=np.float64), np.linspace(0.05, 0.95, 19))]


def crop_statistics(height, width, scale, ratio, draws):
    """Quantiles of the parts' area, ratio and center."""
    image = PIL.Image.new("RGB", (width, height))
    boxes = np.array([RandomResizedCrop.get_params(image, scale, ratio) for _ in range(draws)], dtype=np.float64)
    top, left, high, wide = boxes.T
    return {"height": height, "width": width, "scale": scale, "ratio": ratio,
            "area": quantiles(high * wide / (height * width)), "shape": quantiles(np.log(wide / high)),
            "top": quantiles((top + high / 2) / height), "left": quantiles((left + wide / 2) / width)}


def fallbacks():
    """Images in which no part of the area and ratios fits."""
    for height, width in ((10, 300), (300, 10), (1, 7), (9, 1), (100, 110)):
        image = PIL.Image.new("RGB", (width, height))
        ratio = (0.75, 4 / 3) if height != 100 else (0.99, 1.01)
        box = RandomResizedCrop.get_params(image, [1.5, 1.6], ratio)
        yield {"height": height, "width": width, "ratio": ratio, "box": [int(v) for v in box]}


def jitter_statistics(draws):
    """Quantiles of the factors, and how often each change comes first."""
    jitter = ColorJitter(0.4, 1.5, 0.3, 0.2)
    parameters = [ColorJitter.get_params(jitter.brightness, jitter.contrast, jitter.saturation, jitter.hue)
                  for _ in range(draws)]
    return {"factors": [quantiles([p[i] for p in parameters]) for i in range(1, 5)]}


def main():
    torch.manual_seed(1)
    written = {
        "changes": add_changes(),
        "crops": [crop_statistics(300, 400, (0.08, 1.0), (3 / 4, 4 / 3), 20000),
                  crop_statistics(64, 20, (0.3, 0.6), (0.5, 2.0), 20000)],
        "fallbacks": list(fallbacks()),
        "jitter": jitter_statistics(20000),
    }
    (FOLDER / "cases.json").write_text(json.dumps(written))


main()
