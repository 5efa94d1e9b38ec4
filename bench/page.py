"""Tables as Markdown and HTML, and pages that need no network."""
import html
import statistics

STYLE = """body { font: 15px/1.5 system-ui, sans-serif; max-width: 1250px; margin: 2em auto; padding: 0 1em; color: #1c2833; background: white }
table { display: block; overflow-x: auto; border-collapse: collapse; margin: 1em 0; font-variant-numeric: tabular-nums }
th, td { padding: 3px 10px; border-bottom: 1px solid #dfe3e6; text-align: right; white-space: nowrap }
th:first-child, td:first-child { text-align: left } th { vertical-align: bottom; white-space: normal }
figure { margin: 1.2em 0 } svg { max-width: 100%; height: auto } code { background: #f2f4f4; padding: 1px 4px }"""


def spread(values):
    """(minimum, median, maximum)"""
    return min(values), statistics.median(values), max(values)


class Table:
    def __init__(self, *header):
        self.header, self.rows = header, []

    def add(self, *cells):
        assert len(cells) == len(self.header)
        self.rows.append([str(cell) for cell in cells])

    def markdown(self):
        rule = ["---"] + ["---:"] * (len(self.header) - 1)
        return "\n".join("| " + " | ".join(row) + " |" for row in [self.header, rule, *self.rows])

    def html(self):
        def row(cells, tag):
            return "<tr>" + "".join(f"<{tag}>{html.escape(cell)}</{tag}>" for cell in cells) + "</tr>"
        return "<table>" + row(self.header, "th") + "".join(row(r, "td") for r in self.rows) + "</table>"


class Page:
    """Collects headings, notes, tables and figures, and writes index.html and index.md."""

    def __init__(self, title):
        self.title, self.parts, self.text = title, [], [f"# {title}"]

    def heading(self, text):
        self.parts.append(f"<h2>{html.escape(text)}</h2>")
        self.text.append(f"## {text}")

    def note(self, text):
        self.parts.append(f"<p>{html.escape(text)}</p>")
        self.text.append(text)

    def preformatted(self, text):
        self.parts.append(f"<pre>{html.escape(text)}</pre>")
        self.text.append(f"```\n{text.rstrip()}\n```")

    def table(self, table):
        self.parts.append(table.html())
        self.text.append(table.markdown())

    def figure(self, svg):
        self.parts.append(f"<figure>{svg}</figure>")

    def markdown(self):
        return "\n\n".join(self.text) + "\n"

    def write(self, folder):
        (folder / "index.md").write_text(self.markdown())
        (folder / "index.html").write_text(
            f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{html.escape(self.title)}</title>'
            f"<style>{STYLE}</style><h1>{html.escape(self.title)}</h1>{''.join(self.parts)}</html>\n")
