"""Writes image files and what Pillow and transformers make of them, for oracle_test.cpp.

Usage: image_oracle.py FOLDER. Arrays are raw bytes after a line of text with their sizes.
"""
import io
import json
import pathlib
import struct
import sys
import warnings
import zlib

import numpy as np
import PIL.Image
from transformers.image_utils import load_image

FOLDER = pathlib.Path(sys.argv[1])
RANDOM = np.random.default_rng(1)


def picture(height, width, channels=3):
    """Smooth shapes with noise, so that codecs have something to do."""
    y, x = np.mgrid[0:height, 0:width]
    waves = [np.sin(x / (3 + c) + c) * np.cos(y / (5 - c) - c) for c in range(channels)]
    noise = RANDOM.normal(0, 12, (height, width, channels))
    return np.clip(128 + 100 * np.stack(waves, -1) + noise, 0, 255).astype(np.uint8)


def write_image(name, array):
    """An image of RGB bytes."""
    assert array.dtype == np.uint8 and array.ndim == 3 and array.shape[2] == 3, (name, array.shape)
    with open(FOLDER / name, "wb") as file:
        file.write(f"{array.shape[0]} {array.shape[1]}\n".encode())
        file.write(array.tobytes())


def add_decoding(name, content):
    """A file and what load_image() gives."""
    path = FOLDER / "decode" / name
    path.write_bytes(content)
    write_image(f"decode/{name}.rgb", np.asarray(load_image(str(path))))


def saved(image, kind, **options):
    file = io.BytesIO()
    image.save(file, kind, **options)
    return file.getvalue()


def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def packed_rows(samples, depth):
    """PNG's rows without filters. samples: [height, width * channels]."""
    rows = b""
    for row in samples:
        if depth == 16:
            data = row.astype(">u2").tobytes()
        elif depth == 8:
            data = row.astype(np.uint8).tobytes()
        else:
            bits = "".join(format(int(value), f"0{depth}b") for value in row)
            bits += "0" * (-len(bits) % 8)
            data = bytes(int(bits[i:i + 8], 2) for i in range(0, len(bits), 8))
        rows += b"\0" + data
    return rows


def interlaced_rows(samples, depth, channels):
    """The seven passes of Adam7."""
    height, width = samples.shape[0], samples.shape[1] // channels
    pixels = samples.reshape(height, width, channels)
    passes = [(0, 0, 8, 8), (0, 4, 8, 8), (4, 0, 8, 4), (0, 2, 4, 4), (2, 0, 4, 2), (0, 1, 2, 2), (1, 0, 2, 1)]
    rows = b""
    for top, left, down, right in passes:
        part = pixels[top::down, left::right]
        if part.size:
            rows += packed_rows(part.reshape(part.shape[0], -1), depth)
    return rows


def png(samples, depth, color, chunks=(), interlaced=False, chunks_after=()):
    channels = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}[color]
    height, width = samples.shape[0], samples.shape[1] // channels
    rows = interlaced_rows(samples, depth, channels) if interlaced else packed_rows(samples, depth)
    header = struct.pack(">IIBBBBB", width, height, depth, color, 0, 0, int(interlaced))
    content = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header)
    for kind, data in chunks:
        content += chunk(kind, data)
    content += chunk(b"IDAT", zlib.compress(rows))
    for kind, data in chunks_after:
        content += chunk(kind, data)
    return content + chunk(b"IEND", b"")


def add_pngs():
    colors = {0: (1, 2, 4, 8, 16), 2: (8, 16), 3: (1, 2, 4, 8), 4: (8, 16), 6: (8, 16)}
    for color, depths in colors.items():
        channels = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}[color]
        for depth in depths:
            for interlaced in (False, True):
                height, width = int(RANDOM.integers(1, 40)), int(RANDOM.integers(1, 40))
                samples = RANDOM.integers(0, 2**depth, (height, width * channels))
                if depth == 16 and color == 0:
                    samples = np.where(RANDOM.random(samples.shape) < 0.5, samples % 300, samples)
                palette = RANDOM.integers(0, 256, 3 * 2**depth).astype(np.uint8).tobytes() if color == 3 else b""
                chunks = [(b"PLTE", palette)] if palette else []
                name = f"png_{color}_{depth}{'_interlaced' if interlaced else ''}"
                add_decoding(name + ".png", png(samples, depth, color, chunks, interlaced))
                transparent = {0: b"\0\1", 2: b"\0\1\0\2\0\3", 3: bytes(range(min(2**depth, 200)))}.get(color)
                if transparent:
                    add_decoding(name + "_transparent.png",
                                 png(samples, depth, color, chunks + [(b"tRNS", transparent)], interlaced))
    few = RANDOM.integers(0, 8, (5, 7))
    add_decoding("png_short_palette.png", png(few, 8, 3, [(b"PLTE", bytes(range(1, 10)))]))
    add_decoding("png_gamma.png", png(picture(9, 8).reshape(9, -1), 8, 2, [(b"gAMA", struct.pack(">I", 20000))]))
    add_decoding("png_named.jpg", png(picture(9, 8).reshape(9, -1), 8, 2))
    add_decoding("png_pillow.png", saved(PIL.Image.fromarray(picture(31, 57)), "PNG"))


def exif(orientation, order="<", kind=3):
    value = struct.pack(order + "HH", orientation, 0) if kind == 3 else struct.pack(order + "I", orientation)
    make = struct.pack(order + "HHI", 0x010F, 2, 4) + b"abc\0"
    entry = struct.pack(order + "HHI", 0x0112, kind, 1) + value
    head = b"II*\0" if order == "<" else b"MM\0*"
    return b"Exif\0\0" + head + struct.pack(order + "I", 8) + struct.pack(order + "H", 2) + make + entry + bytes(4)


def xmp(orientation, as_element=False):
    inner = (f"<tiff:Orientation>{orientation}</tiff:Orientation>" if as_element
             else f'<rdf:Description tiff:Orientation="{orientation}"/>')
    return f"<x:xmpmeta xmlns:x='adobe:ns:meta/'>{inner}</x:xmpmeta>".encode()


def add_orientations():
    pixels = picture(13, 22)
    image = PIL.Image.fromarray(pixels)
    rows = pixels.reshape(13, -1)
    for orientation in range(0, 10):
        for order in "<>":
            for kind in (3, 4):
                data = exif(orientation, order, kind)
                name = f"{orientation}_{'little' if order == '<' else 'big'}_{kind}"
                add_decoding(f"exif_{name}.jpg", saved(image, "JPEG", exif=data, quality=95))
                add_decoding(f"exif_{name}.png", png(rows, 8, 2, [(b"eXIf", data[6:])]))
                add_decoding(f"exif_{name}.webp", saved(image, "WEBP", exif=data, lossless=True))
        data = exif(orientation)
        profile = f"\nexif\n{len(data):8}\n".encode() + data.hex().encode()
        text = b"Raw profile type exif\0"
        add_decoding(f"profile_{orientation}.png", png(rows, 8, 2, [(b"zTXt", text + b"\0" + zlib.compress(profile))]))
        add_decoding(f"exif_after_{orientation}.png", png(rows, 8, 2, chunks_after=[(b"eXIf", data[6:])]))
        for as_element in (False, True):
            packet = xmp(orientation, as_element)
            name = f"xmp_{orientation}_{int(as_element)}"
            add_decoding(name + ".jpg", saved(image, "JPEG", xmp=packet, quality=95))
            add_decoding(name + ".webp", saved(image, "WEBP", xmp=packet, lossless=True))
            plain = b"XML:com.adobe.xmp\0\0\0\0\0" + packet
            small = b"XML:com.adobe.xmp\0\1\0en\0\0" + zlib.compress(packet)
            add_decoding(name + ".png", png(rows, 8, 2, [(b"iTXt", small if as_element else plain)]))
    add_decoding("exif_before_xmp.jpg", saved(image, "JPEG", exif=exif(6), xmp=xmp(3)))


def add_jpegs():
    for height, width in ((1, 1), (7, 9), (16, 16), (33, 50), (120, 161)):
        image = PIL.Image.fromarray(picture(height, width))
        for subsampling in (0, 1, 2):
            for progressive in (False, True):
                content = saved(image, "JPEG", quality=int(RANDOM.integers(20, 98)), subsampling=subsampling,
                                progressive=progressive)
                add_decoding(f"jpeg_{height}x{width}_{subsampling}_{int(progressive)}.jpg", content)
        add_decoding(f"jpeg_grey_{height}x{width}.jpg", saved(image.convert("L"), "JPEG"))
        cmyk = PIL.Image.frombytes("CMYK", (width, height), picture(height, width, 4).tobytes())
        add_decoding(f"jpeg_cmyk_{height}x{width}.jpg", saved(cmyk, "JPEG", quality=90))
    image = PIL.Image.fromarray(picture(40, 64))
    add_decoding("jpeg_restarts.jpg", saved(image, "JPEG", restart_marker_blocks=2))
    add_decoding("jpeg_rgb.jpg", saved(image, "JPEG", keep_rgb=True))
    whole = saved(image, "JPEG")
    add_decoding("jpeg_rubbish_after.jpg", whole + bytes(range(100)))
    add_decoding("jpeg_named.png", whole)
    # YCCK: CMYK as Adobe's programs store it, with a transform.
    ycck = bytearray(saved(cmyk, "JPEG", quality=90))
    at = bytes(ycck).find(b"Adobe")
    assert at > 0
    ycck[at + 11] = 2
    add_decoding("jpeg_ycck.jpg", bytes(ycck))


def add_webps():
    for height, width in ((1, 1), (2, 3), (17, 31), (64, 100)):
        image = PIL.Image.fromarray(picture(height, width))
        transparent = PIL.Image.fromarray(picture(height, width, 4), "RGBA")
        for name, source in (("rgb", image), ("rgba", transparent)):
            base = f"webp_{name}_{height}x{width}"
            add_decoding(base + "_lossy.webp", saved(source, "WEBP", quality=70))
            add_decoding(base + "_lossless.webp", saved(source, "WEBP", lossless=True))
            add_decoding(base + "_exact.webp", saved(source, "WEBP", lossless=True, exact=True))
    frames = [PIL.Image.fromarray(picture(20, 30, 4), "RGBA") for _ in range(3)]
    add_decoding("webp_animated.webp",
                 saved(frames[0], "WEBP", save_all=True, append_images=frames[1:], duration=50, lossless=True))


FILTERS = range(6)


def add_resizes():
    """Lines: number of the source, the size, the filter, and perhaps the box."""
    cases = []
    for number in range(24):
        height, width = (int(v) for v in RANDOM.integers(1, 160, 2))
        if number == 0:
            height, width = 1, 1
        if number == 1:
            height, width = 320, 3  # more than a hundred times as high as wide
        image = PIL.Image.fromarray(RANDOM.integers(0, 256, (height, width, 3), dtype=np.uint8))
        if number % 3 == 2:
            image = PIL.Image.fromarray(picture(height, width))
        write_image(f"resize/{number}.rgb", np.asarray(image))
        sizes = [tuple(int(v) for v in RANDOM.integers(1, 200, 2)) for _ in range(4)]
        sizes += [(height, int(RANDOM.integers(1, 200))), (int(RANDOM.integers(1, 200)), width), (height, width)]
        for size in sizes:
            for resample in FILTERS:
                box = None
                if RANDOM.random() < 0.4:
                    x = np.sort(RANDOM.random(2) * width).astype(np.float32)
                    y = np.sort(RANDOM.random(2) * height).astype(np.float32)
                    if RANDOM.random() < 0.5:
                        x, y = np.floor(x), np.floor(y)
                    if x[1] > x[0] and y[1] > y[0]:
                        box = tuple(float(v) for v in (x[0], y[0], x[1], y[1]))
                result = image.resize(size[::-1], resample, box)
                write_image(f"resize/case_{len(cases)}.rgb", np.asarray(result))
                cases.append({"source": number, "size": size, "filter": resample, "box": box})
    (FOLDER / "resize/cases.json").write_text(json.dumps(cases))


def processor_cases():
    """(class, fields) of image processors."""
    from transformers.models.beit.image_processing_pil_beit import BeitImageProcessorPil as Beit
    from transformers.models.bit.image_processing_pil_bit import BitImageProcessorPil as Bit
    from transformers.models.clip.image_processing_pil_clip import CLIPImageProcessorPil as Clip
    from transformers.models.convnext.image_processing_pil_convnext import ConvNextImageProcessorPil as ConvNext
    from transformers.models.deit.image_processing_pil_deit import DeiTImageProcessorPil as DeiT
    from transformers.models.siglip.image_processing_pil_siglip import SiglipImageProcessorPil as Siglip
    from transformers.models.vit.image_processing_pil_vit import ViTImageProcessorPil as ViT
    for kind in (Beit, Bit, Clip, ConvNext, DeiT, Siglip, ViT):
        yield kind, {}
        yield kind, {"image_mean": [0.1, 0.2, 0.3], "image_std": [0.9, 0.7, 0.3], "resample": 1}
        yield kind, {"do_normalize": False}
        yield kind, {"do_rescale": False, "resample": 0}
        yield kind, {"do_rescale": False, "do_normalize": False, "resample": 5}
        yield kind, {"rescale_factor": 1 / 127.5, "resample": 4}
        yield kind, {"do_resize": False, "do_center_crop": False}
        yield kind, {"do_resize": False, "do_center_crop": True, "crop_size": 37}
        yield kind, {"do_resize": False, "do_center_crop": True, "crop_size": {"height": 90, "width": 31}}
        if kind is not ConvNext:
            yield kind, {"size": 50}
            yield kind, {"size": 50, "default_to_square": False}
            yield kind, {"size": {"height": 31, "width": 47}, "do_center_crop": True, "crop_size": [40, 40]}
            yield kind, {"size": {"shortest_edge": 40}, "do_center_crop": True, "crop_size": 64}
            yield kind, {"size": {"shortest_edge": 40, "longest_edge": 61}, "do_center_crop": False}
            yield kind, {"size": {"shortest_edge": 50, "longest_edge": 52}, "do_center_crop": False}
    for edge in (17, 60, 383, 384, 400):
        yield ConvNext, {"size": {"shortest_edge": edge}}
    yield ConvNext, {"size": {"shortest_edge": 48}, "crop_pct": 0.95}
    yield ConvNext, {"size": 32}


def add_processors():
    sources = [(60, 90), (91, 64), (50, 50), (33, 200), (333, 250)]
    for number, (height, width) in enumerate(sources):
        write_image(f"process/source_{number}.rgb", picture(height, width))
    cases = []
    for kind, fields in processor_cases():
        processor = kind(**fields)
        processor.save_pretrained(FOLDER / "process" / f"saved_{len(cases)}")
        for number, (height, width) in enumerate(sources):
            raw = (FOLDER / f"process/source_{number}.rgb").read_bytes().split(b"\n", 1)[1]
            image = PIL.Image.frombytes("RGB", (width, height), raw)
            result = np.asarray(processor(image)["pixel_values"][0], dtype=np.float32)
            with open(FOLDER / f"process/case_{len(cases)}_{number}.float", "wb") as file:
                file.write(f"{result.shape[1]} {result.shape[2]}\n".encode())
                file.write(result.tobytes())
        name = kind.__name__.removesuffix("Pil")
        cases.append({"fields": {"image_processor_type": name, **fields}, "sources": len(sources)})
    (FOLDER / "process/cases.json").write_text(json.dumps(cases))


def main():
    for name in ("decode", "resize", "process"):
        (FOLDER / name).mkdir()
    # Of Pillow: transparency of palettes is dropped, as it should be here.
    warnings.simplefilter("ignore", UserWarning)
    add_pngs()
    add_orientations()
    add_jpegs()
    add_webps()
    add_resizes()
    add_processors()


main()
