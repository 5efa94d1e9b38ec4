"""The versions of torch that this build works with. What is asked without importing torch, which takes a second."""
import importlib.util
import pathlib
import re

REQUIRED = "2.13"  # pyproject.toml says so, too


def torch_folder() -> pathlib.Path | None:
    """Where the package torch is installed, if it is."""
    spec = importlib.util.find_spec("torch")
    places = spec.submodule_search_locations if spec else None
    return pathlib.Path(next(iter(places))) if places else None


def installed_version(folder: pathlib.Path) -> str:
    """The version that a torch folder says it has."""
    found = re.search(r"^__version__ = ['\"](.+)['\"]", (folder / "version.py").read_text(), re.MULTILINE)
    return found[1] if found else "of unknown version"


def refusal(version: str | None) -> str | None:
    """What is wrong with a version of torch (None: there is none); None if it is right."""
    if version is not None and re.split(r"[.+]", version)[:2] == REQUIRED.split("."):
        return None
    found = "no torch" if version is None else f"torch {version}"
    return (f"this build of colossal needs torch {REQUIRED}.*, and {found} is installed; "
            f"install torch=={REQUIRED}.*, or the build of colossal for your torch")
