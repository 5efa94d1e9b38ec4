#!/usr/bin/env python3
"""Prints python/colossal/configuration.py: the keys of run.toml as types, for editors and type checkers.

Needs the built package: PYTHONPATH=build/python tools/write_configuration_types.py > python/colossal/configuration.py
"""
import re
import textwrap

import torch  # noqa: F401  (its libraries are those of the package)

from colossal._core import key_helps, tuning_methods

TYPES = [(r"true or false", "bool"), (r"a list of whole numbers", "list[int]"), (r"a list of numbers", "list[float]"),
         (r"a list of strings", "str | list[str]"), (r"a list of tables", "list[dict[str, Any]]"),
         (r"a table of numbers", "dict[str, float]"), (r"a whole number", "int"), (r"a number", "float"), (r"a string", "str"),
         (r"a size", "int | str"), (r"a duration", "float | str")]
OPEN = "model"  # this section takes any field of config.json, too
WIDTH = 126


def words(text):
    return "Literal[" + ", ".join(f'"{word}"' for word in text.split(", ")) + "]"


def type_of(values):
    if values.startswith("one of: "):
        return words(values[len("one of: "):])
    if values.startswith("a list of: "):
        return f"str | list[{words(values[len('a list of: '):])}]"
    values, _, other = re.sub(", or one of: ", ", or ", values).partition(", or ")
    found = next((name for pattern, name in TYPES if re.match(pattern, values)), None)
    if found is None:
        raise SystemExit(f"no type for \"{values}\": add it to TYPES")
    return f"{found} | {words(other)}" if other else found


def all_keys():
    """{section: {name: ([types], help)}}, of training and of all tuning methods."""
    sections = {}
    for method in ["", *tuning_methods()]:
        for key, _, _, values, text in key_helps(method):
            section, name = key.split(".", 1)
            types, _ = sections.setdefault(section, {}).setdefault(name, ([], text))
            if type_of(values) not in types:
                types.append(type_of(values))
    return sections


def class_of(section):
    return "".join(word.capitalize() for word in section.split("_"))


def field(name, types, text):
    if len(types) > 1:  # tuning methods take different words
        types, text = ["str | list[str]"], "Depends on the method: docs/tuning.md has its values."
    comment = textwrap.wrap(text, WIDTH, initial_indent="    # ", subsequent_indent="    # ", break_on_hyphens=False)
    return "\n".join([*comment, *textwrap.wrap(f"{name}: {types[0]}", WIDTH, initial_indent="    ", subsequent_indent=" " * 8)])


def main():
    print('"""The keys of run.toml, as train(), tune() and plan() take them. Made by tools/write_configuration_types.py."""')
    print("from typing import Any, Literal, TypedDict")
    sections = all_keys()
    for section, keys in sections.items():
        print(f"\n\nclass {class_of(section)}(TypedDict, total=False):")
        print("\n".join(field(name, types, text) for name, (types, text) in keys.items()))
    print("\n\nclass Configuration(TypedDict, total=False):")
    for section in sections:
        more = " | dict[str, Any]" if section == OPEN else ""
        print(f"    {section}: {class_of(section)}{more}")


if __name__ == "__main__":
    main()
