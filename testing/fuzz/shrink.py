"""Make a failing case smaller, and print it as a script."""

from __future__ import annotations

import itertools
import re
import time
from collections.abc import Iterator
from dataclasses import replace

from .check import Failure, Outcome, examine
from .opinions import interpreted
from .program import Case, Expr, Stmt
from .programs.cells import Discard

SCRIPT = '''"""Seed {seed} of testing/fuzz, reduced. Run it from the top folder of the project.

{failure}
"""

import tilelang_ascend.language as T
from testing.fuzz.check import check
{imports}

{kernel}

{reference}

inputs = {{
{inputs}
}}
failure = check(kernel, reference, inputs, "{chip}", text={text}, packed={packed}{oracle})
print(failure.text if failure else "passes")
raise SystemExit(1 if failure else 0)
'''

IMPORTS = """\
from testing.fuzz.memory import *  # noqa: F403
from testing.fuzz.numbers import *  # noqa: F403
from testing.fuzz.program import data"""
PROGRAM_IMPORTS = """\
from testing.fuzz.opinions import interpreted
from testing.fuzz.programs import cells
from testing.fuzz.programs.cells import *  # noqa: F403"""

SECONDS = 120
"""Time for making one case smaller."""

LANES = 256
"""Iterations of a nest where memory is taken to be very scarce."""


def packed(case: Case) -> dict | None:
    """Every second case is compiled as if memory were scarce, half of them in parts; every eighth one with its tiles in GM, and every eighth one with tiles
    two to four times as large as UB."""
    if case.seed % 8 in (4, 6):
        return {"room": 0} if case.seed % 8 == 6 else {"times": 2 + case.seed // 8 % 3}
    return {1: {}, 3: {"lanes": LANES}}.get(case.seed % 4)


def run(case: Case, text: bool = False) -> Outcome:
    """Check a case. Programs are exact, so the source-level interpreter has to agree, too."""
    hooks = () if case.oracle is None else (interpreted,)
    return examine(case.kernel(), case.reference(), case.arrays(), case.chip, text, case.oracle, hooks, packed(case))


def fails(case: Case, text: bool = False) -> Failure | None:
    """The failure of a case, if any. One that lacks a definition it uses, or means nothing definite, is no case."""
    try:
        return run(case, text).failure
    except (NameError, Discard):
        return None


def chunks(body: tuple[Stmt, ...]) -> Iterator[tuple[Stmt, ...]]:
    """Bodies without a run of statements, long ones first."""
    size = len(body) // 2
    while size > 1:
        for k in range(0, len(body), size):
            yield body[:k] + body[k + size :]
        size //= 2


def once(s: Stmt) -> tuple[Stmt, ...]:
    """The body of a loop of a program with its variable bound, as a run of its own."""
    found = re.match(r"for (\w+) in (?!T.Parallel)", s.tile[0]) if len(s.tile) == 1 else None
    return (Stmt((f"{found[1]} = 0",), (f"{found[1]} = 0",), kind="line"), *s.body) if found else s.body


def smaller(body: tuple[Stmt, ...]) -> Iterator[tuple[Stmt, ...]]:
    """Bodies with one statement removed, one compound statement replaced by its parts, or one expression made simpler."""
    for k, s in enumerate(body):
        before, after = body[:k], body[k + 1 :]
        yield before + after
        if s.body and s.kind in ("if", "loop", "mask") and "guard" not in s.tags:
            yield (*before, *s.body, *after)
            if s.orelse:
                yield (*before, *s.orelse, *after)
            if s.kind == "loop" and once(s) != s.body:
                yield (*before, *once(s), *after)
    for k, s in enumerate(body):
        before, after = body[:k], body[k + 1 :]
        if s.orelse:
            yield (*before, replace(s, orelse=()), *after)
        for inner in smaller(s.body):
            if inner:
                yield (*before, replace(s, body=inner, fills=None), *after)
        for j, e in enumerate(s.exprs):
            if e.dtype != "index":
                for simpler in _simpler(e):
                    yield (*before, replace(s, exprs=(*s.exprs[:j], simpler, *s.exprs[j + 1 :])), *after)


def _simpler(e: Expr) -> Iterator[Expr]:
    """Expressions of the same dtype with one node replaced by one of its operands."""
    for p in e.parts:
        if p.dtype == e.dtype and p.tile != e.tile and (p.parts or p.tags):
            yield p
    for j, p in enumerate(e.parts):
        if p.dtype != "index":
            for simpler in _simpler(p):
                yield replace(e, parts=(*e.parts[:j], simpler, *e.parts[j + 1 :]))


def reduce_case(case: Case, failure: Failure, text: bool = False, seconds: float = SECONDS) -> tuple[Case, Failure]:
    """Drop what can be dropped while the same kind of failure remains."""
    end, shrunk = time.monotonic() + seconds, True
    while shrunk:
        shrunk = False
        for body in itertools.chain(chunks(case.body), smaller(case.body)):
            if time.monotonic() > end:
                break
            candidate = case.without(body)
            found = fails(candidate, text)
            if found and found.kind == failure.kind:
                case, failure, shrunk = candidate, found, True
                break
    return case, failure


def script(case: Case, failure: Failure, text: bool = False) -> str:
    """A program that shows the failure."""
    rows = [f'    "{p.name}": {p.data(case.seed, k)},' for k, p in case.live_params()]
    imports, oracle = (IMPORTS, "") if case.oracle is None else (PROGRAM_IMPORTS, ", oracle=cells, hooks=(interpreted,)")
    return SCRIPT.format(imports=imports, oracle=oracle, seed=case.seed, failure=failure.text.strip().replace("\\", "/"), kernel=case.kernel().strip(),
                         reference=case.reference(), inputs="\n".join(rows), chip=case.chip, text=text, packed=packed(case))  # fmt: skip
