"""Text as data sets have it: lines of JSON, compressed files, sources mixed by weight."""
import bz2
import csv
import gzip
import json
import lzma
import pathlib
import struct
import unittest

import pyarrow
from pyarrow import parquet

from harness import STDLIB, EndToEndTest


def stored_as_zstd(data):
    """A frame of blocks that are not compressed (RFC 8878)."""
    size = 100_000
    blocks = [data[i : i + size] for i in range(0, len(data), size)]
    frame = struct.pack("<IBI", 0xFD2FB528, 0xA0, len(data))
    for i, block in enumerate(blocks):
        frame += struct.pack("<I", len(block) << 3 | (i == len(blocks) - 1))[:3] + block
    return frame


class Data(EndToEndTest):
    def setUp(self):
        super().setUp()
        texts = [path.read_text() for path in sorted(pathlib.Path(STDLIB, "json").glob("*.py"))]
        lines = "".join(json.dumps({"id": i, "body": text}) + "\n" for i, text in enumerate(texts))
        (self.directory / "lines.jsonl.gz").write_bytes(gzip.compress(lines.encode()))
        (self.directory / "lines.jsonl.zst").write_bytes(stored_as_zstd(lines.encode()))
        self.documents = texts
        for i, text in enumerate(texts):
            (self.directory / f"{i}.txt").write_text(text)
        (self.directory / "small.txt").write_text("a few words that are read often " * 20)

    def source(self, *names):
        return "--data.train=" + ",".join(str(self.directory / name) for name in names)

    def test_lines_are_the_documents_that_files_are(self):
        documents = ["--data.text_field=body", "--data.separate_documents=true", "--train.steps=2"]
        self.train(*self.flags("files", checkpoints=False), self.source("?.txt"), *documents[1:])
        for name in ("lines.jsonl.gz", "lines.jsonl.zst"):
            cache = f"--data.cache={self.directory / 'cache'}"
            run = name.rpartition(".")[2]
            log = self.train(*self.flags(run, checkpoints=False), self.source(name), *documents, cache)
            self.assertRegex(log, r"tokens of 1 file, 5 documents")
            self.assertEqual(self.losses(run), self.losses("files"))

    def test_a_mixture_goes_on_where_it_stopped_at_another_number_of_ranks(self):
        mixed = [self.source("lines.jsonl.gz", "small.txt"), "--data.text_field=body",
                 "--data.weights=3,1", "--precision.compute=fp64"]
        log = self.train(*self.flags("whole"), "--train.steps=6", *mixed)
        self.assertRegex(log, r'small.txt": 25.0% of all sequences, read 0.95 times in 6 steps')
        self.train(*self.flags("parts"), "--train.steps=3", *mixed, ranks=3)
        log = self.train(*self.flags("parts"), "--train.steps=6", *mixed, ranks=2)
        self.assertNotIn("warning", log)
        for step, loss in self.losses("whole").items():
            self.assertAlmostEqual(self.losses("parts")[step], loss, delta=1e-9 * loss)
        log = self.train(*self.flags("parts"), "--train.steps=7", *mixed, "--data.weights=1,1")
        self.assertIn("data.weights was [3.0, 1.0] until this checkpoint, and is [1.0, 1.0] now", log)

    def test_an_entry_of_weight_0_is_left_out(self):
        self.train(*self.flags("one"), "--train.steps=2", self.source("0.txt"))
        log = self.train(*self.flags("two"), "--train.steps=2", self.source("0.txt", "1.txt"), "--data.weights=1,0")
        self.assertRegex(log, "1.txt\": left out, as its weight is 0")
        self.assertEqual(self.losses("two"), self.losses("one"))

    def tables(self):
        """The same documents in every format: name -> flags to read it."""
        table = pyarrow.table({"id": range(len(self.documents)), "text": self.documents,
                               "tags": [["a"], [], None, ["b", "c"], ["d"]]})
        parquet.write_table(table, self.directory / "t.parquet", row_group_size=2)
        with pyarrow.OSFile(str(self.directory / "t.arrow"), "wb") as file:
            with pyarrow.ipc.new_file(file, table.schema) as writer:
                writer.write_table(table, max_chunksize=2)
        with pyarrow.OSFile(str(self.directory / "stream.arrow"), "wb") as file:
            with pyarrow.ipc.new_stream(file, table.schema) as writer:
                writer.write_table(table)
        (self.directory / "noname").write_bytes((self.directory / "t.parquet").read_bytes())
        rows = [{"id": i, "text": text} for i, text in enumerate(self.documents)]
        (self.directory / "list.json").write_text(json.dumps(rows, indent=2))
        lines = "".join(json.dumps(row) + "\n" for row in rows)
        for name in ("a.json", "a.ndjson", "a.JSONL"):
            (self.directory / name).write_text(lines)
        (self.directory / "c4-train.00000-of-01024.json.gz").write_bytes(gzip.compress(lines.encode()) + bytes(512))
        for name, dialect in (("a.csv", csv.excel), ("a.tsv", csv.excel_tab)):
            with open(self.directory / name, "w", newline="") as file:
                writer = csv.DictWriter(file, ["id", "text"], dialect=dialect)
                writer.writeheader()
                writer.writerows(rows)
        return ["t.parquet", "t.arrow", "stream.arrow", "noname", "list.json", "a.json", "a.ndjson", "a.JSONL",
                "c4-train.00000-of-01024.json.gz", "a.csv", "a.tsv"]

    def test_every_format_gives_the_same_documents(self):
        flags = ["--data.separate_documents=true", "--train.steps=1"]
        self.train(*self.flags("files", checkpoints=False), self.source("?.txt"), *flags)
        for name in self.tables():
            with self.subTest(name):
                run = f"of {name}"
                log = self.train(*self.flags(run, checkpoints=False), self.source(name), *flags)
                self.assertRegex(log, r"tokens of 1 file, 5 documents")
                self.assertEqual(self.losses(run), self.losses("files"))
        other = self.train(*self.flags(), self.source("t.parquet"), "--data.text_field=body", *flags, expect=2)
        self.assertRegex(other, r'row 1 of .*t.parquet\' has no field "body", only "id", "tags", "text"')
        damaged = self.directory / "damaged.parquet"
        damaged.write_bytes((self.directory / "t.parquet").read_bytes()[:-100])
        self.assertIn(f"cannot read '{damaged}'", self.train(*self.flags(), self.source(damaged.name), *flags, expect=1))

    def test_bytes_that_are_no_text_are_told_or_refused(self):
        text = "".join(self.documents)
        (self.directory / "latin.txt").write_bytes(text.encode("utf-8") + "caf\u00e9".encode("latin-1"))
        log = self.train(*self.flags(checkpoints=False), self.source("latin.txt"), "--train.steps=1")
        self.assertRegex(log, r"data.train: 1 file is not UTF-8, such as '.*latin.txt'")
        others = {"a.zip": b"PK\3\4", "a.txt.xz": lzma.compress(text.encode()), "b.txt.bz2": bz2.compress(text.encode()),
                  "wide.txt": text.encode("utf-16")}
        for name, content in others.items():
            (self.directory / name).write_bytes(content)
            log = self.train(*self.flags(checkpoints=False), self.source(name), "--train.steps=1", expect=2)
            self.assertRegex(log, f"{name}' is .*which cannot be read as text")
        log = self.train(*self.flags(checkpoints=False), self.source("0.txt", *others), "--train.steps=1",
                         "--data.invalid=skip")
        self.assertIn("skipped 4 files", log)

    def test_lines_under_the_name_of_a_text_are_told(self):
        lines = gzip.decompress((self.directory / "lines.jsonl.gz").read_bytes())
        (self.directory / "b.txt.GZ").write_bytes(gzip.compress(lines))
        flags = [*self.flags(checkpoints=False), self.source("b.txt.GZ"), "--train.steps=1"]
        told = "b.txt.GZ' looks like JSON lines, but is read as one text"
        self.assertIn(told, self.train(*flags, "--data.text_field=body"))
        self.assertNotIn(told, self.train(*flags))
        log = self.train(*flags, "--data.text_field=body", "--data.format=jsonl")
        self.assertNotIn("looks like", log)
        self.assertIn("5 documents", log)

    def test_what_is_wrong_is_named(self):
        def refusal(*flags):
            return self.train(*self.flags(), "--train.steps=1", *flags, expect=2)

        lines = self.source("lines.jsonl.gz")
        self.assertRegex(refusal(lines), r'line 1 of .*lines.jsonl.gz\' has no field "text", only "body", "id"')
        self.assertIn("data.train has 1 entry", refusal(lines, "--data.weights=1,2"))
        self.assertIn("all weights are 0", refusal(self.source("0.txt", "1.txt"), "--data.weights=0,0"))
        cut = self.directory / "cut.txt.gz"
        cut.write_bytes((self.directory / "lines.jsonl.gz").read_bytes()[:-50])
        log = self.train(*self.flags(), "--train.steps=1", self.source("cut.txt.gz"), expect=1)
        self.assertIn(f"cannot decompress '{cut}': it ends within its compressed data", log)


if __name__ == "__main__":
    unittest.main()
