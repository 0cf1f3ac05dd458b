"""Strict runs of random programs on chips with few cores, where passes do to small programs what they do to large ones elsewhere."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from functools import partial
from unittest import mock


def few_cores(name: str, cores: int):
    """A chip with so many vector cores."""
    from tilelang_ascend import arch

    chip = arch.get_chip(name)
    numbers = {
        "num_aiv": replace(chip.quantities["num_aiv"], value=cores),
        "num_aic": replace(chip.quantities["num_aic"], value=cores // 2),
    }
    return replace(chip, quantities={**chip.quantities, **numbers})


class _Scarce:
    """A chip with so little of a memory."""

    def __init__(self, nbytes: int):
        self.nbytes = nbytes

    def capacity_bytes(self, space) -> int:
        return self.nbytes


@contextmanager
def sums_in_parts(share: float = 1.0):
    """Inside, kernels are lowered as if L0C had room for this `share` of their accumulators, and as if that were not enough for any: they are made in
    parts where they can be, as large as half of that has room for, whatever is left for the last one."""
    from tilelang_ascend.ir import AllocBuffer, scope_of, statements
    from tilelang_ascend.ir.functions import fixed_bytes
    from tilelang_ascend.transform import pipeline

    from .check import before_nests

    def parted(run, ir, context):
        declared = (s.buffer for s in statements(ir.body) if isinstance(s, AllocBuffer))
        needed = sum(fixed_bytes(b) for b in declared if scope_of(b) == "local.l0c")
        return run(pipeline.SUMS, ir, context, chip=_Scarce(int(share * needed) - 1)) if needed else ir

    passes = sys.modules[pipeline.part_accumulators.__module__]
    with _all_large(passes), mock.patch.object(passes, "MUCH_SMALLER", 0), before_nests(parted):
        yield


def _all_large(module):
    """Inside, all accumulators are too large for the pass of a `module`."""
    return mock.patch.object(module, "large_sums", lambda sums, room: sorted(sums, key=lambda b: b.name))


@contextmanager
def sums_apart(every: bool):
    """Inside, kernels are lowered as if L0C had no room for any of their accumulators, nor for sums that go on: vector cores add up what products of a
    loop, or `every` single one, make."""
    from tilelang_ascend.transform import pipeline
    from tilelang_ascend.transform.driver import Apart

    usual = pipeline.run

    def run(passes, ir, context, **wanted):
        return usual(passes, ir, context, apart=Apart.ALL if every else Apart.LOOPS, **wanted)

    with mock.patch.object(pipeline, "run", run), _all_large(sys.modules[pipeline.separate_products.__module__]), sums_in_parts():
        yield


def scarce_l0c(seed: int):
    """The context for a program whose accumulators may have to do with less of L0C than there is."""
    ways = {1: partial(sums_in_parts, 1.7), 5: sums_in_parts, 3: partial(sums_apart, False), 7: partial(sums_apart, True)}
    return ways.get(seed % 8, nullcontext)()


def _lowered(func, chip, side_by_side: bool):
    """What a function becomes; with work on two tiles side by side, if that is asked for, legal and fits, whether it is worth it or not."""
    from tilelang_ascend import errors
    from tilelang_ascend.transform import pipeline

    if side_by_side:
        try:
            options = pipeline.Options(pair_tiles=True, pair_blocks=True, overlap_tiles=True)
            return pipeline.lower(func, chip, options=options, keep_stages=True)
        except errors.OutOfMemory:
            pass
    return pipeline.lower(func, chip, keep_stages=True)


def outcome(seed: int, where: str, text: str, models: Callable, arrays: dict, scalars: dict | None = None, notes: list | None = None):
    """(results by name, None) of a strict run of a program, (None, "refused: …" or what is wrong) if there is none.

    Args:
        where: the name of its source.
        models: seed -> the context in which it is lowered.
        notes: is given what the compiler tells.
    """
    from tilelang_ascend import errors

    from .check import located_refusal, trace

    sys.path[:0] = [p for p in ("testing/python/kernels",) if p not in sys.path]
    import strict

    rng = random.Random(seed)
    name, cores = rng.choice(("a2", "a2", "a3", "a5")), rng.choice((2, 4))
    try:
        func = trace(text, where)
        with models(seed), scarce_l0c(seed):
            lowered = _lowered(func, few_cores(name, cores), side_by_side=seed % 3 == 0)
        if notes is not None:
            notes += lowered.notes
        return strict.once(func, name, arrays, lowered, scalars)[0], None
    except errors.TilelangAscendError as error:
        return None, f"refused: {error.message if located_refusal(error) else repr(error)}"
    except Exception as error:  # noqa: BLE001  any error is a finding
        return None, f"{type(error).__name__}: {str(error)[:1500]}"


__all__ = ["few_cores", "outcome"]
