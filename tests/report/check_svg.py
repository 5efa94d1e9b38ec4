"""Exits 1 unless the file is well-formed SVG whose rectangles and texts lie in its view box and
that fetches nothing. Prints how many rectangles and titles it has."""
import sys
import xml.etree.ElementTree

SVG = "{http://www.w3.org/2000/svg}"
text = open(sys.argv[1], "rb").read().decode()
root = xml.etree.ElementTree.fromstring(text)
assert root.tag == SVG + "svg", root.tag
assert "url(" not in text and "href" not in text and "<script" not in text

left, top, width, height = (float(number) for number in root.get("viewBox").split())
rectangles = list(root.iter(SVG + "rect"))
for element in rectangles + list(root.iter(SVG + "text")):
    x, y = float(element.get("x", 0)), float(element.get("y", 0))
    right, bottom = x + float(element.get("width", 0)), y + float(element.get("height", 0))
    assert left <= x and right <= left + width and top <= y and bottom <= top + height, element.attrib
print(f"{len(rectangles)} rectangles, {len(list(root.iter(SVG + 'title')))} titles")
