"""Writes texts of Hangul and what Python composes of them.

    normalization_oracle.py OUTPUT_DIRECTORY

The folder gets texts.bin and composed.bin: for each text a 32-bit count and its bytes.
"""

import itertools
import struct
import sys
import unicodedata
from pathlib import Path

# Jamo with those just before and after them, which look like jamo and are none.
LEADING = [0x1100, 0x1101, 0x1112, 0x1113, 0x10FF]
VOWELS = [0x1160, 0x1161, 0x1162, 0x1175, 0x1176]
TRAILING = [0x11A6, 0x11A7, 0x11A8, 0x11C2, 0x11C3]
SYLLABLES = [0xABFF, 0xAC00, 0xAC01, 0xAC1B, 0xAC1C, 0xD788, 0xD7A3, 0xD7A4]
OTHERS = [0x301, 0x327, ord("x")]


def texts():
    every = LEADING + VOWELS + TRAILING + SYLLABLES + OTHERS
    yield from itertools.product(every, repeat=3)
    for syllable in range(0xAC00, 0xD7A4):
        decomposed = [ord(c) for c in unicodedata.normalize("NFD", chr(syllable))]
        for trailing in TRAILING:
            yield (syllable, trailing, trailing)
            yield (*decomposed, trailing)


folder = Path(sys.argv[1])
with (folder / "texts.bin").open("wb") as given, (folder / "composed.bin").open("wb") as composed:
    for points in texts():
        text = "".join(map(chr, points))
        for stream, value in ((given, text), (composed, unicodedata.normalize("NFC", text))):
            data = value.encode()
            stream.write(struct.pack("<I", len(data)) + data)
