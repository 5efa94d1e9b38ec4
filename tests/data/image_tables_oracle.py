"""Writes Parquet and Arrow files with images, for image_tables_test.cpp. Usage: image_tables_oracle.py FOLDER"""
import pathlib
import sys

import pyarrow
from pyarrow import ipc, parquet

FOLDER = pathlib.Path(sys.argv[1])
IMAGE = pyarrow.struct([("bytes", pyarrow.binary()), ("path", pyarrow.string())])


def images(numbers, kind=IMAGE):
    # Bytes that are no UTF-8.
    return pyarrow.array([{"bytes": b"\xff image %d" % i, "path": f"{i}.png"} for i in numbers], kind)


def write(name, columns, **options):
    parquet.write_table(pyarrow.table(columns), FOLDER / name, **options)


def main():
    write("a-0.parquet", {"image": images(range(7)), "label": [i % 3 for i in range(7)]}, row_group_size=3)
    write("a-1.parquet", {"label": [5, None], "image": images((7, 8)), "caption": ["seven", "eight"]},
          compression="none")
    large = pyarrow.struct([("path", pyarrow.string()), ("bytes", pyarrow.large_binary())])
    write("named.parquet", {"img": images(range(3), large), "label": ["b", "a", "b"]}, row_group_size=1)
    write("alone.parquet", {"image": pyarrow.array([{"bytes": b"\xff one"}, {"bytes": b"\xff two"}],
                                                   pyarrow.struct([("bytes", pyarrow.binary())]))})
    write("two.parquet", {"image": images((1,)), "mask": images((1,))})
    write("missing.parquet", {"image": pyarrow.array([{"bytes": b"x", "path": None}, None,
                                                      {"bytes": None, "path": "1.png"}], IMAGE)})
    write("label.parquet", {"image": images((1,)), "label": [1.5]})
    write("paths.parquet", {"image": ["a-0.parquet"], "label": [1]})
    with ipc.new_file(FOLDER / "table.arrow", pyarrow.schema([("image", IMAGE)])) as file:
        file.write_table(pyarrow.table({"image": images((1,))}))


main()
