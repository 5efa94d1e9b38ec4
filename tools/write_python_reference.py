#!/usr/bin/env python3
"""Writes docs/python-reference.md: the public names of the Python package, with their signatures and what they say of themselves.

  PYTHONPATH=build/python .venv/bin/python tools/write_python_reference.py [--check]
"""
import importlib
import inspect
import pathlib
import re
import sys
import textwrap

PAGE = pathlib.Path(__file__).resolve().parents[1] / "docs" / "python-reference.md"
MODULES = {
    "colossal": None,  # all public names
    "colossal.transformers": ["Trainer"],
}
HEAD = """# Python reference

What `help()` says of the public names of the package; [python.md](python.md) introduces them. Written by
`tools/write_python_reference.py`.
"""


WIDTH = 120


def signature_of(name, value, indent=""):
    """name(parameters) -> result; one parameter a line if it is long"""
    try:
        signature = inspect.signature(value)
    except (TypeError, ValueError):
        return indent + name
    whole = f"{indent}{name}{signature}".replace("~", "").removesuffix(" -> None")
    if len(whole) <= WIDTH:
        return whole
    parameters = re.split(r", (?=[*\w]+(?::|=|,|$))", str(signature.replace(return_annotation=inspect.Signature.empty))[1:-1])
    result = "" if signature.return_annotation is inspect.Signature.empty else " -> " + inspect.formatannotation(signature.return_annotation)
    inside = f",\n{indent}        ".join(parameters)
    return f"{indent}{name}(\n{indent}        {inside}){result}".replace("~", "").removesuffix(" -> None")


def indented(text, indent):
    """The lines of a text; those that are too long for a page go on below."""
    lines = []
    for line in text.splitlines():
        hanging = indent + " " * (len(line) - len(line.lstrip()) + 4)
        lines += textwrap.wrap(indent + line, WIDTH, subsequent_indent=hanging) if len(indent + line) > WIDTH else [indent + line]
    return [line.rstrip() for line in lines]


def described(name, value):
    """A block of text: the signature, and what follows from it."""
    text = inspect.cleandoc(vars(value).get("__doc__") or "") if inspect.isclass(value) else inspect.getdoc(value) or ""
    shown = name if inspect.isclass(value) and issubclass(value, BaseException) else signature_of(name, value)
    lines = [shown, *indented(text, "    ")]
    if inspect.isclass(value) and not issubclass(value, BaseException):
        for each, member in vars(value).items():
            if each.startswith("_") or not inspect.isfunction(member) or not member.__doc__:
                continue
            lines += ["", signature_of(each, member, "    "), *indented(inspect.getdoc(member), "        ")]
    return "\n".join(lines)


def page():
    parts = [HEAD]
    for module_name, names in MODULES.items():
        module = importlib.import_module(module_name)
        parts.append(f"## {module_name}\n")
        for name in names or sorted(module.__all__, key=str.lower):
            value = getattr(module, name)
            parts.append(f"### {name}\n\n```text\n{described(name, value)}\n```\n")
    return "\n".join(parts)


if __name__ == "__main__":
    text = page()
    if "--check" in sys.argv[1:]:
        if PAGE.read_text() != text:
            raise SystemExit(f"{PAGE} is not what the package says of itself: run tools/write_python_reference.py")
    else:
        PAGE.write_text(text)
