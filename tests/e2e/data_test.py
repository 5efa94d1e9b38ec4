"""Text as data sets have it: lines of JSON, compressed files, sources mixed by weight."""
import gzip
import json
import pathlib
import struct
import unittest

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
        self.assertIn("data.weights was [3.0,1.0] until this checkpoint", log)

    def test_what_is_wrong_is_named(self):
        def refusal(*flags):
            return self.train(*self.flags(), "--train.steps=1", *flags, expect=2)

        lines = self.source("lines.jsonl.gz")
        self.assertRegex(refusal(lines), r'line 1 of .*lines.jsonl.gz\' has no field "text", only "body", "id"')
        self.assertIn("data.train has 1 entry", refusal(lines, "--data.weights=1,2"))
        self.assertIn("a number above 0", refusal(self.source("0.txt", "1.txt"), "--data.weights=1,0"))
        cut = self.directory / "cut.txt.gz"
        cut.write_bytes((self.directory / "lines.jsonl.gz").read_bytes()[:-50])
        log = self.train(*self.flags(), "--train.steps=1", self.source("cut.txt.gz"), expect=1)
        self.assertIn(f"cannot decompress '{cut}': it ends within its compressed data", log)


if __name__ == "__main__":
    unittest.main()
