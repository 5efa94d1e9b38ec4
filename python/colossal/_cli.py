"""The command colossal of an installed package: starts the program, which needs no Python."""
import os
import pathlib
import sys

from ._torch_version import installed_version, refusal, torch_folder


def main() -> None:
    """Becomes the program, with the same arguments. Without the right torch, ends with exit code 2, of wrong usage."""
    torch = torch_folder()
    problem = refusal(installed_version(torch) if torch else None)
    if torch is None or problem is not None:
        print(f"colossal: {problem}", file=sys.stderr)
        sys.exit(2)
    package = pathlib.Path(__file__).parent
    # The program looks for LibTorch and Arrow beside its package.
    for folder in (torch / "lib", torch.parent / "pyarrow"):
        if not (package.parent / folder.relative_to(torch.parent)).exists():
            _add_library_path(folder)
    program = package / "bin" / "colossal"
    os.execv(program, [str(program), *sys.argv[1:]])


def _add_library_path(folder: pathlib.Path) -> None:
    before = os.environ.get("LD_LIBRARY_PATH")
    os.environ["LD_LIBRARY_PATH"] = f"{folder}:{before}" if before else str(folder)
