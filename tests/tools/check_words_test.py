"""tools/check_words.py finds words that are planted, and nothing else."""
import pathlib
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools"))
import check_words  # noqa: E402


class CheckWords(unittest.TestCase):
    def found(self, files):
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            for name, text in {"docs/glossary.md": "| **shard** | a part |\n", "src/a.h": "// A shard.\n", **files}.items():
                path = root / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text, encoding="utf-8")
            return check_words.violations(root)

    def test_what_is_right_is_left_alone(self):
        self.assertEqual(self.found({"docs/a.md": "Two shards.\n", "src/b.cpp": "all_or_none();\n"}), [])

    def test_a_retired_word_is_named_with_its_place_and_successor(self):
        for name in ("src/colossal/a/b.h", "docs/x.md", "README.md", "tests/t_test.cpp"):
            self.assertEqual(self.found({name: "\n// the slabs\n"}),
                             [f"{name}:2: slabs: write buffer (of a transfer), shard (of a tensor)"])

    def test_a_term_that_nothing_uses(self):
        self.assertEqual(self.found({"src/a.h": "// Nothing.\n"}),
                         ["docs/glossary.md:1: shard: nothing uses this term"])

    def test_the_glossary_itself_is_no_use_of_a_term(self):
        self.assertEqual(len(self.found({"docs/glossary.md": "| **shard** | a part; see shard |\n", "src/a.h": ""})), 1)


if __name__ == "__main__":
    unittest.main()
