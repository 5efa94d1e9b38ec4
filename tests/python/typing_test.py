"""Type checkers understand the package: `mypy --strict` on a program that uses it, and mypy on the package."""
import ast
import os
import pathlib
import subprocess
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("COLOSSAL_BUILD", ROOT / "build"))
WRONG_CALLS = {
    'colossal.boost(Net(), zero="3")': 'Argument "zero" to "boost" has incompatible type "str"; expected "int"',
    "colossal.boost(Net(), fast=True)": 'Unexpected keyword argument "fast" for "boost"',
    "colossal.boost(3)": 'Value of type variable "Model" of "boost" cannot be "int"',
    "colossal.bost(Net())": 'Module has no attribute "bost"',
    "colossal.gather(colossal.rank())": 'Argument 1 to "gather" has incompatible type "int"',
}


class Typing(unittest.TestCase):
    def check(self, *arguments):
        """What mypy finds, of the package in the build folder, which has the types of the extension module."""
        done = subprocess.run([sys.executable, "-m", "mypy", "--cache-dir", BUILD / "mypy-cache", "--no-error-summary", *arguments],
                              env=os.environ | {"MYPYPATH": str(BUILD / "python")}, cwd=ROOT / "tests/python", capture_output=True,
                              text=True, timeout=580, check=False)
        self.assertEqual(done.stderr, "")
        return done.stdout

    def test_a_program_that_uses_it_is_strictly_typed(self):
        self.assertEqual(self.check("--strict", "--follow-imports=silent", "typed_program.py"), "")

    def test_wrong_calls_are_found(self):
        found = self.check("--strict", "--follow-imports=silent", "-c",
                           "\n".join(["import colossal", "from typed_program import Net", *WRONG_CALLS]))
        for line, message in enumerate(WRONG_CALLS.values(), 3):
            self.assertRegex(found, rf"<string>:{line}: error: .*{message}")

    def test_the_package_has_no_errors(self):
        self.assertEqual(self.check("--package", "colossal"), "")

    def test_every_public_name_is_known_to_type_checkers(self):
        tree = ast.parse((ROOT / "python/colossal/__init__.py").read_text())
        known = {name.asname: statement.module for node in tree.body if isinstance(node, ast.If)
                 for statement in node.body for name in statement.names}
        [places] = [node.value for node in tree.body if isinstance(node, ast.Assign) and node.targets[0].id == "_PLACES"]
        self.assertEqual(known, ast.literal_eval(places))


if __name__ == "__main__":
    unittest.main()
