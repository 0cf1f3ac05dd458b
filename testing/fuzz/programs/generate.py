"""Random programs. The same seed gives the same program on every machine."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from . import cells
from .atomics import Atomics
from .carried import Carried
from .jumps import Jumps
from .products import Products
from .scalars import Scalars
from .soup import Soup
from .tiles import TileOps
from .writer import Program

LAUNCHED_TWICE = 0.06
"""Share of the programs."""
ATTEMPTS = 60
"""How often a seed may write a program that means nothing."""

SCENES = {
    "product_scene": 0.26,
    "recurrence_scene": 0.13,
    "rows_scene": 0.05,
    "histogram_scene": 0.07,
    "mixed_scene": 0.06,
    "view_atomic_scene": 0.01,
    "gather_scene": 0.05,
    "matrix_scene": 0.12,
    "bits_scene": 0.03,
    "late_scene": 0.05,
    "element_scene": 0.06,
    "walk_scene": 0.04,
    "macro_scene": 0.03,
    "soup_scene": 0.14,
    "stream_scene": 0.03,
    "online_scene": 0.05,
    "jump_scene": 0.05,
}


class Generator(Products, Carried, Atomics, TileOps, Scalars, Soup, Jumps):
    """All scenes."""

    def case(self) -> Program:
        names = list(SCENES)
        weights = [SCENES[n] / sum(SCENES.values()) for n in names]
        body = []
        for _ in range(1 if self.chance(0.8) else 2):
            body += getattr(self, str(self.rng.choice(names, p=weights)))()
        return self.program(body)


def meaning(case: Program):
    """What the program leaves in its tensors; `cells.Discard` if it means nothing."""
    dtypes = {p.name: p.dtype for p in case.params}
    try:
        reference = cells.interpret(case.reference())
        return cells.expected(dtypes, reference, case.arrays())
    except (NameError, RecursionError) as error:
        raise cells.Discard(str(error)) from error


def launched_twice(case: Program) -> Program:
    """One of some seeds launches its kernel twice, if that means something."""
    if np.random.default_rng((case.seed, 2)).random() > LAUNCHED_TWICE:
        return case
    twice = replace(case, launches=2, tags=case.tags | {"two launches"})
    try:
        meaning(twice)
    except cells.Discard:
        return case
    return twice


def generate(seed: int) -> Program:
    """The program of a seed."""
    reasons = []
    for attempt in range(ATTEMPTS):
        case = Generator(seed, attempt).case()
        try:
            meaning(case)
        except cells.Discard as error:
            reasons.append(str(error))
            continue
        return launched_twice(case)
    raise AssertionError(f"seed {seed} writes nothing that means something: {reasons}")
