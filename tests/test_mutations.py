"""A short run of :mod:`mutations`; the long one is started by hand, see there."""

import mutations

# Two small files of different versions, and a seed that the long runs do not have.
SOURCES = ("small", "2025.3/torch_graph_probe")


def test_damage_is_refused_told_or_without_effect():
    counts, defects = mutations.run(range(40), seed=0, exports=SOURCES)
    assert defects == []
    assert counts.total() == 40
    # Damage was done: a run in which every file stays sound would test nothing.
    assert counts["refused"] >= 3
    assert counts["told"] >= 3
