"""Charts of benchmark results as SVG."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

COLORS = ("#4477aa", "#66ccee", "#228833", "#ccbb44", "#ee6677", "#aa3377", "#bbbbbb")


def bars(rows: Sequence[tuple[str, Mapping[str, float], float]]) -> str:
    """A bar for each row, split into parts.

    Args:
      rows: name, seconds by part, and the seconds that are written behind the bar.
    """
    names = list(dict.fromkeys(name for _, parts, _ in rows for name in parts))
    longest = max(sum(parts.values()) for _, parts, _ in rows) or 1.0
    # As wide as the longest name needs.
    begin = max(60.0, 8 + 6.5 * max(len(label) for label, _, _ in rows))
    drawn = []
    for row, (label, parts, seconds) in enumerate(rows):
        left, top = begin, 10 + 24 * row
        drawn.append(f'<text x="4" y="{top + 14}">{escape(label)}</text>')
        for name, part in parts.items():
            width = 640 * part / longest
            title = f"<title>{escape(name)}: {part:.1f} s</title>"
            place = f'x="{left:.1f}" y="{top}" width="{width:.1f}" height="18"'
            drawn.append(f'<rect {place} fill="{_color(names.index(name))}">{title}</rect>')
            left += width
        text = f"{seconds:.0f} s" if seconds >= 10 else f"{seconds:.1f} s"
        drawn.append(f'<text x="{left + 4:.1f}" y="{top + 14}">{text}</text>')
    bottom = 24 * len(rows) + 18
    return _picture(int(begin) + 720, bottom + 22, drawn + _legend(names, int(begin), bottom))


def lines(series: Mapping[str, Mapping[int, float]], unit: str) -> str:
    """A line for each series of seconds.

    Args:
      series: name to seconds by whole number.
      unit: what the whole numbers count: "layers".
    """
    across = [x for points in series.values() for x in points]
    most_x, most_y = max(across), max(y for p in series.values() for y in p.values()) or 1.0
    left, top, width, height = 60, 20, 560, 300

    def place(x: float, y: float) -> str:
        return f"{left + width * x / most_x:.1f},{top + height * (1 - y / most_y):.1f}"

    frame = f"M{left},{top} V{top + height} H{left + width}"
    drawn = [f'<path d="{frame}" fill="none" stroke="#888888"/>']
    for x in sorted(set(across)):
        middle = left + width * x / most_x
        drawn.append(f'<text x="{middle:.1f}" y="336" text-anchor="middle">{x}</text>')
    drawn.append(f'<text x="{left + width}" y="352" text-anchor="end">{escape(unit)}</text>')
    drawn.append(f'<text x="4" y="{top + 4}">{most_y:.1f} s</text>')
    for number, (name, points) in enumerate(series.items()):
        path = " ".join(place(x, y) for x, y in sorted(points.items()))
        title = f"<title>{escape(name)}</title>"
        style = f'fill="none" stroke-width="2" stroke="{_color(number)}"'
        drawn.append(f'<polyline points="{path}" {style}>{title}</polyline>')
    return _picture(780, 400, drawn + _legend(list(series), left, 366))


def _legend(names: Sequence[str], left: int, top: int) -> list[str]:
    drawn, x = [], left
    for number, name in enumerate(names):
        drawn.append(
            f'<rect x="{x}" y="{top}" width="10" height="10" fill="{_color(number)}"/>'
            f'<text x="{x + 14}" y="{top + 9}">{escape(name)}</text>'
        )
        x += max(80, 24 + 7 * len(name))
    return drawn


def _color(number: int) -> str:
    return COLORS[number % len(COLORS)]


def _picture(width: int, height: int, drawn: Sequence[str]) -> str:
    size = f'width="{width}" height="{height}"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="sans-serif" '
    return head + 'font-size="12">\n' + "\n".join(drawn) + "\n</svg>\n"
