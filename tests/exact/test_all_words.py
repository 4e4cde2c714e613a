"""All words there are, where words are short: kernel and program say the same on each of them.

Words of 63 bits and a sign cannot be gone through. The width is a parameter: with words of a few
bits, all of them can. They leave many comparisons open, so further bits are read; they are keyed by
the draw, so that kernel and program read the same.
"""

import hashlib
import itertools
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest

import dpgap
from dpgap.exact import laws, reals
from dpgap.mechanisms import top_k as top_k_kernel
from dpgap.mechanisms.histogram import Cutoff, best_of
from dpgap.mechanisms.top_k import top_draws
from law_tests import sift

MODULES = (reals, laws, top_k_kernel)


def shorten(monkeypatch, width):
    """Words have so many bits, and a sign above them."""
    most = (1 << width) - 1
    short = {"_FRACTION_BITS": width, "DENOMINATOR": most + 1, "LOW_BITS": most}
    short |= {"LOW_MASK": np.uint64(most), "SIGN_PLACE": np.uint64(width)}
    for module, (name, value) in itertools.product(MODULES, short.items()):
        if hasattr(module, name):
            monkeypatch.setattr(module, name, value)


class Keyed:
    """Further bits of one draw, whoever asks for them."""

    def __init__(self, *key):
        self.key, self.asked = key, 0

    def word(self):
        """The next 64."""
        self.asked += 1
        text = repr((self.key, self.asked)).encode()
        return int.from_bytes(hashlib.sha256(text).digest()[:8])


def _keyed(law, words, bits=None):
    """Draws from given words, whose further bits are keyed by their place."""
    columns = enumerate(words.T.tolist())
    return (law.real(own, Keyed(place, *own)) for place, own in columns)


def _all_words(width, draws):
    each = np.arange(1 << width, dtype=np.uint64)
    grid = np.meshgrid(*[each] * draws, indexing="ij")
    return np.stack([part.ravel() for part in grid], axis=1)[None]  # (words of a draw, runs, draws)


class Given:
    """Bits whose words are those that are given, run by run."""

    def __init__(self, words):
        self._words, self._taken = words, 0

    def words(self, _, runs, __):
        self._taken += runs
        return self._words[:, self._taken - runs : self._taken]


def _rank_all(noise, k, width, monkeypatch):
    """What the kernel says of all words, and in how many rows floats decided."""
    signed = noise == "laplace"
    shorten(monkeypatch, width - signed)
    monkeypatch.setattr(laws.RealLaw, "reals", _keyed)
    program = dpgap.NoisyTopK(k, 2, noise=noise)
    answers, words = np.array([3, 1, 2]), _all_words(width, 3)
    with np.errstate(all="ignore"):
        low, high = top_k_kernel.noisy_bounds(answers - 3, program.law.bounds(words))
        certain = top_k_kernel.ranked(low, high, k)[2]
        said = top_k_kernel.select(program, answers, words.shape[1], Given(words))
    return program, answers, words, said, np.flatnonzero(certain)


@pytest.mark.parametrize(
    ("k", "width"),
    [(1, 3), (2, 3), *(pytest.param(*each, marks=pytest.mark.long) for each in ((1, 6), (2, 5)))],
)
@pytest.mark.parametrize("noise", ["exponential", "laplace"])
def test_the_kernel_says_what_the_program_says_on_all_words(noise, k, width, monkeypatch):
    """Three answers: 2^9 rows, or 2^18 in `make long`. Open rows are the program's in both."""
    program, answers, words, said, certain = _rank_all(noise, k, width, monkeypatch)
    assert 0 < certain.size < words.shape[1] or width == 3
    for row in certain.tolist():
        indices, leads = program.run(
            answers.tolist(), reals.RealNoise(_keyed(program.law, words[:, row]))
        )
        assert said.indices[row].tolist() == list(indices)
        assert said.leads[row].tolist() == list(leads)


def test_an_enclosure_that_forgets_the_bits_that_were_not_read_is_found(monkeypatch):
    right = reals.exponential_bounds

    def too_narrow(scale, words):
        low, high = right(scale, words)
        middle = (low + np.where(np.isinf(high), low, high)) / 2
        return middle, middle.copy()

    monkeypatch.setattr(laws, "exponential_bounds", too_narrow)
    program, answers, words, said, certain = _rank_all("exponential", 1, 4, monkeypatch)
    wrong = 0
    for row in certain.tolist()[::7]:
        _, leads = program.run(
            answers.tolist(), reals.RealNoise(_keyed(program.law, words[:, row]))
        )
        wrong += said.leads[row].tolist() != list(leads)
    assert wrong


@pytest.mark.parametrize("width", [8, pytest.param(14, marks=pytest.mark.long)])
@pytest.mark.parametrize("scale", [Fraction(1), Fraction(7, 3), Fraction(1 << 20)])
def test_floats_enclose_all_words(width, scale, monkeypatch):
    """Each end of what a word leaves open, against decimal arithmetic."""
    shorten(monkeypatch, width)
    words = np.arange(1, 1 << width, dtype=np.uint64)
    low, high = reals.exponential_bounds(float(scale), words)
    exact, whole = reals.decimals(40), Decimal(1 << width)
    logs = [
        -Fraction(exact.ln(exact.divide(Decimal(m), whole))) for m in range(1, (1 << width) + 1)
    ]
    for at, (below, above) in enumerate(zip(low.tolist(), high.tolist(), strict=True)):
        assert Fraction(below) <= scale * logs[at + 1] + Fraction(1, 10**30)
        assert Fraction(above) >= scale * logs[at] - Fraction(1, 10**30)


@pytest.mark.parametrize("width", [6, pytest.param(10, marks=pytest.mark.long)])
@pytest.mark.parametrize("name", ["laplace", "exponential", "geometric"])
def test_floors_of_all_words_are_those_of_the_real_draw(name, width, monkeypatch):
    """A histogram and a Sparse Vector add floors; where floats decide them, they are right."""
    shorten(monkeypatch, width)
    kinds = {**laws.LAWS, "geometric": laws.GeometricNoise}
    law = kinds[name](Fraction(5, 2))
    words = np.arange(1 << (width + law.signed), dtype=np.uint64)

    class Given(Keyed):
        def words(self, *shape):
            return words.reshape(shape)

    floors = law.floors(Given(name), words.size)
    for word, floor in zip(words.tolist(), floors.tolist(), strict=True):
        ends = _ends(law, name, word)
        assert ends[0] <= floor <= ends[1]


def _ends(law, name, word):
    """The floors of the lowest and of the highest draw that a word can become."""
    floors = []
    for further in (1, (1 << 64) - 2):  # nearly none, and nearly all
        rest = Keyed()
        rest.word = lambda further=further: further
        if name == "largest of one":
            (draw,) = top_draws(law, 1, [word], rest)
            floors.append(int(reals.decide(draw, np.floor)))
        elif name == "geometric":
            floors.append(int(reals.decide(law.with_coin(word, rest), np.floor)))
        else:
            floors.append(int(reals.decide(law.real([word], rest), np.floor)))
    return sorted(floors)


class _Words(Keyed):
    """Bits that hand out given words; what floats leave open reads further ones."""

    def __init__(self, *columns):
        super().__init__("further")
        self.columns = iter(columns)

    def words(self, *shape):
        """The next given ones."""
        return next(self.columns).reshape(shape)

    def distinct(self, most, count):
        """An order for what ties: any will do."""
        return np.arange(count)


class _Drawn:
    """Noise that was drawn before."""

    def __init__(self, values):
        self.values = iter(values)

    def draw(self, law):
        """The next draw."""
        return next(self.values)


def _floors(law, name, width):
    """For each word the floor of its draw; None where further bits decide it."""
    ends = [_ends(law, name, word) for word in range(1 << width)]
    return [low if low == high else None for low, high in ends]


@pytest.mark.parametrize("width", [4, pytest.param(6, marks=pytest.mark.long)])
@pytest.mark.parametrize("noise", ["exponential", "laplace"])
def test_a_sparse_vector_says_what_its_program_says_on_all_words(noise, width, monkeypatch):
    """A threshold and two answers: 2^12 runs, or 2^18 in `make long`."""
    shorten(monkeypatch, width - (noise == "laplace"))
    program, answers = dpgap.SparseVector(2, 1, 30, noise=noise).in_steps(), [1, 3]
    words = _all_words(width, 3)[0]
    with np.errstate(all="ignore"):
        batches = np.split(words, max(1, len(words) >> 15))  # as many runs as `sift` makes at once
        bits = _Words(*(part for rows in batches for part in (rows[:, 0], rows[:, 1:])))
        said = sift(program, np.array(answers), len(words), bits)
    found = zip(said.indices, said.branches, said.gaps, strict=True)
    of_run = dict(zip(said.runs.tolist(), (tuple(map(int, each)) for each in found), strict=True))
    laws_of = (program.threshold_law, *[program.every_branch[0].law] * 2)
    floors = [_floors(law, noise, width) for law in laws_of]
    compared = 0
    for run, row in enumerate(words.tolist()):
        drawn = [floor[word] for floor, word in zip(floors, row, strict=True)]
        if None not in drawn:
            outcomes = enumerate(program.run(answers, _Drawn(drawn)))
            above = [(at, *outcome) for at, outcome in outcomes if outcome.branch]
            assert ([of_run[run]] if run in of_run else []) == above
            compared += 1
    assert len(words) / 3 < compared < len(words)


@pytest.mark.parametrize("width", [3, pytest.param(6, marks=pytest.mark.long)])
@pytest.mark.parametrize("wanted", [Cutoff(1, None), Cutoff(2, 2), Cutoff(None, 2)])
def test_a_histogram_says_what_its_program_says_on_all_words(wanted, width, monkeypatch):
    """Three answers: 2^9 draws, or 2^18 in `make long`; a word is a size."""
    shorten(monkeypatch, width)
    mechanism, answers = dpgap.NoisyHistogram(4), [3, 1, 2]
    floors, compared = _floors(mechanism.law, "largest of one", width), 0
    words = _all_words(width, 3)[0]
    for row in words:
        drawn = [floors[word] for word in row.tolist()]
        if None not in drawn:
            noisy = sorted(mechanism.run(answers, _Drawn(drawn)), reverse=True)
            line = -np.inf if wanted.line is None else wanted.line
            alone = np.ones(3, dtype=np.int64)
            best, _ = best_of(mechanism.law, np.array(answers), alone, wanted, _Words(row))
            assert best.values.tolist() == [value for value in noisy if value >= line][: wanted.k]
            compared += 1
    assert len(words) / 3 < compared
