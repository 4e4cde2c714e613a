"""Rows that every engine must count alike: NULL, empty and odd text, repeated pairs."""

ROWS: list[tuple[str | None, str | None]] = [
    ("ann", "fig"),
    ("ann", "fig"),
    ("ann", "pea"),
    ("bob", "fig"),
    ("bob", None),
    (None, "fig"),
    (None, None),
    ("cy", ""),
    ("cy", "žluťoučký 🍐"),
    ("dee", "žluťoučký 🍐"),
    ("", "pea"),
    ("dee", "not in the domain"),
    ("ČENĚK", "Fig"),
]
