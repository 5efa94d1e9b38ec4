"""The commands of README and docs/ that take seconds run and do not fail; all command blocks are marked as such."""
import unittest

from document_commands import COMMAND, NOT_RUN, OTHER_FENCES, PAGES, DocumentCommands, add_tests, blocks


class QuickCommands(DocumentCommands):
    def test_every_block_of_commands_is_marked(self):
        known = {"slow", "refused", *NOT_RUN}
        for page in PAGES:
            for block in blocks(page):
                where = f"{page}:{block.line}"
                if block.kind in ("sh", "console"):
                    self.assertLessEqual(set(block.words), known, where)
                    continue
                self.assertIn(block.kind, OTHER_FENCES, where)
                if block.kind == "text":
                    continue
                for line in block.text.split("\n"):
                    self.assertFalse(COMMAND.match(line), f"{where}: mark its fence with sh or console: {line}")


add_tests(QuickCommands, lambda block: "slow" not in block.words, timeout=60)

if __name__ == "__main__":
    unittest.main()
