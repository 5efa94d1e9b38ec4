"""Documents: links lead somewhere, lines are short, and what a program makes is what it makes today."""
import os
import pathlib
import re
import subprocess
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("COLOSSAL_BUILD", ROOT / "build"))
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("bench/**/*.md"),
                *ROOT.glob("examples/**/*.md")])
LONGEST = 120
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")


def text_lines(page):
    """(number, line) outside code."""
    inside = False
    for number, line in enumerate(page.read_text().split("\n"), 1):
        if line.lstrip().startswith("```"):
            inside = not inside
        elif not inside:
            yield number, line


def anchors(page):
    """The names by which GitHub links to the page's headings."""
    for _, line in text_lines(page):
        if line.startswith("#"):
            title = re.sub(r"[`*]", "", line.lstrip("#").strip()).lower()
            yield re.sub(r"[^\w\- ]", "", title).replace(" ", "-")


class Documents(unittest.TestCase):
    def test_links_lead_somewhere(self):
        for page in PAGES:
            for number, line in text_lines(page):
                for link in LINK.findall(re.sub(r"`[^`]*`", "", line)):
                    if "://" in link:
                        continue
                    path, _, anchor = link.partition("#")
                    target = (page.parent / path).resolve() if path else page
                    where = f"{page.relative_to(ROOT)}:{number}: {link}"
                    self.assertTrue(target.exists(), where)
                    if anchor:
                        self.assertIn(anchor, list(anchors(target)), where)

    def test_lines_are_short(self):
        for page in PAGES:
            output = False  # what a program prints stays as it is
            for number, line in enumerate(page.read_text().split("\n"), 1):
                if line.startswith("```"):
                    output = line.startswith("```console")
                if not output and not line.lstrip().startswith("|"):
                    self.assertLessEqual(len(line), LONGEST, f"{page.relative_to(ROOT)}:{number}")

    def test_every_page_is_in_the_index(self):
        index = (ROOT / "docs" / "README.md").read_text()
        for page in ROOT.glob("docs/*.md"):
            if page.name != "README.md":
                self.assertIn(f"({page.name})", index)

    def test_made_pages_are_current(self):
        for path, command in {
                "docs/configuration.md": [str(BUILD / "colossal"), "config"],
                "docs/architecture/overview.svg": [sys.executable, str(ROOT / "tools/draw_architecture.py")]}.items():
            made = subprocess.run(command, capture_output=True, text=True, check=True).stdout
            self.assertEqual((ROOT / path).read_text(), made, f"write {path} again: {' '.join(command)} > {path}")

    def test_the_messages_that_it_explains_are_the_programs(self):
        messages = literals()
        for _, line in text_lines(ROOT / "docs/troubleshooting.md"):
            if not line.startswith("| `"):
                continue
            for message in re.findall(r"`([^`]+)`", line.split("|")[1]):
                windows = [message[at : at + KNOWN] for at in range(len(message) - KNOWN + 1)]
                self.assertTrue(any(window in messages for window in windows), f"no source says: {message}")


KNOWN = 16  # characters of a message that a source must have in a row; what stands in for values is between them


def literals():
    """The strings of the sources, one a line; adjacent ones are one."""
    several = re.compile(r'(?:"(?:\\.|[^"\\\n])*"\s*)+')
    one = re.compile(r'"((?:\\.|[^"\\\n])*)"')
    return "\n".join("".join(one.findall(match[0])).replace('\\"', '"')
                     for source in (ROOT / "src").rglob("*.cpp") for match in several.finditer(source.read_text()))


if __name__ == "__main__":
    unittest.main()
