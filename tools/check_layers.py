#!/usr/bin/env python3
"""Checks that includes and names in src/colossal keep to the layers.

A folder includes itself and lower levels only. Prints each violation as file:line and the rule;
exit code 1 when there are any. Usage: tools/check_layers.py [REPOSITORY]
"""
import pathlib
import re
import sys

# Level by level, lowest first; folders of one level do not include each other.
LEVELS = [
    ["base"],
    ["io"],
    ["text", "image", "report", "ops", "comm"],
    ["nn", "mesh"],
    ["layout"],
    ["parallel"],
    ["optim", "adapters"],
    ["memory"],
    ["data"],
    ["models"],
    ["checkpoint"],
    ["job"],
    ["engine"],
    ["training"],
    ["plan", "serve"],
    ["tune", "cluster"],
    ["server"],
    ["run"],
    ["cli", "python"],
]
LEVEL_OF = {folder: level for level, folders in enumerate(LEVELS) for folder in folders}

# Lower, but not to be known: serving works without training.
FORBIDDEN = {folder: {"job", "engine", "training"} for folder in ("serve", "server")}

# These compile without LibTorch.
WITHOUT_LIBTORCH = {"base", "io", "text", "image", "report"}

# comm/ is made of it; python/ has torch.distributed's backend "colossal".
WITH_C10D = {"comm", "python"}

# A model is single-process code: of other folders, these files, and what they include of models/,
# know only those below.
MODEL_FILES = ("transformer", "transformer_block", "transformer_config")
MODEL_FOLDERS = {"base", "ops", "nn", "data"}

THIS_FILE = pathlib.Path(__file__).name
SUFFIXES = {".h", ".cpp", ".cu", ".cuh"}
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')
LIBTORCH_HEADER = re.compile(r"(ATen|torch|c10)/")
WHOLE_LIBTORCH = re.compile(r"torch/(torch|all|extension)\.h$")
LIBTORCH_NAME = re.compile(r"\b(at|torch|c10|c10d)::")
C10D = re.compile(r"\bc10d::|\bc10d/")
COMMENT_OR_STRING = re.compile(
    r"//[^\n]*|/\*.*?\*/"
    r'|R"(?P<mark>[^(\s]*)\(.*?\)(?P=mark)"|"(?:\\.|[^"\\\n])*"'
    r"|'(?:\\.|[^'\\\n])'", re.DOTALL)


def code_lines(text):
    """The lines without comments, and without strings but for those of includes."""

    def blank(match):
        line_begin = text.rfind("\n", 0, match.start()) + 1
        if match[0].startswith('"') and INCLUDE.match(text[line_begin : match.end()]):
            return match[0]
        return re.sub(r"[^\n]", " ", match[0])

    return COMMENT_OR_STRING.sub(blank, text).split("\n")


def includes(lines):
    """(line number, bracket, path) of each include."""
    for number, line in enumerate(lines, 1):
        match = INCLUDE.match(line)
        if match:
            yield number, match[1], match[2]


def folder_of(include):
    """The folder of "colossal/<folder>/..."; None for a file that lies in colossal/ itself."""
    parts = include.split("/")
    return parts[1] if len(parts) > 2 else None


def broken_include_rule(folder, bracket, include):
    if WHOLE_LIBTORCH.search(include):
        return f"<{include}> takes seconds to parse: include the headers that are used"
    if LIBTORCH_HEADER.match(include) and folder in WITHOUT_LIBTORCH:
        return f"{folder}/ does without LibTorch"
    if C10D.search(include) and folder not in WITH_C10D:
        return "only comm/ and python/ know c10d"
    if bracket == "<":
        return None
    if not include.startswith("colossal/"):
        return f'"{include}": own headers are included as "colossal/<folder>/<file>.h"'
    target = folder_of(include)
    if target is None:
        return f"{include} gathers the layers: nothing below includes it"
    if target == folder:
        return None
    if target not in LEVEL_OF:
        return f"{target}/ is in no level of {THIS_FILE}"
    if LEVEL_OF[target] >= LEVEL_OF[folder]:
        return (f"{folder}/ (level {LEVEL_OF[folder]}) includes {target}/ "
                f"(level {LEVEL_OF[target]}): only lower levels")
    if target in FORBIDDEN.get(folder, ()):
        return f"{folder}/ does not know {target}/"
    return None


def broken_name_rule(folder, line):
    if INCLUDE.match(line):
        return None
    if C10D.search(line) and folder not in WITH_C10D:
        return "only comm/ and python/ know c10d"
    if folder in WITHOUT_LIBTORCH:
        match = LIBTORCH_NAME.search(line)
        if match:
            return f"{folder}/ does without LibTorch: {match[0]}"
    return None


def model_violations(source, files):
    """What these see, directly or through other files of models/, beyond nn/."""
    for start in files:
        parts = start.split("/")
        if parts[0] != "models" or parts[-1].split(".")[0] not in MODEL_FILES:
            continue
        seen, todo = {start}, [start]
        while todo:
            name = todo.pop()
            for number, bracket, include in includes(files[name]):
                target = folder_of(include) if include.startswith("colossal/") else None
                if bracket == "<" or target is None:
                    continue
                inner = include.removeprefix("colossal/")
                if target == "models" and inner in files and inner not in seen:
                    seen.add(inner)
                    todo.append(inner)
                elif target != "models" and target not in MODEL_FOLDERS:
                    yield (source / name, number,
                           f"{start} is single-process code and sees {target}/ here: "
                           f"only {', '.join(sorted(MODEL_FOLDERS))}")


def violations(repository):
    source = pathlib.Path(repository) / "src" / "colossal"
    files = {
        path.relative_to(source).as_posix(): code_lines(path.read_text(encoding="utf-8"))
        for path in sorted(source.rglob("*")) if path.suffix in SUFFIXES
    }
    found = []
    for name, lines in files.items():
        folder = name.split("/")[0] if "/" in name else None
        if folder is None:
            continue  # a header of colossal/ itself may gather all layers
        if folder not in LEVEL_OF:
            found.append((source / name, 1, f"{folder}/ is in no level of {THIS_FILE}"))
            continue
        for number, bracket, include in includes(lines):
            rule = broken_include_rule(folder, bracket, include)
            if rule:
                found.append((source / name, number, rule))
        for number, line in enumerate(lines, 1):
            rule = broken_name_rule(folder, line)
            if rule:
                found.append((source / name, number, rule))
    found.extend(model_violations(source, files))
    return len(files), [f"{path}:{number}: {rule}" for path, number, rule in found]


def main():
    repository = sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).resolve().parents[1]
    count, found = violations(repository)
    for line in found:
        print(line)
    print(f"{count} files, {len(found)} violations of the layers")
    # Nothing found in no files would prove nothing.
    return 1 if found or count == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
