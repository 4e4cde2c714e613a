"""Mechanisms that were published or shipped, and are not as private as they said.

Each is rebuilt in a few lines from its description. All claim ε = 1 for answers that one person
moves by at most 1. `dpgap audit examples.bugs:NAME --epsilon 1` finds what is wrong with them;
docs/bugs-found.md says what that is. Never use them on data.
"""

import math
import random


def laplace(scale):
    """Noise from floats, as textbooks have it."""
    return scale * random.choice((-1, 1)) * -math.log(1 - random.random())


def geometric(scale):
    """Whole numbers with about Laplace's law."""
    return math.floor(abs(laplace(scale))) - math.floor(abs(laplace(scale)))


def sparse_vector(answers, threshold_scale, answer_scale, most_above):
    """Says of each answer whether it is above a noisy threshold of 0."""
    threshold, said = laplace(threshold_scale), []
    for answer in answers:
        noise = laplace(answer_scale) if answer_scale else 0
        said.append(answer + noise >= threshold)
        if sum(said) == most_above:
            break
    return said


def right_sparse_vector(answers):
    """As it should be, for two answers above: half of ε for the threshold, half for them."""
    return sparse_vector(answers, threshold_scale=2, answer_scale=8, most_above=2)


def no_noise_on_answers(answers):
    """The fifth variant that Lyu, Su and Li looked at: noise on the threshold alone, no limit."""
    return sparse_vector(answers, threshold_scale=2, answer_scale=0, most_above=None)


def no_limit(answers):
    """The sixth: noise on both, but any number of answers may be above."""
    return sparse_vector(answers, threshold_scale=2, answer_scale=2, most_above=None)


def noise_without_the_limit(answers):
    """The fourth: stops after two above, with noise as if it stopped after one."""
    return sparse_vector(answers, threshold_scale=4, answer_scale=4 / 3, most_above=2)


def value_of_the_first_above(answers):
    """The third: returns the noisy answer itself, which shows how high the threshold was not."""
    threshold = laplace(2)
    for place, answer in enumerate(answers):
        noisy = answer + laplace(2)
        if noisy >= threshold:
            return place, noisy
    return None


def one_draw_for_all(answers):
    """What the free-gap paper's public code has as `hybrid_svt`: one draw moves all answers."""
    noise, threshold = laplace(2), laplace(2)
    order = sorted(range(len(answers)), key=lambda place: -answers[place])
    return [place for place in order if answers[place] + noise >= threshold][:2]


def ties_by_index(answers):
    """The winner and its gap, on whole numbers, where the first of equals wins."""
    noisy = [answer + geometric(2) for answer in answers]
    winner = max(range(len(noisy)), key=lambda place: (noisy[place], -place))
    return winner, noisy[winner] - max([*noisy[:winner], *noisy[winner + 1 :]])


def laplace_in_floats(answers):
    """One answer with Laplace noise, added as floats are."""
    return answers[0] + laplace(1)


def present_items_first(answers):
    """Our own, before the first release: items that nobody has were asked about last."""
    places = random.sample(range(len(answers)), len(answers))
    order = sorted(places, key=lambda place: answers[place] == 0)
    threshold = -3 + laplace(2)
    for place in order:
        if answers[place] + laplace(4) >= threshold:
            return place
    return None


def coin_beside_the_largest(answers):
    """Our own, in 0.2.0: what breaks ties was a float, computed beside the largest true answer.

    Claims ε = 1 where one person moves one answer: `--reach 1`.
    """
    largest = max(answers)
    noisy = [(answer - largest + laplace(1), place) for place, answer in enumerate(answers)]
    (best, winner), (loser, _) = sorted(noisy, reverse=True)[:2]
    line = math.floor(loser)
    return winner, largest + math.floor(best), largest + line, loser - line


def opendp_threshold(answers):
    """OpenDP's counts above a threshold, one row per person: states ε = 1 and δ = 0.0049."""
    if any(answer < 0 for answer in answers):
        raise ValueError("counts are at least 0")
    return _opendp()([str(item) for item, count in enumerate(answers) for _ in range(count)])


def _opendp(made=[]):  # noqa: B006 - made once
    if not made:
        import opendp.prelude as dp

        dp.enable_features("contrib")
        words = dp.vector_domain(dp.atom_domain(T=str))
        count = dp.t.make_count_by(words, dp.symmetric_distance())
        made.append(count >> dp.m.then_laplace_threshold(scale=1.0, threshold=5))
    return made[0]
