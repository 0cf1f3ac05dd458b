"""`python -m testing.mutants FIRST LAST`: which check notices which mistake in lowered programs.

Kernels of the fuzzer (`testing/fuzz`) are compiled, and each is run with one mistake in its lowered program: a statement that is missing, an
operand that begins elsewhere, a number that is one less or one more. Printed is what noticed:

    hazard    a check of the machine model
    writes    how often elements of tensors are written (`validate.write_difference`), and no hazard
    values    only a comparison of the results
    nothing   the results are the same
"""

from __future__ import annotations

import argparse
import os
import random
import sys
from collections import Counter
from dataclasses import replace

import numpy as np

from .fuzz import check  # which knows where `strict` is
from .fuzz.generate import generate

MUTANTS_OF_A_KERNEL = 12
MAX_INSTRUCTIONS = 200_000
BLOCK_BYTES = 32


def places(func) -> list[tuple]:
    """(number of the statement, kind, argument) of every mistake that can be made in a core function."""
    from strict import SYNC_OPS

    from tilelang_ascend.ir import Evaluate, TensorLoad, dtype_of, itemsize, op_name, statements

    out: list[tuple] = []
    for n, s in enumerate(statements(func.body)):
        if not isinstance(s, Evaluate) or not (op_name(s) or "").startswith("ascend."):
            continue
        if op_name(s) in SYNC_OPS:
            continue  # what `strict.surviving_mutants` is for
        out.append((n, "dropped", 0))
        for i, a in enumerate(s.value.args):
            if isinstance(a, TensorLoad):
                out.append((n, "one element further", i))
                if itemsize(dtype_of(a.source)) < BLOCK_BYTES:
                    out.append((n, "one block further", i))
            elif dtype_of(a) == "int32":
                out += [(n, "one less", i), (n, "one more", i)]
    return out


def mutant(func, place: tuple):
    """`func` with one mistake."""
    from tilelang_ascend.ir import (
        BufferLoad,
        Call,
        Evaluate,
        StmtMutator,
        TensorLoad,
        dtype_of,
        imm,
        itemsize,
        statements,
    )

    number, kind, arg = place
    target = statements(func.body)[number]

    class Change(StmtMutator):
        def visit_Evaluate(self, s: Evaluate):
            if not s.same_as(target):
                return s
            if kind == "dropped":
                return None
            args = list(s.value.args)
            a = args[arg]
            if isinstance(a, TensorLoad):
                step = 1 if kind == "one element further" else BLOCK_BYTES // itemsize(dtype_of(a.source))
                args[arg] = BufferLoad(a.source, [*a.indices[:-1], a.indices[-1] + step])
            else:
                args[arg] = a + imm(1 if kind == "one more" else -1)
            return Evaluate(Call(s.value.op, args, attrs=s.value.attrs, ret_ty="void", span=s.value.span), span=s.span)

    return func.with_body(Change()(func.body))


def examine(seed: int, rng: random.Random) -> list[tuple]:
    """(seed, statement, kind, who noticed) of some mutants of the kernel of a seed."""
    import strict

    import tilelang_ascend as tilelang
    from tilelang_ascend.errors import TilelangAscendError
    from tilelang_ascend.ir import IRModule, statements
    from tilelang_ascend.sim.validate import close

    case = generate(seed)
    func = check.trace(case.kernel())
    try:
        kernel = tilelang.compile(func, target=case.chip)
    except TilelangAscendError:
        return []
    arrays, scalars = check.arguments(func, case.arrays())
    options = replace(strict.STRICT, time=False, record_stream=False, max_instructions=MAX_INSTRUCTIONS)
    want, right = strict.launch(kernel.artifact, strict.entries_of(kernel.artifact), arrays, scalars, options)
    module = kernel.artifact.ascend_ir
    found = [(gv, place) for gv, core in module.functions.items() for place in places(core)]
    out = []
    for gv, place in rng.sample(found, min(MUTANTS_OF_A_KERNEL, len(found))):
        functions = dict(module.functions.items())
        statement = str(statements(functions[gv].body)[place[0]]).strip().splitlines()[-1]
        functions[gv] = mutant(functions[gv], place)
        try:
            have, result = strict.launch(kernel.artifact, strict.module_entries(IRModule(functions)), arrays, scalars, options)
        except Exception:  # noqa: BLE001  rejected before it runs, or bytes around a tensor were written
            out.append((seed, statement, place, "hazard"))
            continue
        if result.hazards:
            noticed = "hazard"
        elif any((result.writes[n] != right.writes[n]).any() for n in right.writes):
            noticed = "writes" if _differ(want, have, close) else "writes, values the same"
        else:
            noticed = "values" if _differ(want, have, close) else "nothing"
        out.append((seed, statement, place, noticed))
    return out


def _differ(want: dict, have: dict, close) -> bool:
    return not all(np.all(close(want[n], have[n])) for n in want)


def main() -> int:
    """Print a table, and the mistakes that only values tell."""
    parser = argparse.ArgumentParser(
        prog="python -m testing.mutants", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("first", type=int, help="first seed of the fuzzer")
    parser.add_argument("last", type=int, help="end of the range, not included")
    args = parser.parse_args()
    os.environ["TILELANG_DISABLE_CACHE"] = "1"
    rows: list[tuple] = []
    for seed in range(args.first, args.last):
        rows += examine(seed, random.Random(seed))
    kinds = sorted({place[1] for *_, place, _ in rows})
    who = ("hazard", "writes", "writes, values the same", "values", "nothing")
    counts = Counter((place[1], noticed) for *_, place, noticed in rows)
    print(f"{'':20}" + "".join(f"{w:>26}" for w in who))
    for kind in kinds:
        print(f"{kind:20}" + "".join(f"{counts[kind, w]:26}" for w in who))
    for seed, statement, place, noticed in rows:
        if noticed in ("values", "writes"):
            print(f"{noticed:7} seed {seed}, {place[1]} (argument {place[2]}): {statement[:150]}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
