"""Whether two samples of whole numbers have one law."""

import numpy as np
from scipy import stats


def two_sample_p(first: np.ndarray, second: np.ndarray) -> float:
    """The p-value of "both samples of whole numbers have one law": χ² on common cells."""
    cells, which = np.unique(np.concatenate([first, second]), return_inverse=True)
    counts = np.stack(
        [
            np.bincount(which[: first.size], minlength=cells.size),
            np.bincount(which[first.size :], minlength=cells.size),
        ]
    )
    # Neighbouring cells are merged until each has 50 in all.
    group = np.minimum.accumulate((counts.sum(axis=0)[::-1].cumsum() // 50)[::-1])
    merged = np.stack([np.bincount(group, weights=row) for row in counts])
    merged = merged[:, merged.sum(axis=0) > 0]
    if merged.shape[1] < 2:
        return 1.0
    return float(stats.chi2_contingency(merged, correction=False).pvalue)
