"""The best method for several winners: look, let the rule decide, take that route.

All of it is one release that costs ε: what the look takes, what selects and what measures add up to
it exactly on every route. The look is released too.
"""

from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from typing import Any

from dpgap.exact.grid import Grid
from dpgap.exact.reals import Floats, Integers
from dpgap.mechanisms.measuring import CountHull, Cube, Joint
from dpgap.mechanisms.top_k import Candidates, NoisyTopK
from dpgap.pipelines.routes import Facts, JointRoute, RankedRoute
from dpgap.pipelines.rule import Rule, Terms, ranks_for, terms_for
from dpgap.releases.drawn import Measuring, Values
from dpgap.releases.release import Measured, MechanismUsed


@dataclass(frozen=True, slots=True, eq=False)
class LookFirst:
    """Look with a small part of ε, then take one of the routes; at least 2 winners."""

    epsilon: Fraction
    measurement: Joint
    """What looks."""
    routes: tuple[RankedRoute | JointRoute, ...]
    """Ranked first, then sets by the share of ε that chooses them."""
    terms: Terms

    @classmethod
    def of(cls, facts: Facts, epsilon: Fraction, split: Fraction | None) -> "LookFirst":
        """How the best method does it. A `split` is the share that selects on whichever route."""
        terms = terms_for(facts.k)
        if split is not None:
            if split + terms.look >= 1:
                raise ValueError(
                    f"split must be below {float(1 - terms.look)} for method='best', "
                    f"which looks with {float(terms.look)} of ε first"
                )
            terms = terms._replace(set_shares=(split,), rank_share=split)
        left = 1 - terms.look
        ranked = RankedRoute.of(facts, *_parts(epsilon, terms.rank_share, left))
        sets = (JointRoute.of(facts, *_parts(epsilon, each, left)) for each in terms.set_shares)
        looking = _measuring(ranked.selection, terms.look * epsilon)
        return cls(epsilon, looking, (ranked, *sets), terms)

    def draw_paid(self, candidates: Candidates) -> Measuring[Any]:
        """Look, then take the route that follows; the caller has paid."""
        looked = self.look(candidates)
        route = self.route(looked, candidates.size)
        drawn = self.routes[route].draw_paid(candidates)
        return replace(drawn, looked=looked, among=candidates.size, route=route)

    def build(self, drawn: Measuring[Any], method: str) -> Measured:
        """The release of what was drawn: that of its route, with the look."""
        release = self.routes[drawn.route or 0].build(drawn, method)
        ranks = ranks_for(self.routes[0].k, drawn.among or 0)
        looked = self.measurement.lengths(drawn.looked).tolist()
        return replace(
            release,
            epsilon=self.epsilon,
            spent=self.epsilon,
            promise=release.promise._replace(epsilon=self.epsilon),
            mechanisms=(MechanismUsed.of(self.measurement), *release.mechanisms),
            parts=(("look", self.measurement.epsilon), *release.parts),
            looked=tuple(zip(ranks, looked, strict=True)),
        )

    def look(self, candidates: Candidates) -> Values:
        """Measure the answers at a few ranks; the caller has paid."""
        ranks = ranks_for(self.routes[0].k, candidates.size)
        return self.measurement.draw_paid(candidates.at_ranks(ranks))

    def route(self, looked: Values, n: int) -> int:
        """The number of the route to take among n answers: a function of the look alone."""
        return int(self.decide(self.measurement.lengths(looked)[None], n)[0])

    def decide(self, looks: Floats, n: int) -> Integers:
        """For every row of looks, which of the routes."""
        return self.rule(n).decide(looks)

    def rule(self, n: int) -> Rule:
        """What decides among n answers, more than there are winners."""
        return _rule(self, n)


@lru_cache(maxsize=64)  # parameters, and how many answers there are, are public
def _rule(looking: LookFirst, n: int) -> Rule:
    selection, measurement = looking.routes[0].selection, looking.measurement
    ranks = ranks_for(selection.k, n)
    doubled = 1 if selection.monotonic else 2
    return Rule(
        k=selection.k,
        n=n,
        ranks=ranks,
        noise=measurement.law(len(ranks)),
        unit=float(doubled * measurement.sensitivity / looking.epsilon),
        terms=looking.terms,
    )


def _measuring(selection: NoisyTopK, epsilon: Fraction) -> Joint:
    """What looks, on the answers' own grid: a look need not be fine."""
    grid = selection.grid
    whole = Grid(grid).up(selection.sensitivity) * Grid(grid).step
    if selection.monotonic:
        return CountHull(epsilon, monotonic=True, sensitivity=whole, grid=grid)
    return Cube(epsilon, sensitivity=whole, grid=grid)


def _parts(epsilon: Fraction, select: Fraction, left: Fraction) -> tuple[Fraction, Fraction]:
    """ε for selecting, and what is then left for measuring."""
    return select * epsilon, (left - select) * epsilon
