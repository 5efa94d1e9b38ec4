#!/usr/bin/env python3
"""Adds the licenses of the libraries that auditwheel has put into a wheel: Debian's texts, to the wheel's license files.
Usage: tools/add_licenses.py WHEEL FOLDER, which writes the wheel to the folder. Needs the package `wheel`."""
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

ADDED_NAME = re.compile(r"(.+?)-[0-9a-f]{8}(\.so.*)")  # auditwheel's names: libfmt-6cae4bd5.so.9.1.0


def debian_package(library):
    """The Debian package with a library, which may lie in another folder than the package says (/lib is /usr/lib)."""
    name = ADDED_NAME.sub(r"\1\2", library)
    found = subprocess.run(["dpkg-query", "--search", f"*/{name}"], capture_output=True, text=True, check=False)
    if found.returncode:
        sys.exit(f"{library} in the wheel is of no Debian package, so that its license is not known: {found.stderr.strip()}")
    return found.stdout.split(":")[0]


def main():
    wheel, folder = map(pathlib.Path, sys.argv[1:])
    with tempfile.TemporaryDirectory() as temporary:
        subprocess.run([sys.executable, "-m", "wheel", "unpack", "--dest", temporary, wheel], check=True, stdout=subprocess.DEVNULL)
        [unpacked] = pathlib.Path(temporary).iterdir()
        [licenses] = unpacked.glob("*.dist-info/licenses")
        for package in sorted({debian_package(library.name) for library in unpacked.glob("*.libs/*")}):
            shutil.copyfile(f"/usr/share/doc/{package}/copyright", licenses / f"{package}.txt")
        subprocess.run([sys.executable, "-m", "wheel", "pack", "--dest-dir", folder, unpacked], check=True)


if __name__ == "__main__":
    main()
