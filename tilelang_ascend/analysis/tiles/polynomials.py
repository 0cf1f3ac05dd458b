"""Values of tile elements as polynomials over what they are made of, in a normal form: equal polynomials are equal values of real numbers.

A polynomial is a sorted tuple of terms ((atom, …), coefficient). Atoms are

* old: an element of what the step before left in a buffer;          * known: something that steps do not change;
* mixed: something that depends on steps, and in a way unknown;      * exp: an exponential of a polynomial;
* max: the greatest of some polynomials;                             * guard: a polynomial, or a number where it is -inf;
* key_sum, key_max, key_other: a polynomial summed up, or otherwise reduced, over the keys of one step (`KEY` in its indices).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Callable

INFINITY = float("inf")
KEY = "key"
"""The index that is summed over."""
MOST_TERMS = 16
"""Products of sums with more terms are not multiplied out."""


@dataclass(frozen=True)
class Atom:
    """kind: see above. args: polynomials, names, numbers. index: of the element."""

    kind: str
    args: tuple
    index: tuple = ()


def axis(d: int) -> str:
    """The index of an element along dimension `d` of the buffer it is in."""
    return f"axis {d}"


def _normal(terms: dict) -> tuple:
    return tuple(sorted(((atoms, c) for atoms, c in terms.items() if c != 0.0), key=repr))


ZERO: tuple = ()


def constant(c: float) -> tuple:
    return _normal({(): c})


def const_of(p: tuple) -> float | None:
    """The number a polynomial is, None if it is none."""
    if not p:
        return 0.0
    return p[0][1] if len(p) == 1 and p[0][0] == () else None


def of_atom(a: Atom) -> tuple:
    """The polynomial that is an atom."""
    return (((a,), 1.0),)


def single(p: tuple, kind: str) -> Atom | None:
    """The atom of a kind that `p` is, None if it is something else."""
    if len(p) != 1 or p[0][1] != 1.0 or len(p[0][0]) != 1 or p[0][0][0].kind != kind:
        return None
    return p[0][0][0]


def add(a: tuple, b: tuple) -> tuple:
    terms = dict(a)
    for atoms, c in b:
        terms[atoms] = terms.get(atoms, 0.0) + c
    return _normal(terms)


def scaled(p: tuple, c: float) -> tuple:
    return _normal({atoms: x * c for atoms, x in p})


def product(a: tuple, b: tuple) -> tuple:
    if len(a) * len(b) > MOST_TERMS:
        pure = is_pure(a) and is_pure(b)
        return of_atom(Atom("known" if pure else "mixed", ("product", a, b)))
    terms: dict = {}
    for x, c in a:
        for y, d in b:
            atoms = tuple(sorted((*x, *y), key=repr))
            terms[atoms] = terms.get(atoms, 0.0) + c * d
    return _normal(terms)


def greatest(parts: list) -> tuple:
    """The maximum of polynomials; maxima inside are taken apart, and -inf is left out."""
    args: set = set()
    for p in parts:
        found = single(p, "max")
        args |= set(found.args) if found is not None else {_within(p)}
    args.discard(constant(-INFINITY))
    if len(args) == 1:
        return next(iter(args))
    return of_atom(Atom("max", tuple(sorted(args, key=repr)))) if args else constant(-INFINITY)


def _within(p: tuple) -> tuple:
    """`c * greatest of s` as the greatest of `c * s`, for c > 0."""
    if len(p) == 1 and p[0][1] > 0 and len(p[0][0]) == 1 and p[0][0][0].kind == "key_max":
        return of_atom(over_keys("key_max", scaled(p[0][0][0].args[0], p[0][1])))
    return p


def over_keys(kind: str, p: tuple) -> Atom:
    """A sum, or another reduction, of `p` over `KEY`."""
    return Atom(kind, (p,))


def exponential(base: str, p: tuple) -> Atom:
    """`base(p)`; a guard against -inf inside stands for what it guards."""
    bare = ZERO
    for atoms, c in p:
        found = atoms[0] if len(atoms) == 1 and atoms[0].kind == "guard" else None
        bare = add(bare, _normal({atoms: c}) if found is None else scaled(found.args[0], c))
    return Atom("exp", (base, bare))


def is_pure(p: tuple) -> bool:
    """True if nothing that steps change is in a polynomial, and no reduction over the keys of one."""
    return all(_is_pure(a) for atoms, _ in p for a in atoms)


def _is_pure(a: Atom) -> bool:
    if a.kind in ("exp", "max", "guard"):
        return all(is_pure(p) for p in a.args if isinstance(p, tuple))
    return a.kind == "known"


def renamed(x: Any, index: Callable):
    """An atom or a polynomial with `index(i)` for every index i."""
    if isinstance(x, Atom):
        args = tuple(renamed(p, index) if isinstance(p, tuple) else p for p in x.args)
        if x.kind == "max":
            args = tuple(sorted(args, key=repr))
        return Atom(x.kind, args, tuple(map(index, x.index)))
    terms: dict = {}
    for atoms, c in x:
        new = tuple(sorted((renamed(a, index) for a in atoms), key=repr))
        terms[new] = terms.get(new, 0.0) + c
    return _normal(terms)


__all__ = [
    "INFINITY",
    "KEY",
    "ZERO",
    "Atom",
    "add",
    "axis",
    "const_of",
    "constant",
    "exponential",
    "greatest",
    "is_pure",
    "of_atom",
    "over_keys",
    "product",
    "renamed",
    "scaled",
    "single",
]
