"""The point in a minute: the best sellers of a made-up shop, with error bars and gaps.

The shop's baskets are generated here, from a fixed seed. What is released about them is drawn
afresh from secure noise at every start, so the numbers differ from time to time. That is how
differential privacy works.
"""

import numpy as np

import dpgap

ITEMS = (
    "apples bananas bread butter carrots cheese chicken chocolate coffee crisps eggs fish flour "
    "grapes honey jam juice lemons lentils lettuce milk mushrooms noodles nuts oats oil olives "
    "onions oranges pasta peas peppers potatoes rice salmon salt soap soup spinach sugar tea "
    "tofu tomatoes vinegar water wine yeast yoghurt"
).split()
BASKETS, K, EPSILON = 20_000, 10, 1
WIDTH = 40


def baskets() -> np.ndarray:
    """Which customer bought what: a table of 20,000 baskets, true where an item is in it."""
    rng = np.random.default_rng(2020)
    popularity = 0.45 / np.arange(1, len(ITEMS) + 1) ** 0.7
    return rng.random((BASKETS, len(ITEMS))) < rng.permutation(popularity)


def main() -> None:
    """Release the ten best sellers and print them."""
    counts = baskets().sum(axis=0)
    top = dpgap.measured_top_k(counts, K, EPSILON, monotonic=True, labels=ITEMS)
    interval = top.interval(0.95).tolist()

    print(f"The {K} best sellers of {BASKETS:,} private baskets, for ε = {EPSILON} in all.\n")
    print("rank  item      estimate   95 % interval   gap to next")
    rows = zip(top.labels or (), top.estimates, interval, top.gaps, strict=True)
    for rank, (item, estimate, (low, high), gap) in enumerate(rows, 1):
        bar = "█" * round(WIDTH * estimate / top.estimates.max())
        print(
            f"{rank:4}  {item:10} {estimate:6.0f}    {low:5.0f} … {high:5.0f} {gap:10.0f}   {bar}"
        )

    baseline = dpgap.Laplace("1/2").variance(K)
    print(
        "\nThe gaps came free with the selection. Measuring these ten with Laplace noise, without "
        f"gaps, would\nmake the squared error of each {baseline / top.variances.mean():.1f} times "
        "as large at the same ε."
    )
    print(f"\n{top.guarantee}")


if __name__ == "__main__":
    main()
