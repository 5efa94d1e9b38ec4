"""Import this before TRL: its trainers then need neither datasets nor pandas nor pyarrow, by which they read data."""
import importlib.abc
import importlib.machinery
import sys
from unittest import mock


class WithoutData(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Stands for these libraries, which the trainers import and their formulas do not use."""

    def find_spec(self, name, path, target=None):
        absent = name.partition(".")[0] in ("datasets", "pandas", "pyarrow")
        return importlib.machinery.ModuleSpec(name, self, is_package=True) if absent else None

    def create_module(self, spec):
        return mock.MagicMock(__spec__=spec, __path__=[], __version__="0")

    def exec_module(self, module):
        pass


sys.meta_path.insert(0, WithoutData())
