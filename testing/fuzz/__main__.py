"""`python -m testing.fuzz FIRST [LAST]`: check seeds; print a reduced script for the failing ones."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time

CHUNK = 200
"""Seeds of one process: compiled host programs stay in memory until the process ends."""


def in_chunks(first: int, last: int) -> int:
    """Run a long range as a sequence of processes; stops where one of them would."""
    flags = sys.argv[1:]
    for bound in (first, last):
        flags.remove(str(bound))
    status = 0
    for start in range(first, last, CHUNK):
        part = [str(start), str(min(start + CHUNK, last)), *flags]
        status |= subprocess.run([sys.executable, "-m", "testing.fuzz", *part], check=False).returncode
        if status and "--keep-going" not in flags:
            break
    return status


def main() -> int:
    """Exit status 1 if a seed fails."""
    parser = argparse.ArgumentParser(prog="python -m testing.fuzz", description=__doc__)
    parser.add_argument("first", type=int, help="seed, or first seed of a range")
    parser.add_argument("last", type=int, nargs="?", help="end of the range, not included")
    parser.add_argument(
        "--text", type=int, default=0, metavar="N", help="run the emitted text of every Nth seed (needs g++)"
    )
    parser.add_argument("--keep-going", action="store_true", help="do not stop at the first failure")
    parser.add_argument("--refused", action="store_true", help="count constructs the compiler refuses as failures")
    parser.add_argument("--source", action="store_true", help="print the program and stop")
    parser.add_argument("--raw", action="store_true", help="do not reduce failing cases")
    args = parser.parse_args()
    if args.last is not None and args.last - args.first > CHUNK:
        return in_chunks(args.first, args.last)
    os.environ["TILELANG_DISABLE_CACHE"] = "1"
    from .generate import generate
    from .shrink import fails, reduce_case, script

    failed, refused, began = 0, 0, time.monotonic()
    seeds = range(args.first, args.first + 1 if args.last is None else args.last)
    for seed in seeds:
        case = generate(seed)
        if args.source:
            print(case.source())
            continue
        text = args.text > 0 and seed % args.text == 0
        failure = fails(case, text)
        if failure is None:
            continue
        if failure.refused and not args.refused:
            refused += 1
            continue
        failed += 1
        print(f"seed {seed}: {failure.kind}: {failure.text.strip()[:400]}", flush=True)
        if not args.raw:
            print(script(reduce_case(case, failure, text), failure), flush=True)
        if not args.keep_going:
            break
    print(
        f"{failed} of {len(seeds)} seeds failed, {refused} were refused, {time.monotonic() - began:.0f} s",
        file=sys.stderr,
    )
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
