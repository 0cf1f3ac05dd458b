"""Is a loop a sum relative to a running maximum, so that its steps may be taken several at a time?

What a loop over blocks of keys carries from step to step must be, for scores `s` of the keys `g` of one step,

* a maximum            m' = max(m, max over g of s[g]),
* sums relative to it  r' = r * E(c m - c m') + sum over g of E(c s[g] - c m') * w[g],   with E = exp or exp2, a constant c > 0,
* or plain sums        r' = r + sum over g of w[g],

where `s` and `w` are computed for each key from what no step changes. Two steps, and one step with the keys of both, then leave the same maximum
bit by bit, and, as E(x) E(y) = E(x + y), the same sums but for rounding. Every statement is followed with the values as polynomials over what they are
made of, so that names, and the order and shape of the statements, do not matter. Anything else is refused with a reason.

A score of -inf adds E(-inf) = 0. Rows that have had no other yet: `if m == -inf: 0 else m` in an exponent stands for m, because the exponentials that
it is for are 0 in either way, as is what is scaled by E(-inf - x).
"""

from __future__ import annotations

from ...ir import For, stmts_of
from ...tile.uses import on_chip
from .polynomials import ZERO, Atom, add, axis, is_pure, of_atom, renamed, scaled, single
from .split_axis import SplitPlan
from .step_values import NoRunningSum, StepValues, identity


def check_running_sums(loop: For, keys: SplitPlan, outside: set) -> None:
    """Raises `NoRunningSum` unless every buffer that `loop` carries, or leaves for the statements behind it (`outside`: buffers read out of the
    loop), is a maximum or a sum as above. `keys`: the dimension of tiles, and the loops of nests, that count the keys of one step."""
    values = StepValues(loop, keys)
    for s in stmts_of(loop.body):
        values.statement(s)
    for b in values.written:
        if b in values.found_old or b in outside:
            _check_carried(b, values, loop)


def _check_carried(b, values: StepValues, loop: For) -> None:
    if not on_chip(b):
        raise NoRunningSum(f"'{b.name}' is a variable that the loop changes", loop.span)
    if b in values.keys.dims:
        raise NoRunningSum(f"'{b.name}', which has the keys of one step, is used in another one or outside of the loop", loop.span)
    value = values.of[b]
    old = values.old(b, identity(b))
    if value == of_atom(old) or _is_maximum(value, old) or _is_sum(value, old, values):
        return
    raise NoRunningSum(f"what a step makes of '{b.name}' is no maximum and no sum that two steps could share", loop.span)


def _is_maximum(value, old: Atom) -> bool:
    """max(old, what does not depend on steps, greatest scores)"""
    found = single(value, "max")
    if found is None:
        return False
    others = [p for p in found.args if p != of_atom(old)]
    return len(others) + 1 == len(found.args) and all(is_pure(p) or _scores(p) is not None for p in others)


def _scores(p):
    """The scores of which `p` is the greatest of a step, None if it is none."""
    found = single(p, "key_max")
    return found.args[0] if found is not None and is_pure(found.args[0]) else None


def _is_sum(value, old: Atom, values: StepValues) -> bool:
    """old * E(c m - c m') + sums of E(c s - c m') * w, or old + sums of w"""
    kept = [(atoms, c) for atoms, c in value if old in atoms]
    added = [(atoms, c) for atoms, c in value if old not in atoms]
    if len(kept) != 1 or kept[0][1] != 1.0 or any(len(atoms) != 1 or atoms[0].kind != "key_sum" for atoms, _ in added):
        return False
    weights = [term for atoms, _ in added for term in atoms[0].args[0]]
    factors = [a for a in kept[0][0] if a != old]
    if not factors:
        return all(is_pure((term,)) for term in weights)
    if len(factors) != 1 or factors[0].kind != "exp" or len(kept[0][0]) != 2:
        return False
    reference = _reference(factors[0], values)
    return reference is not None and all(_is_weight(atoms, factors[0].args[0], *reference) for atoms, _ in weights)


def _reference(factor: Atom, values: StepValues):
    """(c, m', scores) of a factor E(c m - c m') between the old and the new value of a maximum that the loop carries; None if it is none."""
    terms = {atoms: c for atoms, c in factor.args[1]}
    ways = [(atoms[0], c) for atoms, c in terms.items() if len(atoms) == 1 and atoms[0].kind == "old" and c > 0]
    if len(terms) != 2 or len(ways) != 1:
        return None
    old, c = ways[0]
    b = values.buffer_of(old)
    back = {axis(d): i for d, i in enumerate(old.index)}
    new = single(values.of.get(b, ZERO), "max")
    if new is None or not _is_maximum(values.of[b], values.old(b, identity(b))):
        return None
    new = renamed(new, lambda i: back.get(i, i))
    if terms.get((new,)) != -c:
        return None
    scores = [s for p in new.args if (s := _scores(p)) is not None]
    return c, new, scores


def _is_weight(atoms: tuple, base: str, c: float, new: Atom, scores: list) -> bool:
    """True for E(c s - c m') * w with scores s of which m' is the maximum."""
    powers = [a for a in atoms if not is_pure(of_atom(a))]
    if len(powers) != 1 or powers[0].kind != "exp" or powers[0].args[0] != base:
        return False
    return any(powers[0].args[1] == add(scaled(s, c), scaled(of_atom(new), -c)) for s in scores)


__all__ = ["NoRunningSum", "check_running_sums"]
