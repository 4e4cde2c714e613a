"""The catalogue: every mutant, and every odd mechanism that must be accepted."""

from dpgap.proof.mutants import (
    adaptive,
    histogram,
    hybrid,
    joint,
    measuring,
    noisy_max,
    sparse_vectors,
)
from dpgap.proof.mutants.entry import ACCEPT, MUTANT, CatalogueEntry

_ROOMS = (sparse_vectors, noisy_max, joint, hybrid, adaptive, measuring, histogram)


def catalogue(*kinds: str) -> list[CatalogueEntry]:
    """The entries of these kinds: by default mutants first, then what must be accepted."""
    entries = [entry for room in _ROOMS for entry in room.entries()]
    return [e for kind in kinds or (MUTANT, ACCEPT) for e in entries if e.kind == kind]


def mutants() -> list[CatalogueEntry]:
    """What must be refuted."""
    return catalogue(MUTANT)
