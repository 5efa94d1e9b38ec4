"""Importing the package of the build folder: without torch, and with a torch that it was not built with."""
import pathlib
import subprocess
import sys
import tempfile
import unittest


def python(program, packages=""):
    """Runs a program for which the folder `packages` comes before all others; returns (exit code, what it wrote)."""
    done = subprocess.run([sys.executable, "-c", f"import sys; sys.path[:0] = [{str(packages)!r}]\n{program}"],
                          capture_output=True, text=True, timeout=300, check=False)
    return done.returncode, done.stdout + done.stderr


class Import(unittest.TestCase):
    def fake_torch(self, version):
        """A folder with a package torch that says it is of a version."""
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        folder = pathlib.Path(temporary.name)
        (folder / "torch").mkdir()
        (folder / "torch/__init__.py").write_text(f"__version__ = '{version}'\n")
        return folder

    def test_torch_is_not_imported_before_it_is_needed(self):
        code, wrote = python("import colossal; print(sorted(colossal.__all__), 'torch' in sys.modules)")
        self.assertEqual(code, 0, wrote)
        self.assertRegex(wrote, r"'boost'.*'gather'.*False")

    def test_another_torch_is_refused_by_name(self):
        for version in ("2.12.1", "2.14.0+cu130", "2.130.0"):
            code, wrote = python("import colossal; colossal.boost", self.fake_torch(version))
            self.assertEqual(code, 1)
            self.assertIn(f"ImportError: this build of colossal needs torch 2.13.*, and torch {version} is installed; "
                          "install torch==2.13.*, or the build of colossal for your torch", wrote)

    def test_an_unknown_name_is_an_attribute_error(self):
        code, wrote = python("import colossal; colossal.bost")
        self.assertEqual(code, 1)
        self.assertIn("AttributeError: module colossal has no attribute bost", wrote)


if __name__ == "__main__":
    unittest.main()
