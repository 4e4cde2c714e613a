"""The catalogue: every mutant, and every odd mechanism that must be accepted."""

from dpgap.proof.mutants import adaptive, joint, measuring, noisy_max, sparse_vectors
from dpgap.proof.mutants.entry import ACCEPT, MUTANT, CatalogueEntry

_ROOMS = (sparse_vectors, noisy_max, joint, adaptive, measuring)


def catalogue() -> list[CatalogueEntry]:
    """Mutants first, then what must be accepted."""
    entries = [entry for room in _ROOMS for entry in room.entries()]
    return [entry for kind in (MUTANT, ACCEPT) for entry in entries if entry.kind == kind]


def mutants() -> list[CatalogueEntry]:
    """What must be refuted."""
    return [entry for entry in catalogue() if entry.kind == MUTANT]


def accepted() -> list[CatalogueEntry]:
    """What must be proved although it looks odd."""
    return [entry for entry in catalogue() if entry.kind == ACCEPT]
