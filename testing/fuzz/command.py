"""The command line of a generator of programs: `python -m testing.fuzz.NAME FIRST LAST [--source]`."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Callable


def run(name: str, doc: str, check: Callable, program: Callable, source: Callable | None = None, others: tuple[str, ...] = ()) -> int:
    """Check seeds and report. Exit status 1 if one fails.

    Args:
        name: the module, below `testing.fuzz`.
        doc: what is said about it.
        check: seed -> None, "refused: …", one of `others` with or without a reason, or what is wrong.
        program: seed -> the text that is shown of a seed that fails.
        source: seed -> what `--source` shows; the same if None.
        others: outcomes that are no failure, besides refusals.
    """
    parser = argparse.ArgumentParser(
        prog=f"python -m testing.fuzz.{name}", description=doc, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("first", type=int)
    parser.add_argument("last", type=int)
    parser.add_argument("--source", action="store_true", help="print the programs only")
    args = parser.parse_args()
    failed, counts = [], Counter()
    for seed in range(args.first, args.last):
        if args.source:
            print(f"# {seed}\n{(source or program)(seed)}")
            continue
        outcome = check(seed)
        kind = "right" if outcome is None else outcome.split(":")[0]
        if kind in ("right", "refused", *others):
            counts[kind] += 1
            if kind == "refused":
                print(f"{seed} {outcome[:200]}", flush=True)
        else:
            failed.append(seed)
            print(f"--- {seed}: {outcome}\n{program(seed)}", flush=True)
    if not args.source:
        print(", ".join([*(f"{counts[kind]} {kind}" for kind in ("right", "refused", *others)), f"failed: {failed or 'none'}"]))
    return int(bool(failed))


__all__ = ["run"]
