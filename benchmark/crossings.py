"""What the paths between the cores of A5 are worth: attention-class kernels whose values cross on chip against the same through global memory, simulated.

Kernels and sizes are those of attention_cases.py, GPU source, unchanged; fast math as in upstream's scripts. Launch overhead is left out.
"""

import argparse

from attention_cases import Case, all_cases

import tilelang_ascend as tilelang

CHIP = "Ascend950PR_958x"
FAST = {tilelang.PassConfigKey.TL_ENABLE_FAST_MATH: True}


def simulated(case: Case, direct: bool) -> tuple[float, dict]:
    """(us, busy shares of pipes) of a case."""
    kernel = tilelang.compile(case.kernel(), out_idx=case.out, target=CHIP, pass_configs={**FAST, "tl.direct_channels": direct})
    report = kernel.simulate(*case.arguments(), values=False, checks=False)
    return report.simulated_us - report.run.launch_us, report.occupancy


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pattern", nargs="?", default="", help="only cases whose name contains this")
    parser.add_argument("--markdown", action="store_true", help="print the table of docs/performance.md")
    args = parser.parse_args()
    if args.markdown:
        print("| kernel | through GM, us | on chip, us | ratio | busiest pipes |\n|---|---|---|---|---|")
    else:
        print(f"simulated on {CHIP}, without launch overhead")
    for case in all_cases(False):
        if args.pattern not in case.name:
            continue
        (before, _), (after, busy) = (simulated(case, direct) for direct in (False, True))
        pipes = ", ".join(f"{pipe} {100 * part:.0f}%" for pipe, part in sorted(busy.items(), key=lambda x: -x[1])[:3])
        if args.markdown:
            print(f"| {case.name} | {before:.1f} | {after:.1f} | {after / before:.2f} | {pipes} |", flush=True)
        else:
            print(f"{case.name}: through GM {before:.1f} us, on chip {after:.1f} us, {after / before:.2f} of it; busy {pipes}", flush=True)


if __name__ == "__main__":
    main()
