"""Make a failing case smaller, and print it as a script."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from .case import Case, Stmt
from .oracle import Failure, check

SCRIPT = '''"""Seed {seed} of testing/fuzz, reduced. Run it from the top folder of the project.

{failure}
"""

import numpy as np

from tilelang_ascend.sim.reference import numpy_dtype
from testing.fuzz.oracle import check

SOURCE = """
{source}"""


def make(k, shape, dtype, role, limit):
    """Values of parameter number k."""
    rng = np.random.default_rng(({seed}, k))
    if role == "index":
        values = rng.integers(0, limit, shape)
    elif "float" in dtype:
        values = rng.integers(-8, 9, shape) / 4
    else:
        values = rng.integers(0 if dtype[0] == "u" else -7, 8, shape)
    return np.asarray(values).astype(numpy_dtype(dtype))


failure = check(SOURCE, {{
{inputs}
}})
print(failure.text if failure else "passes")
'''


def fails(case: Case, text: bool = False) -> Failure | None:
    """The failure of a case, if any."""
    return check(case.source(), case.arrays(), text)


def smaller(body: tuple[Stmt, ...]) -> Iterator[tuple[Stmt, ...]]:
    """Bodies with one statement removed, one compound statement replaced by its parts, or one inner line dropped."""
    for k, s in enumerate(body):
        rest = body[:k], body[k + 1 :]
        yield rest[0] + rest[1]
        if s.body:
            if s.lines[0].startswith("if"):
                yield (*rest[0], *s.body, *rest[1])
                if s.orelse:
                    yield (*rest[0], replace(s, orelse=()), *rest[1])
            for inner in smaller(s.body):
                if inner:
                    yield (*rest[0], replace(s, body=inner), *rest[1])
        elif len(s.lines) > 2:
            for line in range(1, len(s.lines)):
                yield (*rest[0], replace(s, lines=s.lines[:line] + s.lines[line + 1 :], fills=None), *rest[1])


def reduce_case(case: Case, failure: Failure, text: bool = False) -> Case:
    """Drop what can be dropped while the same kind of failure remains."""
    shrunk = True
    while shrunk:
        shrunk = False
        for body in smaller(case.body):
            candidate = case.without(body)
            found = fails(candidate, text)
            if found and found.kind == failure.kind:
                case, shrunk = candidate, True
                break
    return case


def script(case: Case, failure: Failure) -> str:
    """A program that shows the failure."""
    live = {p.name for p in case.live_params()}
    rows = [
        f'    "{p.name}": make({k}, {p.shape}, "{p.dtype}", "{p.role}", {p.limit}),'
        for k, p in enumerate(case.params)
        if p.name in live
    ]
    return SCRIPT.format(seed=case.seed, failure=failure.text, source=case.source(), inputs="\n".join(rows))
