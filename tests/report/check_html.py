"""Exits 1 unless the page is well formed: tags balance, ids are unique, nothing is fetched.

Prints the page's visible text."""
import html.parser
import json
import sys

VOID = {"meta", "br", "hr", "img", "input", "link"}
SELF_CLOSING = {"line", "path", "circle", "rect"}
FETCHING = {"src", "href", "srcset", "action", "data", "poster", "xlink:href"}
RAW = {"script", "style"}


class Checker(html.parser.HTMLParser):
    def __init__(self):
        super().__init__(convert_charrefs=True)
        self.open = []
        self.text = []
        self.json = False

    def handle_starttag(self, tag, attributes):
        names = [name for name, _ in attributes]
        assert len(names) == len(set(names)), f"{tag}: attribute given twice: {names}"
        fetching = [(name, value) for name, value in attributes if name in FETCHING]
        inside = tag == "img" and all(value.startswith("data:image/") for _, value in fetching)
        assert inside or not fetching, f"{tag} fetches: {attributes}"
        assert not any(name.startswith("on") for name in names), f"{tag}: {attributes}"
        if tag not in VOID:
            self.open.append(tag)
        self.json = tag == "script" and ("type", "application/json") in attributes

    def handle_startendtag(self, tag, attributes):
        assert tag in SELF_CLOSING, f"<{tag}/> is not closed in HTML"
        self.handle_starttag(tag, attributes)
        self.open.pop()

    def handle_endtag(self, tag):
        assert self.open and self.open[-1] == tag, f"</{tag}> closes {self.open} at {self.getpos()}"
        self.open.pop()

    def handle_data(self, data):
        if self.open and self.open[-1] in RAW:
            if self.json:
                json.loads(data)
        else:
            self.text.append(data)


page = open(sys.argv[1], "rb").read().decode()  # UTF-8, or it fails
checker = Checker()
checker.feed(page)
checker.close()
assert not checker.open, f"left open: {checker.open}"
assert "@import" not in page and "url(" not in page
print(" ".join(" ".join(checker.text).split()))
