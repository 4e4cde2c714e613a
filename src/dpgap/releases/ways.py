"""How a top k was found, in words: the route, and what each step on it took of ε."""

from fractions import Fraction

from dpgap.exact.parameters import readable

METHODS = ("best", "joint", "ranked", "paper")
"""What may be asked for; the best method takes a route."""
HISTOGRAM = "histogram"
"""What may be asked for as well, where a unit has a bounded reach."""
ROUTES = ("joint", "ranked", "paper", HISTOGRAM, "hybrid")
"""How answers may be found: as one set, ranked, as in the paper; read off a histogram; or unknown
ones above a line."""


def way_in_words(route: str | None, shares: dict[str, Fraction], lead: float | None) -> str:
    """The route, the share of ε that each step took, and how far a set leads; nothing if none.

    >>> way_in_words("joint", {"look": Fraction("0.05"), "select": Fraction("0.15")}, 12.5)
    '0.05 of ε to look; joint: 0.15 of ε to select. As a set they lead every other by 12.5.'
    """
    if route is None:
        return ""
    said = {step: f"{readable(part)} of ε to {step}" for step, part in shares.items()}
    look = f"{said.pop('look')}; " if "look" in said else ""
    if route == HISTOGRAM:
        return f"{look}histogram: every item got its own noise, and the largest were read off."
    leads = "" if lead is None else f" As a set they lead every other by {lead:.1f}."
    return f"{look}{route}: {', '.join(said.values())}.{leads}"
