"""Cases that differ from others by numbers or names only: `make test` runs some, `make long` all.

Every n-th case of a test in `EVERY` is run by `make test`. Of the tests in `NOT_ON_SPARK` the cases
on Spark are left to `make long`: each of them takes seconds there, and others show the same way
through Spark. Those in `LONG` take seconds each, and others show nearly the same.
"""

from collections import Counter
from collections.abc import Iterable

import pytest

EVERY = {
    "test_a_draw_alone_is_that_of_many_from_the_same_bits": 3,
    "test_a_million_transcripts_follow_the_exact_law": 2,
    "test_a_much_finer_grid_changes_nothing": 3,
    "test_a_mutation_makes_a_proof_fail_or_is_excused": 2,
    "test_a_page_fits_a_phone_and_can_be_read_in_the_dark": 3,
    "test_a_page_fits_and_can_be_read": 3,
    "test_a_picture_is_what_its_program_draws": 2,
    "test_a_published_bug_is_found_untold": 2,
    "test_a_quote_that_is_never_closed_is_refused_and_hides_no_rows": 3,
    "test_a_release_that_cannot_be_printed_is_kept": 2,
    "test_a_shipped_mechanism_stays_within_its_epsilon_and_fits_its_law": 3,
    "test_a_tenth_less_noise_is_caught": 3,
    "test_a_unit_at_any_time_is_counted_like_others": 2,
    "test_all_pairs_of_what_is_found_above_are_covered": 3,
    "test_any_key_is_found_and_no_other": 4,
    "test_continuous_mean_and_variance_are_those_of_the_tails": 2,
    "test_draws_follow_the_exact_law_point_by_point": 2,
    "test_each_extra_alone_brings_what_it_is_for": 2,
    "test_events_are_as_likely_as_was_derived": 3,
    "test_every_comparison_keeps_the_rows_that_plain_python_keeps": 2,
    "test_every_engine_counts_as_in_memory": 2,
    "test_every_kind_of_release_is_shown_whatever_it_found": 2,
    "test_every_topic_is_planned_asked_shown_and_kept": 2,
    "test_findings_hold_on_ties_and_flat_counts": 2,
    "test_flat_answers_keep_the_law_of_the_program": 2,
    "test_intervals_of_winners_cover_after_selection": 2,
    "test_items_and_groups_may_be_numbers": 3,
    "test_means_and_variances_are_those_of_brute_force": 2,
    "test_no_float_makes_an_engine_fail": 2,
    "test_no_trick_in_a_field_gets_anywhere": 3,
    "test_no_trick_of_a_steward_gets_anywhere": 2,
    "test_no_value_of_pandas_decides_how_others_are_filtered": 2,
    "test_odd_records_of_csv_change_no_other": 3,
    "test_one_line_of_json_moves_its_own_item_and_nothing_else": 4,
    "test_pruning_never_loses_a_contender": 2,
    "test_releases_cover_all_pairs_of_their_winners": 3,
    "test_releases_have_the_law_of_noise_for_every_set": 2,
    "test_releases_themselves_are_audited": 2,
    "test_simulated_sparse_vector_has_the_law_of_the_program": 2,
    "test_simulated_top_k_has_the_law_of_the_program": 3,
    "test_single_floors_follow_the_same_law": 2,
    "test_variance_and_tails_are_those_of_the_exact_law": 2,
    "test_what_is_missing_is_said_with_a_command_that_brings_it": 2,
    "test_what_is_said_with_confidence_is_wrong_at_most_as_often": 2,
    "test_what_must_be_accepted_is_proved": 2,
    "test_whatever_parameters_dpgap_accepts_come_back": 2,
}
NOT_ON_SPARK = {
    "test_a_top_k_fetches_the_count_of_counts_and_the_winners",
    "test_bounds_cut_everywhere",
    "test_every_order_of_a_domain_is_equally_likely",
    "test_five_thousand_winners_are_looked_up_at_once",
    "test_nan_is_no_unit_and_no_group",
    "test_no_float_makes_an_engine_fail",
    "test_no_item_and_no_group_is_favoured_anywhere",
    "test_decimals_and_whole_numbers_are_amounts",
    "test_streams_go_through_the_whole_domain",
    "test_what_no_bound_cuts_is_the_same_everywhere",
}
LONG = {
    "test_an_interrupted_run_leaves_only_whole_files",
    "test_one_unit_more_changes_no_decision_in_spark",
}


def leave_to_long(items: Iterable[pytest.Item]) -> None:
    """Mark the cases that `make test` does not run."""
    seen: Counter[str] = Counter()
    for item in items:
        if item.get_closest_marker("long") is not None:
            continue
        name = getattr(item, "originalname", item.name)
        is_again = seen[name] % EVERY.get(name, 1) > 0
        seen[name] += 1
        on_spark = name in NOT_ON_SPARK and "spark" in item.name
        if is_again or on_spark or name in LONG:
            item.add_marker(pytest.mark.long)
