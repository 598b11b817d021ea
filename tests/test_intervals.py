"""Idle time between intervals, by what it leaves of the span: how many moments are covered."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from kernelscope.intervals import idle_before

GROUPS = 3
INTERVALS = st.lists(
    st.tuples(st.integers(0, 40), st.integers(0, 12), st.integers(0, GROUPS - 1)), max_size=25
)


def union(intervals, groups=GROUPS, offset=0):
    """Union per group of (start, length, group): the span of the group without its idle time."""
    rows = np.array(sorted((g, s + offset, n) for s, n, g in intervals), np.int64).reshape(-1, 3)
    group, start, length = (np.ascontiguousarray(column) for column in rows.T)
    end, idle = start + length, idle_before(start, start + length, group)
    return [
        int(end[mine].max() - start[mine].min() - idle[mine].sum()) if mine.any() else 0
        for mine in (group == number for number in range(groups))
    ]


def covered(intervals, group):
    """The moments that intervals of a group cover, one by one."""
    return {
        moment
        for start, length, owner in intervals
        if owner == group
        for moment in range(start, start + length)
    }


@given(INTERVALS)
def test_the_union_is_the_number_of_covered_moments(intervals):
    assert union(intervals) == [len(covered(intervals, group)) for group in range(GROUPS)]


@given(INTERVALS, st.randoms())
def test_the_order_of_intervals_does_not_matter(intervals, random):
    shuffled = random.sample(intervals, len(intervals))
    assert union(shuffled) == union(intervals)


@given(INTERVALS)
def test_a_union_is_at_most_the_sum_and_at_least_the_longest(intervals):
    for group, total in enumerate(union(intervals)):
        lengths = [length for _, length, owner in intervals if owner == group] or [0]
        assert max(lengths) <= total <= sum(lengths)


@given(INTERVALS, st.sampled_from([-(10**18), 10**9, 17 * 10**17]))
def test_moving_every_interval_changes_nothing(intervals, offset):
    assert union(intervals, offset=offset) == union(intervals)


@given(INTERVALS)
def test_an_interval_counted_twice_covers_no_more(intervals):
    assert union(intervals + intervals) == union(intervals)


def test_no_intervals_cover_nothing():
    assert union([]) == [0, 0, 0]


def test_touching_intervals_add_up():
    assert union([(0, 5, 0), (5, 5, 0)], groups=1) == [10]


def test_an_interval_inside_another_adds_nothing():
    assert union([(0, 10, 0), (2, 3, 0), (8, 1, 0)], groups=1) == [10]


def test_an_interval_of_no_length_adds_nothing():
    assert union([(5, 0, 0)], groups=1) == [0]


def test_groups_never_share_time():
    assert union([(0, 10, 0), (5, 10, 1)], groups=2) == [10, 10]


def test_years_of_nanoseconds_in_many_groups_do_not_overflow():
    year = 31_536_000 * 10**9
    intervals = [(0, year, group) for group in range(100)] + [(1, year, 99)]
    assert union(intervals, groups=100) == [year] * 99 + [year + 1]
