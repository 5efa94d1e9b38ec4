"""Plots as SVG text, by the standard library alone: bars with whiskers, and lines on linear or
logarithmic axes. A point is (minimum, median, maximum)."""
import html
import math

COLOURS = ["#c0392b", "#2471a3", "#229954", "#8e44ad", "#b9770e", "#17a589", "#5d6d7e"]
GRID, TEXT, FAINT = "#dfe3e6", "#1c2833", "#566573"


def text(x, y, text, anchor="start", size=12, colour=TEXT, extra=""):
    return (f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}" '
            f'fill="{colour}" {extra}>{html.escape(text)}</text>')


def line(x1, y1, x2, y2, colour=GRID, width=1.0, extra=""):
    return (f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{colour}" '
            f'stroke-width="{width}" {extra}/>')


def svg(width, height, parts):
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
            f'width="{width}" height="{height}" font-family="system-ui, sans-serif">'
            f'<rect width="{width}" height="{height}" fill="white"/>{"".join(parts)}</svg>')


def number(value):
    """Three digits: 0.0123, 1.23, 123, 1,230"""
    if value == 0:
        return "0"
    digits = max(0, 2 - math.floor(math.log10(abs(value))))
    text = f"{value:,.{digits}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def duration(seconds):
    for unit, scale in (("s", 1), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= scale:
            break
    return f"{number(seconds / scale)} {unit}"


def data_size(count):
    for unit, scale in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10), ("B", 1)):
        if count >= scale:
            break
    return f"{number(count / scale)} {unit}"


def _nice_ticks(low, high, count=6):
    step = 10 ** math.floor(math.log10((high - low) / count))
    step *= next(m for m in (1, 2, 5, 10) if (high - low) / (m * step) <= count)
    first = math.ceil(low / step - 1e-9)
    return [i * step for i in range(first, math.floor(high / step + 1e-9) + 1)]


def _log_ticks(low, high):
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    for multiples in ((1,), (1, 3), (1, 2, 5), range(1, 10)):
        ticks = [m * 10**d for d in decades for m in multiples]
        ticks = [t for t in ticks if low * 0.999 <= t <= high * 1.001]
        if len(ticks) >= 3:
            break
    return ticks


class _Axis:
    """Maps values to pixels."""

    def __init__(self, values, begin, end, log, ticks=None):
        self.log = log
        if log:
            low, high = min(values), max(values)
            # at least a factor of 8, so that noise about a constant looks like what it is
            room = max((high / low) ** 0.05, (8 * low / high) ** 0.5)
            self.low, self.high = low / room, high * room
            self.ticks = ticks or _log_ticks(self.low, self.high)
        else:
            self.low, self.high = min(0, *values), max(values) * 1.05 or 1
            self.ticks = ticks or _nice_ticks(self.low, self.high)
        self.begin, self.end = begin, end

    def __call__(self, value):
        scale = math.log if self.log else (lambda x: x)
        part = (scale(value) - scale(self.low)) / (scale(self.high) - scale(self.low))
        return self.begin + part * (self.end - self.begin)


def bars(title, axis_name, rows, highlight="ours", reference=None, show=number, left=130, width=760):
    """rows: [(label, (minimum, median, maximum))], one horizontal bar each; reference: a value with
    a vertical line of its own."""
    right, top, row_height = 90, 34, 26
    bottom = top + row_height * len(rows)
    values = [v for _, point in rows for v in point] + ([reference] if reference else [])
    axis = _Axis(values, left, width - right, log=False)
    parts = [text(8, 20, title, size=14, extra='font-weight="600"')]
    for tick in axis.ticks:
        parts.append(line(axis(tick), top, axis(tick), bottom))
        parts.append(text(axis(tick), bottom + 16, show(tick), "middle", 11, FAINT))
    parts.append(text((left + width - right) / 2, bottom + 34, axis_name, "middle", 12, FAINT))
    for index, (label, (low, median, high)) in enumerate(rows):
        y = top + row_height * (index + 0.5)
        colour = COLOURS[0] if label.startswith(highlight) else COLOURS[1]
        parts.append(f'<rect x="{left}" y="{y - 8:.1f}" height="16" fill="{colour}" '
                     f'width="{max(0.5, axis(median) - left):.1f}" fill-opacity="0.85"/>')
        if high > low:
            parts.append(line(axis(low), y, axis(high), y, TEXT, 1.5))
            parts += [line(axis(v), y - 4, axis(v), y + 4, TEXT, 1.5) for v in (low, high)]
        parts.append(text(left - 8, y + 4, label, "end"))
        parts.append(text(axis(high) + 6, y + 4, show(median), size=11))
    if reference:
        parts.append(line(axis(reference), top, axis(reference), bottom, TEXT, 1.5,
                           'stroke-dasharray="4 3"'))
    return svg(width, bottom + 44, parts)


def lines(title, x_name, y_name, series, log_x=True, log_y=True, show_x=number, show_y=number,
          x_ticks=None, width=760, height=380):
    """series: [(name, [(x, (minimum, median, maximum))], dashed)]; with the legend on the right."""
    left, right, top, bottom = 84, 190, 34, height - 56
    points = [point for _, values, _ in series for point in values]
    x_axis = _Axis([x for x, _ in points], left, width - right, log_x, x_ticks)
    y_axis = _Axis([v for _, y in points for v in y], bottom, top, log_y)
    parts = [text(8, 20, title, size=14, extra='font-weight="600"')]
    for tick in y_axis.ticks:
        parts.append(line(left, y_axis(tick), width - right, y_axis(tick)))
        parts.append(text(left - 6, y_axis(tick) + 4, show_y(tick), "end", 11, FAINT))
    for tick in x_axis.ticks:
        parts.append(line(x_axis(tick), top, x_axis(tick), bottom))
        parts.append(text(x_axis(tick), bottom + 16, show_x(tick), "middle", 11, FAINT))
    parts.append(text((left + width - right) / 2, height - 18, x_name, "middle", 12, FAINT))
    middle = (top + bottom) / 2
    parts.append(text(16, middle, y_name, "middle", 12, FAINT, f'transform="rotate(-90 16 {middle})"'))
    solid = 0
    for index, (name, values, dashed) in enumerate(series):
        colour = FAINT if dashed else COLOURS[solid % len(COLOURS)]
        solid += not dashed
        dash = 'stroke-dasharray="6 4"' if dashed else ""
        path = " ".join(f"{x_axis(x):.1f},{y_axis(y[1]):.1f}" for x, y in values)
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2" {dash}/>')
        for x, (low, median, high) in values if not dashed else []:
            parts.append(line(x_axis(x), y_axis(low), x_axis(x), y_axis(high), colour, 1.5))
            parts.append(f'<circle cx="{x_axis(x):.1f}" cy="{y_axis(median):.1f}" r="3.5" fill="{colour}"/>')
        y = top + 10 + 20 * index
        parts.append(line(width - right + 14, y, width - right + 38, y, colour, 2, dash))
        parts.append(text(width - right + 44, y + 4, name))
    return svg(width, height, parts)
