"""Parameters of tests whose product is large: rows in which every two values meet run by default, the others are slow tests.

    @covering.product({"dtype": DTYPES, "m, n": SIZES, "target": ["a2", "a5"]})
    def test_something(dtype, m, n, target): ...

A fault nearly always shows for some pair of values, whatever the other parameters are; with `SLOW=1` the whole product runs.
"""

from __future__ import annotations

import itertools
import zlib
from typing import Any, Iterable, Mapping, Sequence

import pytest


def rows(sizes: Sequence[int], strength: int = 2) -> list[tuple[int, ...]]:
    """Rows of numbers, `row[i]` below `sizes[i]`, in which all choices for any `strength` columns occur. The same for the same sizes.

    Each row is the one of the product that has most choices no earlier row has, and the first of those.
    """
    strength = min(strength, len(sizes))
    columns = list(itertools.combinations(range(len(sizes)), strength))
    missing = {(c, choice) for c in columns for choice in itertools.product(*(range(sizes[i]) for i in c))}
    product, found = list(itertools.product(*map(range, sizes))), []
    while missing:
        fresh = [{(c, tuple(row[i] for i in c)) for c in columns} & missing for row in product]
        best = max(range(len(product)), key=lambda n: len(fresh[n]))
        found.append(product.pop(best))
        missing -= fresh[best]
    return sorted(found)


def product(parameters: Mapping[str, Iterable[Any]], strength: int = 2):
    """A mark like `pytest.mark.parametrize` for the product of `parameters`, names separated by commas -> values (tuples for several names).

    Values of any `strength` entries meet in some row that is no slow test.
    """
    values = [list(v) for v in parameters.values()]
    names = [[name.strip() for name in key.split(",")] for key in parameters]
    quick = set(rows([len(v) for v in values], strength))
    params = []
    for row in itertools.product(*map(range, map(len, values))):
        chosen = [column[i] for column, i in zip(values, row, strict=True)]
        flat = [part for key, value in zip(names, chosen, strict=True) for part in (value if len(key) > 1 else (value,))]
        params.append(pytest.param(*flat, marks=() if row in quick else pytest.mark.slow))
    return pytest.mark.parametrize([name for key in names for name in key], params)


def share(cases: Mapping[str, Mapping[str, Any]], size: int) -> list[str]:
    """`size` names of the `cases` (name -> {parameter: value}), always the same ones, in no order but for this: each case has most values that
    none before it has, so that no value is left out as long as there is room."""
    left = sorted(cases, key=lambda name: zlib.crc32(name.encode()))
    values = {name: {(parameter, repr(value)) for parameter, value in case.items()} for name, case in cases.items()}
    kept, seen = [], set()
    while len(kept) < size:
        kept.append(max(left, key=lambda name: len(values[name] - seen)))
        seen |= values[kept[-1]]
        left.remove(kept[-1])
    return kept
