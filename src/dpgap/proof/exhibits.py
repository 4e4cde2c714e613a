"""The catalogue of the museum: each mechanism, how to prove or refute it, and what damns it."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from dpgap.exact.laws import ExponentialNoise, LaplaceNoise, Law, Scalar
from dpgap.mechanisms.measuring.count_hull import CountHull
from dpgap.mechanisms.sparse_vector.mechanism import SparseVector
from dpgap.mechanisms.top_k.mechanism import NoisyTopK
from dpgap.proof import museum
from dpgap.proof.joint_audits import MOST, chances
from dpgap.proof.quadrature import exceeds, integrated

MUTANT, ACCEPT = "mutant", "accept"

_FAR = 1000
"""A threshold that no noise reaches."""


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happens more than e times as often on the answers as on their neighbour.

    `chance` computes its probability; it is given where sampling would take too long.
    """

    answers: tuple[int, ...]
    neighbour: tuple[int, ...]
    happens: Callable[[Any], bool]
    chance: Callable[[Sequence[int]], float] | None = None
    on_grid: bool = False
    samples: int = 1_000_000
    """How many make it certain to be seen, half of them on each side."""


@dataclass(frozen=True, slots=True)
class Exhibit:
    """A mechanism with the verdict that it must get."""

    name: str
    kind: str
    mechanism: Any
    n: int
    k: int
    event: Event | None = None
    how: Mapping[str, Any] = field(default_factory=dict)
    """Further arguments of the proof."""

    @property
    def variant(self) -> str:
        """Which neighbours it is judged on."""
        return str(self.how.get("neighbours", "general"))


def _laplace(scale: int | Fraction) -> Law:
    return LaplaceNoise(Fraction(scale))


def _said(
    wanted: Sequence[int], fits: Callable[[Scalar], Any] = lambda number: True
) -> Callable[[Iterable[Any]], bool]:
    """Whether outcomes are exactly as wanted, 0 for below, with numbers that fit where above."""

    def happens(output: Iterable[Any]) -> bool:
        seen = 0
        for (branch, number), want in zip(output, wanted, strict=False):
            if int(branch or 0) != want or (want and not fits(number)):
                return False
            seen += 1
        return seen == len(wanted)

    return happens


def _low_then_high(output: Iterable[Any], lows: int) -> bool:
    """Whether gaps released below a far threshold are first low, then high."""
    return all(
        not above and bool(gap + _FAR >= 0) == (at >= lows)
        for at, (above, gap) in enumerate(output)
    )


def _is_not_positive(number: Scalar) -> Any:
    return number <= 0


def _values_low(answers: Sequence[int]) -> float:
    """All below the threshold, scales 2 and 4; then a value that is above it but not above 0."""
    *below, last = answers

    def given(threshold: Any) -> Any:
        chance = exceeds(threshold - last, 4) - exceeds(-last, 4)
        for answer in below:
            chance = chance * (1 - exceeds(threshold - answer, 4))
        return chance * (threshold <= 0)

    return integrated(given, 2)


def _leaks_low_then_high(answers: Sequence[int]) -> float:
    half = len(answers) // 2

    def given(threshold: Any) -> Any:
        chance = 1.0
        for at, answer in enumerate(answers):
            above = exceeds(threshold - answer, 8)
            chance = chance * (above if at >= half else 1 - above)
        return chance

    return integrated(given, 2)


def _below_then_two_above(answers: Sequence[int]) -> float:
    """Scales 2 and 4."""

    def given(threshold: Any) -> Any:
        chance = 1.0
        for at, answer in enumerate(answers):
            above = exceeds(threshold - answer, 4)
            chance = chance * (above if at >= len(answers) - 2 else 1 - above)
        return chance

    return integrated(given, 2)


def _moved(*runs: tuple[int, int]) -> tuple[int, ...]:
    """So many answers of each value."""
    return tuple(value for value, times in runs for _ in range(times))


def _mutant(name: str, mechanism: Any, n: int, event: Event, *, k: int = 1, **how: Any) -> Exhibit:
    return Exhibit(name, MUTANT, mechanism, n, k, event, how)


def mutants() -> list[Exhibit]:
    """What must be refuted."""
    two, four = _laplace(2), _laplace(4)
    return [
        _mutant(
            "sparse vector releasing the value",
            museum.ValueForAbove(two, two),
            2,
            Event(
                _moved((0, 6)),
                _moved((1, 5), (-1, 1)),
                _said([0] * 5 + [1], _is_not_positive),
                samples=20_000_000,
            ),
        ),
        _mutant(
            "sparse vector releasing the value, right scale",
            museum.ValueForAbove(two, four),
            2,
            Event(
                _moved((0, 11)),
                _moved((1, 10), (-1, 1)),
                _said([0] * 10 + [1], _is_not_positive),
                _values_low,
            ),
        ),
        _mutant(
            "answer noise not scaled by k",
            museum.IndicesOnly(four, _laplace(Fraction(4, 3)), stop=3),
            3,
            Event(_moved((0, 5)), _moved((1, 2), (-1, 3)), _said([0, 0, 1, 1, 1])),
            k=3,
        ),
        _mutant(
            "no answer noise",
            museum.NoAnswerNoise(two, four),
            2,
            Event((0, 1), (1, 0), _said([0, 1])),
        ),
        _mutant(
            "one draw for all answers",
            museum.OneDrawForAll(two, four),
            2,
            Event((0, 1), (1, 0), _said([0, 1])),
        ),
        _mutant(
            "never stops paying",
            museum.IndicesOnly(two, two, stop=None),
            2,
            Event(_moved((0, 6)), _moved((1, 3), (-1, 3)), _said([0, 0, 0, 1, 1, 1])),
        ),
        _mutant(
            "noisy max releasing the value",
            museum.ValueOfMax(),
            3,
            Event(_moved((0, 5)), _moved((1, 5)), lambda output: output[1] <= 0),
        ),
        _mutant(
            "noisy max at scale 1/ε",
            museum.unscaled_max(),
            3,
            Event(_moved((0, 5)), _moved((-1, 1), (1, 4)), lambda output: output[0] == (0,)),
        ),
        _mutant(
            "top-k at the scale of noisy max",
            museum.unscaled_top_k(),
            3,
            Event(_moved((0, 4)), _moved((-1, 2), (1, 2)), lambda output: set(output[0]) == {0, 1}),
            k=2,
        ),
        _mutant(
            "noisy max naming the runner-up",
            museum.Max(aligned=2),
            3,
            Event(_moved((0, 6)), _moved((-1, 2), (1, 4)), lambda output: set(output[0]) == {0, 1}),
        ),
        _mutant(
            "gap from the winner's own true answer",
            museum.OwnNoise(),
            3,
            Event(
                _moved((0, 5)),
                _moved((-1, 1), (1, 4)),
                lambda output: output[0] == (0,) and output[1] <= 0,
            ),
        ),
        _mutant(
            "gap from the runner-up's true answer",
            museum.TrueRunnerUp(),
            3,
            Event(
                _moved((0, 4)),
                (0, -1, 1, 1),
                lambda output: output[0] == (0,) and output[1][0] == 1 and output[1][1] <= 0,
            ),
        ),
        _mutant(
            "gaps below the threshold too",
            museum.GapsBelowToo(two, four, threshold=_FAR),
            2,
            Event(
                _moved((0, 12)),
                _moved((1, 6), (-1, 6)),
                lambda output: _low_then_high(output, 6),
                samples=20_000_000,
            ),
        ),
        _mutant(
            "adaptive leaking the failed branch",
            museum.LeaksFailedBranch(threshold=_FAR),
            2,
            Event(
                _moved((0, 20)),
                _moved((1, 10), (-1, 10)),
                lambda output: _low_then_high(output, 10),
                _leaks_low_then_high,
            ),
        ),
        _mutant(
            "gap from fresh uncharged noise",
            museum.FreshGap(two, four),
            2,
            Event(
                _moved((0, 9)),
                _moved((1, 8), (-1, 1)),
                _said([0] * 8 + [1], lambda gap: gap >= 0),
                samples=4_000_000,
            ),
        ),
        _mutant(
            "monotonic scale on general answers",
            museum.monotonic_scale(),
            3,
            Event(
                _moved((0, 22)),
                _moved((1, 20), (-1, 2)),
                _said([0] * 20 + [1, 1]),
                _below_then_two_above,
            ),
            k=2,
            neighbours="general",
        ),
        _mutant(
            "adaptive middle branch charged as the top",
            museum.CheapMiddle(),
            2,
            Event(
                _moved((0, 10)),
                _moved((1, 8), (-1, 2)),
                _said([0] * 8 + [2, 2]),
                samples=12_000_000,
            ),
        ),
        _mutant(
            "ties to the lowest index, gap released",
            NoisyTopK(1, 1),
            3,
            Event(
                _moved((0, 4)),
                (1, 1, -1, -1),
                lambda output: output[0] == (2,) and output[1][0] <= 0,
                on_grid=True,
            ),
            ties=True,
        ),
        _mutant(
            "stops only when the cost is above ε",
            museum.late_stop(),
            2,
            Event(
                _moved((0, 22)),
                _moved((1, 20), (-1, 2)),
                _said([0] * 20 + [1, 1]),
                _below_then_two_above,
            ),
        ),
        _mutant(
            "noisy max with two gaps",
            museum.TwoGaps(),
            3,
            Event(
                (0, 0, -8, -8),
                (-1, -1, -7, -7),
                lambda output: output[0] == (0,) and output[1][1] >= 8,
            ),
        ),
        _mutant(
            "middle branch reusing half the noise",
            museum.HalvedNoise(),
            2,
            Event(
                _moved((0, 9)),
                _moved((1, 8), (-1, 1)),
                _said([0] * 8 + [2], lambda gap: gap >= 5),
                samples=8_000_000,
            ),
        ),
        _mutant(
            "one-sided noise subtracted",
            museum.Subtracted(ExponentialNoise(Fraction(2)), ExponentialNoise(Fraction(4))),
            1,
            Event((-1,), (0,), _said([0])),
        ),
        _mutant(
            "measured with noise for fewer answers",
            museum.TooMany(k=1),
            2,
            Event((0, 0), (-1, -1), lambda values: bool(values[0] >= 0) and bool(values[1] >= 0)),
        ),
        _mutant(
            "count hull on answers that move both ways",
            CountHull(1, monotonic=True),
            2,
            Event((0, 0), (1, -1), _is_zero, _hull_releases_zero),
            k=2,
            neighbours="general",
        ),
        _mutant(
            "count hull that ignores the sensitivity",
            CountHull(1, monotonic=True),
            2,
            Event((0, 0), (3, 3), _is_zero, _hull_releases_zero),
            k=2,
            neighbours="rising",
            sensitivity=3,
        ),
    ]


def _is_zero(values: Sequence[Scalar]) -> bool:
    return all(value == 0 for value in values)


def _hull_releases_zero(answers: Sequence[int]) -> float:
    """The chance that two values are released as exactly 0, on whole steps with scale 1."""
    return float(chances(CountHull(1, monotonic=True), answers)[MOST, MOST])


def accepted() -> list[Exhibit]:
    """What must be proved although it looks odd."""
    ties = {"ties": True}
    return [
        Exhibit("middle branch reusing the noise as it is", ACCEPT, museum.ReusedNoise(), 3, 1),
        Exhibit("adaptive with any margins", ACCEPT, museum.any_margin, 3, 1, how=ties),
        Exhibit(
            "top-k of all answers at half the price",
            ACCEPT,
            NoisyTopK(3, 1),
            3,
            3,
            how={"epsilon": Fraction(1, 2)},
        ),
        *(
            Exhibit("index-only top-k with ties", ACCEPT, museum.IndexOnlyTopK(k), 4, k, how=ties)
            for k in (1, 2)
        ),
        Exhibit(
            "sparse vector with one-sided noise",
            ACCEPT,
            SparseVector(0, 2, 1, noise="exponential"),
            3,
            2,
            how=ties,
        ),
    ]


def exhibits() -> list[Exhibit]:
    """The whole museum."""
    return mutants() + accepted()
