"""Covering rows keep what they promise."""

import itertools

import covering
import pytest


@pytest.mark.parametrize("strength", [1, 2, 3])
@pytest.mark.parametrize("sizes", [(1,), (4,), (2, 3), (2, 2, 2, 2), (5, 3, 4), (7, 4, 3, 2), (1, 6, 1, 2)])
def test_all_choices_for_some_columns_occur(sizes, strength):
    found = covering.rows(sizes, strength)
    assert found == covering.rows(sizes, strength) and len(set(found)) == len(found)
    for columns in itertools.combinations(range(len(sizes)), min(strength, len(sizes))):
        choices = {tuple(row[i] for i in columns) for row in found}
        assert choices == set(itertools.product(*(range(sizes[i]) for i in columns)))


def test_rows_are_few():
    # No fewer can be: the two longest columns have 28 pairs.
    assert len(covering.rows((7, 4, 3, 2))) <= 30
    assert len(covering.rows((3, 3, 3, 3))) <= 11
    assert len(covering.rows((6, 6), strength=1)) == 6


def test_the_whole_product_is_there_and_what_is_left_out_is_slow():
    mark = covering.product({"a": "xyz", "b, c": [(1, 2), (3, 4), (5, 6)], "d": [True, False]}).mark
    names, params = mark.args
    assert names == ["a", "b", "c", "d"]
    assert [p.values for p in params] == [(a, *bc, d) for a in "xyz" for bc in [(1, 2), (3, 4), (5, 6)] for d in (True, False)]
    quick = [p.values for p in params if not p.marks]
    assert 9 <= len(quick) < 12 and all(
        p.marks == (pytest.mark.slow.mark,) or [m.name for m in p.marks] == ["slow"] for p in params if p.marks
    )
    assert {(a, d) for a, _, _, d in quick} == set(itertools.product("xyz", (True, False)))


def test_a_share_of_cases_has_every_value_there_is_room_for():
    cases = {f"{a}-{b}": {"a": a, "b": b} for a in range(5) for b in "xyz"}
    kept = [cases[name] for name in covering.share(cases, 5)]
    assert {case["a"] for case in kept} == set(range(5)) and {case["b"] for case in kept} == set("xyz")
    assert len({case["a"] for case in [cases[name] for name in covering.share(cases, 3)]}) == 3
    assert covering.share(cases, 5) == covering.share(dict(reversed(cases.items())), 5)
    assert covering.share({"alone": {}}, 1) == ["alone"]
