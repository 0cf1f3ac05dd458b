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


def sums_in_parts():
    """Inside, kernels are lowered as if L0C had no room for their accumulators, which are made in parts where they can be."""
    from tilelang_ascend.ir import AllocBuffer, scope_of, statements
    from tilelang_ascend.ir.functions import fixed_bytes
    from tilelang_ascend.transform import pipeline

    from .check import before_nests

    def parted(run, ir, context):
        declared = (s.buffer for s in statements(ir.body) if isinstance(s, AllocBuffer))
        needed = sum(fixed_bytes(b) for b in declared if scope_of(b) == "local.l0c")
        return run(pipeline.SUMS, ir, context, chip=_Scarce(needed - 1)) if needed else ir

    return before_nests(parted)


@contextmanager
def sums_apart(every: bool):
    """Inside, kernels are lowered as if L0C had no room for any of their accumulators, nor for sums that go on: vector cores add up what products of a
    loop, or `every` single one, make."""
    from tilelang_ascend.transform import pipeline
    from tilelang_ascend.transform.driver import Apart

    usual, rewrites = pipeline.run, sys.modules[pipeline.separate_products.__module__]

    def run(passes, ir, context, **wanted):
        return usual(passes, ir, context, apart=Apart.ALL if every else Apart.LOOPS, **wanted)

    with mock.patch.object(pipeline, "run", run), mock.patch.object(rewrites, "large_sums", lambda sums, room: list(sums)), sums_in_parts():
        yield


def scarce_l0c(seed: int):
    """The context for a program whose accumulators may have to do with less of L0C than there is."""
    ways = {5: sums_in_parts, 3: partial(sums_apart, False), 7: partial(sums_apart, True)}
    return ways.get(seed % 8, nullcontext)()


def outcome(seed: int, where: str, text: str, models: Callable, arrays: dict, scalars: dict | None = None, notes: list | None = None):
    """(results by name, None) of a strict run of a program, (None, "refused: …" or what is wrong) if there is none.

    Args:
        where: the name of its source.
        models: seed -> the context in which it is lowered.
        notes: is given what the compiler tells.
    """
    from tilelang_ascend import errors
    from tilelang_ascend.transform import pipeline

    from .check import located_refusal, trace

    sys.path[:0] = [p for p in ("testing/python/kernels",) if p not in sys.path]
    import strict

    rng = random.Random(seed)
    name, cores = rng.choice(("a2", "a2", "a3", "a5")), rng.choice((2, 4))
    try:
        func = trace(text, where)
        with models(seed), scarce_l0c(seed):
            lowered = pipeline.lower(func, few_cores(name, cores), keep_stages=True)
        if notes is not None:
            notes += lowered.notes
        return strict.once(func, name, arrays, lowered, scalars)[0], None
    except errors.TilelangAscendError as error:
        return None, f"refused: {error.message if located_refusal(error) else repr(error)}"
    except Exception as error:  # noqa: BLE001  any error is a finding
        return None, f"{type(error).__name__}: {str(error)[:1500]}"


__all__ = ["few_cores", "outcome"]
