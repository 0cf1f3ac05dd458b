"""Does every pass keep the meaning of a kernel? The stages of its lowering, interpreted on the same inputs.

The function the front end made and the function after each pass on Tile IR are executed by `sim/reference.py`, which shares no code with
the passes. All must leave the same values in the tensors, write every element the kernel writes, and neither store nor decide by values
that do not exist. The first pass after which that is not so is named, with the first of the user's statements that differs.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, Mapping, Sequence

import ml_dtypes
import numpy as np

from ..ir import (
    Bind,
    Evaluate,
    IRModule,
    PrimFunc,
    Var,
    const_int,
    dtype_of,
    imm,
    op_name,
    statements,
    structural_equal,
    substitute_expr,
    sym,
)
from ..ir.functions import is_core_index, launch_of, launches
from ..tile.uses import is_atomic, own_uses
from .reference import InterpreterError, Result, TooMuchWork, execute, packed_sizes
from .reference_memory import Memory
from .reference_numbers import is_float, numpy_dtype, poison

VERSIONED_FROM = "version_buffers"
"""The pass after which tiles have a leading dimension of copies."""

ROUNDINGS = 64
"""Steps of the last place, at the largest value of a tensor, by which sums may differ that a pass has put in another order."""
NARROW_ROUNDINGS = 4
"""The same of 16-bit and 8-bit floats, whose sums are float32 but for atomic updates of memory."""
MANTISSA = {"float16": 10, "bfloat16": 7}
ROUNDS = {"narrow_channels": 2.0**-5}
"""Passes that round values a user allows to be rounded -> what results may differ by, relative to the largest value of a tensor: exponentials
of scores up to 32 by half a step of float16 each. What comes after is compared with what such a pass leaves."""


@dataclass(frozen=True)
class Finding:
    """What is wrong after a pass.

    stage: name of the pass, ``tile_ir`` for what the front end made. message: what differs. statement: the user's `file:line` where
    it begins, if known.
    """

    stage: str
    message: str
    statement: str = ""

    def text(self) -> str:
        """One line for people."""
        where = f" (first at {self.statement})" if self.statement else ""
        return f"after {self.stage}: {self.message}{where}"


@dataclass(frozen=True)
class Validation:
    """`finding` is None if all of `stages` agree; `skipped` says why nothing, or not everything, was run. `last`: what the last of all stages
    did, None if it was not run."""

    finding: Finding | None
    stages: tuple[str, ...]
    skipped: str = ""
    last: Result | None = None


def tile_stages(stages: Sequence[tuple[str, Any]]) -> list[tuple[str, PrimFunc, bool]]:
    """(name, function, tiles have versions?) of the stages that are Tile IR and differ from the one before."""
    out: list = []
    versions = False
    for name, func in stages:
        if not isinstance(func, PrimFunc) or _is_lowered(func):
            break
        versions = versions or name == VERSIONED_FROM
        if not out or versions != out[-1][2] or not structural_equal(func, out[-1][1]):
            out.append((name, func, versions))
    return out


def _is_lowered(func: PrimFunc) -> bool:
    """A program that does nothing has no instructions, but may be told by what lowering notes."""
    return "ascend.num_workspaces" in (func.attrs or {}) or any(_is_instruction(s) for s in statements(func.body))


def _is_instruction(s) -> bool:
    """Also one whose value is bound; what names the core stands among tile ops, too."""
    name = op_name(s.value) if isinstance(s, (Bind, Evaluate)) else None
    return name is not None and name.startswith("ascend.") and not is_core_index(s.value)


def validate(
    stages: Sequence[tuple[str, Any]],
    args: Sequence[Any],
    budget: int | None = None,
    fresh: frozenset[str] = frozenset(),
    every: bool = True,
) -> Validation:
    """Interpret all `stages` (name, IR; the first is the front end's) on copies of `args`, which stand in parameter order.

    Stages of a kernel with several launches are validated launch by launch, each on what the ones before leave; all together must do what
    the first stage does.

    Args:
        budget: elements one run may touch; a kernel that takes more is skipped.
        fresh: names of tensors without contents.
        every: run every stage. Otherwise those between the first and the last that do not round are only run if there is a finding, to name its
            pass.
    """
    inputs = _Inputs(
        args, _sizes(stages[0][1], args), {p.name: np.zeros(a.shape, bool) for p, a in zip(stages[0][1].params, args) if p.name in fresh}
    )
    split = next((ir for _, ir in stages if isinstance(ir, IRModule)), None)
    run = _validate if split is None or len(launches(split)) == 1 else _validate_launches
    if not every:
        found = run(stages, inputs, budget, False)
        if found.finding is None:
            return found
    return run(stages, inputs, budget, True)


@dataclass(frozen=True)
class _Inputs:
    """args: in parameter order. sizes: shape variable -> its value. known: tensor -> which elements have a value; all of the others have."""

    args: Sequence[Any]
    sizes: dict
    known: dict


def _validate(stages: Sequence[tuple[str, Any]], inputs: _Inputs, budget: int | None, every: bool) -> Validation:
    found = tile_stages(stages)
    if not every:
        found = [stage for k, stage in enumerate(found) if k in (0, len(found) - 1) or stage[0] in ROUNDS]
    updated, steps = _updated(stages[0][1]), _narrow_steps(stages[0][1])
    names: list[str] = []
    first: Result | None = None
    for k, (name, func, versions) in enumerate(found):
        try:
            result = _run(func, versions, inputs, budget)
        except TooMuchWork:
            return Validation(None, tuple(names), f"more than {budget} elements are touched")
        except InterpreterError as error:
            return Validation(Finding(name, str(error)), tuple(names))
        names.append(name)
        if first is None:
            first = result
            continue
        rounds = name in ROUNDS
        message = difference(first, result, updated, _at_least(steps, first, ROUNDS[name]) if rounds else steps)
        if message is not None:
            where = _first_statement(found[k - 1], found[k], inputs)
            return Validation(Finding(name, message, where), tuple(names))
        if rounds:
            first, steps = result, _narrow_steps(func)
    return Validation(None, tuple(names), last=result)


def _validate_launches(stages: Sequence[tuple[str, Any]], inputs: _Inputs, budget: int | None, every: bool) -> Validation:
    (whole_name, whole), (split_name, module) = stages[:2]
    alone = _validate([(whole_name, whole)], inputs, budget, every)
    if alone.last is None:
        return alone
    names, results, now = [*alone.stages], [], inputs
    for k, part in enumerate(launches(module)):
        (func,) = part.functions.values()
        for p in func.params[len(now.args) :]:  # Workspaces the launches share.
            empty = poison(tuple(map(const_int, p.ty.shape)), numpy_dtype(p.ty.dtype))
            now = _Inputs([*now.args, empty], now.sizes, {**now.known, p.name: np.zeros(empty.shape, bool)})
        found = _validate([(split_name, func), *((n, ir) for n, ir in stages[2:] if launch_of(ir) == k)], now, budget, every)
        names += [f"launch {k + 1}: {name}" for name in found.stages]
        if found.last is None:
            finding = found.finding and replace(found.finding, stage=f"{found.finding.stage} of launch {k + 1}")
            return Validation(finding, tuple(names), found.skipped)
        results.append(found.last)
        now = _after(func, now, found.last)
    total = _together(alone.last, results)
    rounded = max((ROUNDS[name.rpartition(": ")[2]] for name in names if name.rpartition(": ")[2] in ROUNDS), default=0.0)
    message = difference(alone.last, total, _updated(whole), _at_least(_narrow_steps(whole), alone.last, rounded))
    return Validation(message and Finding(split_name, message), tuple(names), last=None if message else total)


def _after(func: PrimFunc, inputs: _Inputs, result: Result) -> _Inputs:
    """What the launch after `func` finds."""
    args, known = list(inputs.args), {}
    for k, p in enumerate(func.params):
        if p.name in result.tensors:
            left = _seen_as(result.tensors[p.name], args[k])
            args[k] = left.data
            if left.defined is not None:
                known[p.name] = left.defined
    return _Inputs(args, inputs.sizes, known)


def _together(whole: Result, parts: Sequence[Result]) -> Result:
    """What `parts` of a program did, one after the other, to the tensors of the whole."""
    total = Result()
    total.undefined = [span for r in parts for span in r.undefined]
    total.output = [text for r in parts for text in r.output]
    total.exponent_error = max((r.exponent_error for r in parts), default=0.0)
    for name, m in whole.tensors.items():
        left = _seen_as(parts[-1].tensors[name], m.data)
        writes = sum(_counts_as(r.tensors[name], m.data) for r in parts)
        total.tensors[name] = Memory(name, left.data, left.defined, writes)
    return total


def write_difference(last: Result, writes: Mapping[str, np.ndarray]) -> str | None:
    """Which elements of tensors a run of the compiled kernel wrote more or less often than its last Tile IR stage does; None if none.

    Args:
        last: what that stage did (`Validation.last`).
        writes: name of a tensor -> how often each of its bytes was written (`RunResult.writes`).
    """
    for name, m in last.tensors.items():
        if not m.data.size:
            continue
        want = np.minimum(m.writes, _MANY)
        have = writes[name].reshape(*m.data.shape, m.data.itemsize)
        wrong = (have != want[..., None]).any(-1)
        if wrong.any():
            at = tuple(np.argwhere(wrong)[0])
            return (
                f"{name}{_at(wrong)} is written {have[at].max()} times, not {want[at]} ({int(wrong.sum())} of {wrong.size} elements differ)"
            )
    return None


def value_difference(func: PrimFunc, last: Result, results: Mapping[str, np.ndarray]) -> str | None:
    """Which elements of tensors a run of the compiled kernel gave another value than its last Tile IR stage does; None if none.

    Args:
        func: what the front end made.
        last: what that stage did (`Validation.last`).
        results: name of a tensor -> what the run left in it.
    """
    updated, steps = _updated(func), _at_least(_narrow_steps(func), last, last.exponent_error)
    for name, m in last.tensors.items():
        have = results[name].reshape(-1).view(m.data.dtype).reshape(m.data.shape)
        wrong = ~close(m.data, have, name in updated, steps.get(name, 0.0)) & (True if m.defined is None else m.defined)
        if wrong.any():
            at = tuple(np.argwhere(wrong)[0])
            return f"{name}{_at(wrong)} is {have[at]}, not {m.data[at]} as in Tile IR ({int(wrong.sum())} of {wrong.size} elements differ)"
    return None


_MANY = 255
"""The machine does not count further."""


def difference(want: Result, have: Result, updated: frozenset[str] = frozenset(), steps: Mapping[str, float] = {}) -> str | None:
    """What `have` did otherwise than `want`, None if nothing that counts. Where `want` has no value any will do. `updated`: names of tensors
    with atomic updates, whose order is open. `steps`: see `_narrow_steps`.
    """
    for name, a in want.tensors.items():
        b = _seen_as(have.tensors[name], a.data)
        known = np.ones(a.data.shape, bool) if a.defined is None else a.defined
        lost = known & a.written & ~b.written
        if lost.any():
            return f"{name}{_at(lost)} is not written any more ({int(lost.sum())} of {int(a.written.sum())} elements)"
        if b.defined is not None and (known & ~b.defined).any():
            lost = known & ~b.defined
            return f"{name}{_at(lost)} is given a value that was never computed ({int(lost.sum())} elements)"
        wrong = known & ~close(a.data, b.data, name in updated, steps.get(name, 0.0))
        if wrong.any():
            at = tuple(np.argwhere(wrong)[0])
            return f"{name}{_at(wrong)} is {b.data[at]}, not {a.data[at]} ({int(wrong.sum())} of {wrong.size} elements differ)"
    if have.undefined and not want.undefined:
        return "a condition or an index depends on a value that was never computed"
    if want.output != have.output:
        return "it prints something else"
    return None


def close(a: np.ndarray, b: np.ndarray, updated: bool = False, step: float = 0.0) -> np.ndarray:
    """Where two arrays are equal, up to the order of sums; `updated`: of atomic updates, too. `step`: relative to the largest value, what
    they may differ by at least."""
    if not is_float(a.dtype):
        return a == b
    x, y = a.astype(np.float64), b.astype(np.float64)
    with np.errstate(all="ignore"):
        same = (x == y) | (np.isnan(x) & np.isnan(y))
        if same.all():
            return same
        finite = np.abs(x[np.isfinite(x)])
        # What is summed up has more bits than 8-bit floats, which it is rounded to in the end.
        bits = {2: 7 if a.dtype.kind == "V" or a.dtype.name == "bfloat16" else 10, 4: 23, 8: 52, 1: 10}[a.dtype.itemsize]
        step = max(step, 2.0**-bits * (ROUNDINGS if a.dtype.itemsize >= 4 or updated else NARROW_ROUNDINGS))
        last = _last_place(a.dtype, np.minimum(np.abs(x), np.abs(y))) if a.dtype.itemsize == 1 else 0.0
        return same | (np.abs(x - y) <= step * max(finite.max(initial=0.0), 2.0**-14) + last)


def _last_place(dtype: np.dtype, size: np.ndarray) -> np.ndarray:
    """How far 8-bit floats of these sizes are from the next larger one, at most."""
    info = ml_dtypes.finfo(dtype)
    return np.maximum(size * 2.0**-info.nmant, float(info.smallest_subnormal))


def _updated(func: PrimFunc) -> frozenset[str]:
    """Names of buffers with atomic updates."""
    return frozenset(s.value.args[0].source.name for s in statements(func.body) if is_atomic(s))


def _narrow_steps(func: PrimFunc) -> dict[str, float]:
    """Name of a buffer -> step of the last place of the 16-bit floats its values depend on that were wider before.

    Sums in another order may differ by a last place of float32, and round to 16-bit floats next to each other.
    """
    steps: dict = {}
    uses = [own_uses(s) for s in statements(func.body)]
    changed = True
    while changed:
        changed = False
        for u in uses:
            found = max((steps.get(b, 0.0) for b in u.reads), default=0.0)
            wide = any(dtype_of(b) == "float32" for b in u.reads)
            for b in u.writes:
                step = max(found, 2.0 ** -MANTISSA[dtype_of(b)] if wide and dtype_of(b) in MANTISSA else 0.0)
                if step > steps.get(b, 0.0):
                    steps[b], changed = step, True
    return {b.name: step for b, step in steps.items()}


def _at_least(steps: Mapping[str, float], result: Result, step: float) -> dict[str, float]:
    """`steps`, and no tensor's below `step`."""
    return {name: max(steps.get(name, 0.0), step) for name in {*steps, *result.tensors}}


def _run(func: PrimFunc, versions: bool, inputs: _Inputs, budget=None, log=False) -> Result:
    """One stage on copies of the arguments, in the shapes and dtypes its parameters have by now."""
    given, known = [], {}
    for p, a in zip(func.params, inputs.args):
        tensor = isinstance(a, np.ndarray) and a.ndim
        given.append(_argument(p, a, inputs.sizes) if tensor else a)
        if tensor and p.name in inputs.known:
            known[p.name] = _mask_as(inputs.known[p.name], a.itemsize, given[-1])
    return execute(func, given, versions, budget, log, clipped=True, sizes=inputs.sizes, known=known)


def _sizes(func: PrimFunc, args: Sequence[Any]) -> dict:
    """Shape variable -> its value."""
    whole = {
        d: int(n)
        for p, a in zip(func.params, args)
        if isinstance(a, np.ndarray) and a.ndim
        for d, n in zip(p.ty.shape, a.shape)
        if isinstance(d, Var)
    }
    return {**packed_sizes(func, args), **whole}


def _argument(p, a: np.ndarray, sizes: dict) -> np.ndarray:
    """A copy of `a` as the parameter `p` declares it: views of tensors in GM are resolved by another declaration."""
    known = {v: imm(n, dtype_of(v)) for v, n in sizes.items()}
    shape = tuple(const_int(sym.Analyzer().simplify(substitute_expr(d, known))) for d in p.ty.shape)
    dtype = numpy_dtype(p.ty.dtype)
    if None in shape or math.prod(shape) * dtype.itemsize != a.nbytes:
        return a.copy()
    return np.ascontiguousarray(a).copy().reshape(-1).view(dtype).reshape(shape)


def _seen_as(m: Memory, like: np.ndarray) -> Memory:
    """`m` in the shape and dtype of `like`, which has as many bytes."""
    if m.data.shape == like.shape and m.data.dtype == like.dtype:
        return m
    defined = None if m.defined is None else _mask_as(m.defined, m.data.itemsize, like)
    return Memory(m.name, m.data.reshape(-1).view(like.dtype).reshape(like.shape), defined, _mask_as(m.written, m.data.itemsize, like))


def _mask_as(mask: np.ndarray, itemsize: int, like: np.ndarray) -> np.ndarray:
    """What holds of all bytes of each element of `like`, given what holds of elements of `itemsize` bytes."""
    return _per_element(mask, itemsize, like).all(1).reshape(like.shape)


def _counts_as(m: Memory, like: np.ndarray) -> np.ndarray:
    """How often elements of `like` were written, by the byte written most often."""
    return _per_element(m.writes, m.data.itemsize, like).max(1, initial=0).reshape(like.shape)


def _per_element(of_elements: np.ndarray, itemsize: int, like: np.ndarray) -> np.ndarray:
    fine = np.gcd(itemsize, like.dtype.itemsize)
    return np.repeat(of_elements.reshape(-1), itemsize // fine).reshape(-1, like.dtype.itemsize // fine)


def _at(where: np.ndarray) -> list[int]:
    return [int(i) for i in np.argwhere(where)[0]] if where.ndim else []


def _first_statement(before: tuple, after: tuple, inputs: _Inputs) -> str:
    """`file:line` of the first statement that leaves another value in a buffer both stages have; "" if there is none."""
    logs = []
    for _, func, versions in (before, after):
        try:
            logs.append(_run(func, versions, inputs, log=True).stores)
        except InterpreterError:
            return ""
    later: dict = {}
    for span, name, shape, data in logs[1]:
        later.setdefault((span.line if span else 0, name), []).append((int(np.prod(shape)), data))
    seen: dict = {}
    for span, name, shape, data in logs[0]:
        key = (span.line if span else 0, name)
        k = seen[key] = seen.get(key, -1) + 1
        other = later.get(key, ())
        if k < len(other) and other[k][0] == int(np.prod(shape)) and other[k][1] != data and span is not None:
            return f"{span.source_name.name}:{span.line}"
    return ""


__all__ = ["Finding", "Validation", "close", "difference", "tile_stages", "validate", "value_difference", "write_difference"]
