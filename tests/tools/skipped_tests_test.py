"""tools/skipped_tests.py counts what both kinds of tests have skipped, with the reasons."""
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools"))
import skipped_tests  # noqa: E402

LOG = """1/3 Testing: cluster
/a/hosts_test.cpp:218: Skipped
makes network namespaces, which needs root
/a/hosts_test.cpp:218: Skipped
makes network namespaces, which needs root
[  SKIPPED ] 2 tests.
2/3 Testing: e2e_disk_full
test_a_full_file_system (__main__.DiskFull.test_a_full_file_system)
A file system that is soon full. ... skipped 'mounts a file system, which needs root'
test_other (__main__.DiskFull.test_other) ... ok
test_hosts (__main__.Quick.test_hosts) ... skipped "README.md:96 needs several hosts"
"""


class SkippedTests(unittest.TestCase):
    def test_both_kinds_are_counted(self):
        self.assertEqual(skipped_tests.skipped(LOG), {
            "makes network namespaces, which needs root": 2,
            "mounts a file system, which needs root": 1,
            "README.md:96 needs several hosts": 1,
        })

    def test_a_log_without_any(self):
        self.assertEqual(skipped_tests.skipped("100% tests passed\n"), {})


if __name__ == "__main__":
    unittest.main()
