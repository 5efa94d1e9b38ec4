"""The commands of README and docs/ that take longer run, in the order of their page, and do not fail."""
import unittest

from document_commands import DocumentCommands, add_tests


class SlowCommands(DocumentCommands):
    pass


add_tests(SlowCommands, lambda block: "slow" in block.words, timeout=1800)

if __name__ == "__main__":
    unittest.main()
