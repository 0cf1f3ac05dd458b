"""`python -m testing.fuzz FIRST [LAST]`: check seeds; print a reduced script for the failing ones.

Seeds run in worker processes: a crash or a hang costs its seed. `--coverage` counts what kernels contain, without running.
"""

from __future__ import annotations

import argparse
import sys

EXAMPLES = 3
"""Kernels shown of each kind of failure or refusal."""


def main() -> int:
    """Exit status 1 if a seed fails."""
    parser = argparse.ArgumentParser(prog="python -m testing.fuzz", description=__doc__)
    parser.add_argument("first", type=int, nargs="?", default=0, help="seed, or first seed of a range")
    parser.add_argument("last", type=int, nargs="?", help="end of the range, not included")
    parser.add_argument("--text", type=int, default=4, metavar="N", help="run the emitted text of every Nth seed, 0: of none (needs g++)")
    parser.add_argument("--jobs", type=int, default=2, help="worker processes")
    parser.add_argument("--timeout", type=float, default=60, help="seconds a seed may take")
    parser.add_argument("--keep-going", action="store_true", help="do not stop at the first failure")
    parser.add_argument("--raw", action="store_true", help="do not reduce failing cases")
    parser.add_argument("--source", action="store_true", help="print the kernel and its reference, and stop")
    parser.add_argument("--coverage", action="store_true", help="print how many kernels have which feature, and stop")
    args = parser.parse_args()
    if args.coverage:
        from .coverage import table

        print(table(range(args.first, args.last or args.first + 200)))
        return 0
    seeds = range(args.first, args.first + 1 if args.last is None else args.last)
    if args.source:
        from .generate import generate

        for seed in seeds:
            case = generate(seed)
            print(f"# seed {seed}, chip {case.chip}{case.kernel()}\n{case.reference()}")
        return 0
    return run(seeds, args)


def run(seeds: range, args) -> int:
    """Check seeds in worker processes and report."""
    from tqdm import tqdm

    from .workers import check_seeds

    kinds: dict[str, list] = {}
    refusals: dict[str, list] = {}
    unknown = passed = 0
    with tqdm(total=len(seeds), unit="seed", disable=None) as bar:
        for result in check_seeds(seeds, args.text, args.jobs, args.timeout):
            bar.update()
            if result.kind == "":
                passed += 1
                unknown += result.unknown
            elif result.refused:
                refusals.setdefault(message_of(result.text), []).append(result.seed)
            else:
                kinds.setdefault(result.kind, []).append(result.seed)
                bar.write(f"seed {result.seed}: {result.kind}: {result.text.strip()[:400]}")
                if not args.raw and result.kind not in ("hang", "crash"):
                    bar.write(reduced_script(result.seed, args.text))
                if not args.keep_going:
                    break
            bar.set_postfix(failed=sum(map(len, kinds.values())), refused=sum(map(len, refusals.values())))
    failed = sum(map(len, kinds.values()))
    refused = sum(map(len, refusals.values()))
    print(f"{passed} of {len(seeds)} seeds passed, {failed} failed, {refused} were refused; "
          f"of the passed ones {unknown / max(passed, 1):.1%} of the elements hang on a rounding and were not compared")  # fmt: skip
    for title, found in (("failures", kinds), ("refusals", refusals)):
        for text, which in sorted(found.items(), key=lambda item: -len(item[1])):
            print(f"  {len(which):5d} {title[:-1]}: {text[:140]}  (seeds {', '.join(map(str, which[:EXAMPLES]))})")
    return 1 if failed else 0


def message_of(text: str) -> str:
    """The first line of a compiler error without its place."""
    return text.strip().splitlines()[0].split("error: ", 1)[-1]


def reduced_script(seed: int, every: int) -> str:
    """A script for a failing seed."""
    from .generate import generate
    from .shrink import fails, reduce_case, script

    text = bool(every) and seed % every == 0
    case = generate(seed)
    failure = fails(case, text)
    if failure is None:
        return f"seed {seed} passes when it is run again"
    return script(*reduce_case(case, failure, text), text)


if __name__ == "__main__":
    sys.exit(main())
