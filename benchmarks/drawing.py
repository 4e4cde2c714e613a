"""What pictures in the documentation share: letters, colours for the light and the dark, lines."""

import html

_STYLE = """
svg { --ink: #1c2530; --quiet: #566375; --grid: #dfe5ec; --paper: #ffffff; --tint: #eef4fc;
  --mark: #1d5cb8; --band: #7ba6e3; --accent: #a8500a;
  font: 13px system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", sans-serif;
  font-variant-numeric: tabular-nums; }
@media (prefers-color-scheme: dark) { svg { --ink: #e4eaf1; --quiet: #a3b1c2; --grid: #313d4c;
  --paper: #141b24; --tint: #1b2635; --mark: #8fbcff; --band: #4474b4; --accent: #f5b361; } }
text { fill: var(--ink); } .quiet { fill: var(--quiet); } .title { font-size: 22px; }
.strong { font-weight: 600; } .said { font-size: 15px; } .end { text-anchor: end; }
.middle { text-anchor: middle; } .paper { fill: var(--paper); } .tint { fill: var(--tint); }
.grid { stroke: var(--grid); } .band { stroke: var(--band); stroke-width: 12; }
.dot { fill: var(--mark); } .bracket { fill: none; stroke: var(--accent); stroke-width: 2; }
.curve { fill: none; stroke-width: 2.5; stroke-linejoin: round; }
"""


def picture(width: int, height: int, title: str, parts: list[str], style: str = "") -> str:
    """The whole drawing, which stands alone."""
    size = f'viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img">',
            f"<title>{html.escape(title)}</title>",
            f"<style>{_STYLE}{style}</style>",
            f'<rect class="paper" width="{width}" height="{height}" rx="10"/>',
            *parts,
            "</svg>",
            "",
        ]
    )


def text(x: float, y: float, words: str, kind: str = "") -> str:
    """One line of text, from its left end unless its kind says other."""
    return f'<text x="{x:.1f}" y="{y:.1f}" class="{kind}">{html.escape(words)}</text>'


def line(x1: float, y1: float, x2: float, y2: float, kind: str = "grid") -> str:
    """A straight line."""
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" class="{kind}"/>'
