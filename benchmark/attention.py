"""Attention-class kernels, as GPU users write them, on the machine model: simulated time against the busiest unit's least time.

attention_cases.py has kernels and sizes, attention_bounds.py the bounds. Fast math, as in upstream's scripts. Launch overhead is left out. A bound by
the Fixpipe hangs on its 40 bytes a cycle, which are fitted: the last columns are bound and time with 20 % more of them. The forward with tiles of 128x128 is
there written by hand, too (handwritten/flash_attention.py), in the same run.
"""

import argparse
import time
from dataclasses import dataclass

from attention_bounds import least
from attention_cases import Case, all_cases

import tilelang_ascend as tilelang
from tilelang_ascend.sim.recording import Scale

FAST = {tilelang.PassConfigKey.TL_ENABLE_FAST_MATH: True}
FASTER = 1.2
"""How much faster the other Fixpipe is."""


@dataclass(frozen=True)
class Result:
    """Times in us without launch overhead."""

    case: Case
    took: float
    bound: float
    unit: str
    busy: dict
    other_took: float
    other_bound: float
    seconds: float
    by_hand: float | None

    @property
    def share(self) -> float:
        return self.bound / self.took

    @property
    def reached(self) -> bool:
        return self.took <= self.case.goal_us if self.case.goal_us else self.share >= self.case.goal

    @property
    def goal(self) -> str:
        return f"{self.case.goal_us:.0f} us" if self.case.goal_us else f"{self.case.goal:.2f}"


def measure(case: Case) -> Result:
    """Compile and simulate a case."""
    start = time.process_time()
    kernel = tilelang.compile(case.kernel(), out_idx=case.out, pass_configs=FAST)
    seconds = time.process_time() - start
    report = kernel.simulate(*case.arguments(), values=False, checks=False)
    launch = report.run.launch_us
    bound, unit = least(case.work, case.tasks)
    other, _ = least(case.work, case.tasks, fixpipe=40 * FASTER)
    faster = report.replay(Scale("rate", 1 / FASTER, pipe="FIX"))
    by_hand = case.by_hand() if case.by_hand else None
    return Result(case, report.simulated_us - launch, bound, unit, report.occupancy, faster - launch, other, seconds, by_hand)


def text(r: Result) -> str:
    """One line."""
    busy = ", ".join(f"{pipe} {100 * part:.0f}%" for pipe, part in sorted(r.busy.items(), key=lambda x: -x[1])[:3])
    by_hand = f"; by hand {r.by_hand:.1f} us, {r.by_hand / r.took:.2f} of its speed" if r.by_hand else ""
    return (
        f"{'  ' if r.reached else '! '}{r.case.name}: simulated {r.took:.1f} us, bound {r.bound:.1f} us ({r.unit}), {r.share:.2f} of it, goal {r.goal}; "
        f"busy {busy}; Fixpipe at {40 * FASTER:.0f} B: {r.other_took:.1f} us, {r.other_bound / r.other_took:.2f}; compiled in {r.seconds:.1f} s{by_hand}"
    )


def markdown(r: Result) -> str:
    """One row of the table of docs/performance.md."""
    faster = f"{r.other_took:.1f} | {r.other_bound / r.other_took:.2f}"
    return f"| {r.case.name} | {r.took:.1f} | {r.bound:.1f} | {r.unit} | {r.share:.2f} | {r.goal} | {faster} |"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pattern", nargs="?", default="", help="only cases whose name contains this")
    parser.add_argument("--markdown", action="store_true", help="print the table of docs/performance.md")
    parser.add_argument("--long", action="store_true", help="12 heads of 32768 keys, forward, too")
    args = parser.parse_args()
    show = markdown if args.markdown else text
    if args.markdown:
        print("| kernel | simulated us | bound us | by | share | goal | us, Fixpipe +20% | share |\n|---|---|---|---|---|---|---|---|")
    else:
        print("simulated on Ascend910B1, without launch overhead")
    for case in all_cases(args.long):
        if args.pattern in case.name:
            print(show(measure(case)), flush=True)


if __name__ == "__main__":
    main()
