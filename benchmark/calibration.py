"""Simulated times against published measurements of boards, and the fit of the constants of the chip data to them.

    python benchmark/calibration.py                 # every row, medians, order of variants
    python benchmark/calibration.py --markdown      # the tables of docs/calibration.md
    python benchmark/calibration.py gemm            # rows whose name contains a word
    python benchmark/calibration.py --fit           # fit the constants, and print what comes out; --write puts it into tilelang_ascend/arch

A third of the rows is kept from the fit, chosen by a hash of their names before anything was fitted. docs/calibration.md explains the tables.
"""

from __future__ import annotations

import argparse
import dataclasses
import hashlib
import math
import statistics
import sys
import time
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Mapping, Sequence

sys.path.insert(0, str(Path(__file__).resolve().parent))

import numpy as np
from calibration_rows import NOT_ROWS, Row, rows

from tilelang_ascend.arch import ChipSpec, get_chip
from tilelang_ascend.sim.profile.bound import bound_of

SUPPORT = 0.25
"""A row supports a constant when its time changes at least as this power of it. Times of cores that share HBM jump by a percent or two when
anything changes, so less is noise."""
PRIOR = 0.003
"""Weight of staying at the prior values: what rows do not determine does not move."""
SOFT = 0.1
"""Errors beyond count linearly, not by their squares: one row that says something else does not decide."""
STEP = 0.1
"""Relative step of the derivatives; smaller ones would measure that noise."""
FILES = Path(__file__).resolve().parent.parent / "tilelang_ascend" / "arch"
CLOSE = 0.01
"""Published times nearer than this have no order."""


@dataclass(frozen=True)
class Constant:
    """A number of the chip data that is fitted: where it stands, what it was before anything was fitted, and where it has to stay."""

    chips: str  # a family, or a SKU with a number of its own
    section: str  # table of the file
    key: str  # in that table
    prior: float
    least: float
    most: float
    note: str = ""  # what else its source has to say

    @property
    def flat(self) -> str:
        """Name among the numbers of a chip."""
        table = self.section.removeprefix("price.")
        return f"{table}_{self.key}" if self.section.startswith("price.") else self.key

    @property
    def name(self) -> str:
        return f"{self.chips} {self.flat}"


CONSTANTS = (
    Constant("a2", "time", "hbm_bytes_per_second", 1.49e12, 1.2e12, 1.8e12),
    Constant(
        "Ascend910B4",
        "sku.Ascend910B4",
        "hbm_bytes_per_second",
        0.96e12,
        0.4e12,
        1.0e12,
        "; that the tables count elements of each core is inferred",
    ),
    Constant("a2", "time", "launch_seconds", 3e-6, 1e-6, 2e-5),
    Constant("a2", "time", "issue_cycles", 4, 1, 30),
    Constant("a2", "time", "flag_cycles", 1, 1, 200),
    Constant("a2", "price.gm_to_ub", "interval_cycles", 21, 4, 60),
    Constant("a2", "price.gm_to_ub", "latency_cycles", 209, 50, 600),
    Constant("a2", "price.gm_to_ub", "bytes_per_cycle", 58, 20, 130),
    Constant("a2", "price.gm_to_ub", "hbm_bytes_per_cycle", 58, 20, 130),
    Constant("a2", "price.gm_to_ub", "burst_cycles", 1, 0.25, 10),
    Constant("a2", "price.ub_to_gm", "interval_cycles", 10, 1, 60),
    Constant("a2", "price.ub_to_gm", "latency_cycles", 180, 50, 600),
    Constant("a2", "price.ub_to_gm", "bytes_per_cycle", 109, 40, 200),
    Constant("a2", "price.gm_to_l1", "interval_cycles", 64, 8, 200),
    Constant("a2", "price.gm_to_l1", "latency_cycles", 209, 50, 600),
    Constant("a2", "price.gm_to_l1", "bytes_per_cycle", 78, 50, 200),
    Constant("a2", "price.gm_to_l1", "burst_cycles", 1, 0.25, 10),
    Constant("a2", "price.l0c_to_gm", "bytes_per_cycle", 40, 16, 128),
    Constant("a2", "time", "cross_core_flag_cycles", 300, 50, 1000),
    Constant("a2", "price.mmad", "latency_cycles", 6, 1, 20),
    Constant("a2", "price.simple", "latency_cycles", 24, 4, 60),
    Constant("a2", "price.transcendental", "latency_cycles", 31, 4, 60),
    Constant("a2", "price.whole_reduce", "latency_cycles", 46, 4, 80),
    Constant("a2", "ub_banks", "ub_bank_write_penalty_cycles", 0.79, 0.2, 2),
    Constant("a2", "ub_banks", "ub_bank_broadcast_cycles", 1.69, 1, 3),
    Constant("a2", "price.scalar_load", "interval_cycles", 10, 2, 40),
    Constant("Ascend950PR_958x", "sku.Ascend950PR_958x", "hbm_bytes_per_second", 1.637e12, 1.2e12, 2.0e12),
    Constant("a5", "price.gm_to_ub", "interval_cycles", 13, 4, 60),
    Constant("a5", "price.gm_to_ub", "bytes_per_cycle", 50, 20, 130),
    Constant("a5", "price.gm_to_ub", "hbm_bytes_per_cycle", 50, 20, 130),
    Constant("a5", "price.gm_to_l1", "interval_cycles", 64, 8, 200),
    Constant("a5", "price.gm_to_l1", "bytes_per_cycle", 100, 50, 200),
    Constant("a5", "price.gm_to_l1", "burst_cycles", 1, 0.25, 10),
)


def held_out(row: Row) -> bool:
    """One row in three: its name decides."""
    return hashlib.sha256(row.name.encode()).digest()[0] % 3 == 0


def fitted(row: Row) -> bool:
    return not row.unfitted and not held_out(row)


def belongs(constant: Constant, chip: ChipSpec) -> bool:
    """Does the constant stand in what the chip's data are made of?"""
    if constant.chips == chip.name:
        return True
    families = {"a2": ("a2", "a3", "a5"), "a3": ("a3",), "a5": ("a5",)}.get(constant.chips, ())
    return chip.family in families and chip.quantities[constant.flat] == get_chip(constant.chips).quantities[constant.flat]


CUBE, VECTOR = ("gm_to_l1", "l0c_to_gm", "mmad"), ("gm_to_ub", "ub_to_gm", "simple", "transcendental", "whole_reduce", "ub_bank")


def concerns(constant: Constant, program) -> bool:
    """Can the program have instructions of the constant's class?"""
    kinds = {launch.kernel_type for launch in program.launches}
    return not (constant.flat.startswith(VECTOR) and kinds == {"aic_only"} or constant.flat.startswith(CUBE) and kinds == {"aiv_only"})


def chip_with(name: str, values: Mapping[Constant, float]) -> ChipSpec:
    """The chip with fitted numbers laid over its own."""
    chip = get_chip(name)
    quantities = dict(chip.quantities)
    for constant, value in values.items():
        if belongs(constant, chip):
            quantities[constant.flat] = dataclasses.replace(quantities[constant.flat], value=value)
    return dataclasses.replace(chip, quantities=quantities)


@dataclass
class Simulated:
    """A row on the machine model, in the unit of what was published."""

    row: Row
    value: float
    bound: str

    @property
    def ratio(self) -> float:
        return self.value / self.row.published


_RUNS: dict = {}


def _run(program, chip: ChipSpec, warm: bool):
    """Rows may share a program."""
    key = (id(program), chip.to_json(), warm)
    if key not in _RUNS:
        _RUNS[key] = dataclasses.replace(program.run(chip, warm), per_core=(), core_names=())
    return _RUNS[key]


def simulate(row: Row, values: Mapping[Constant, float] | None = None) -> Simulated:
    """Run one row."""
    chip = chip_with(row.chip, values or {})
    run = _run(row.program(), chip, row.warm)
    if row.what in ("cycles", "pipe"):
        value = (run.cycles - (chip.issue_cycles if row.what == "pipe" else 0)) * row.times
    else:
        value = (run.simulated_us - run.launch_us) * row.times + (run.launch_us if row.what == "launch" else 0)
    return Simulated(row, value, limit(chip, run))


def limit(chip: ChipSpec, run) -> str:
    """What the model says bounds a run: HBM or L2 if that share of their bandwidth is used, else the busiest pipe."""
    name, share = bound_of(chip, run)
    return name if name == "latency" else f"{name} {share:.0%}"


def pairs(results: Sequence[Simulated], only_variants: bool = True) -> tuple[int, int, list[str]]:
    """Pairs of one group whose order is right, all pairs that have an order, and the wrong ones. Other pairs than those of variants
    differ in size or dtype."""
    groups: dict[str, list[Simulated]] = {}
    for r in results:
        if r.row.variant or not only_variants:
            groups.setdefault(r.row.group, []).append(r)
    right, total, wrong = 0, 0, []
    for group in groups.values():
        for a, b in combinations(group, 2):
            if (a.row.program() is b.row.program() and a.row.times == b.row.times) or a.row.what != b.row.what:
                continue
            if abs(math.log(a.row.published / b.row.published)) < CLOSE:
                continue
            total += 1
            if (a.value < b.value) == (a.row.published < b.row.published):
                right += 1
            else:
                wrong.append(f"{a.row.name} / {b.row.name}")
    return right, total, wrong


def median_error(results: Sequence[Simulated]) -> float:
    return statistics.median(abs(r.ratio - 1) for r in results) if results else math.nan


# ---- the fit ---------------------------------------------------------------------------------------------------------------


def weights(table: Sequence[Row]) -> np.ndarray:
    """Groups weigh the same, whatever the number of their rows."""
    sizes: dict[str, int] = {}
    for row in table:
        sizes[row.group] = sizes.get(row.group, 0) + 1
    return np.array([1 / math.sqrt(sizes[row.group]) for row in table])


@dataclass
class Fitted:
    """What came out for one constant: `support` are the rows whose time depends on it, with the exponent; `free` is the range in which
    no row's error gets worse by more than the least share that counts."""

    value: float
    support: list[str]
    free: tuple[float, float] | None = None


class Fit:
    """Weighted least squares of the logarithms of the ratios, with a soft L1 loss, by Gauss-Newton from the prior values."""

    def __init__(self, table: Sequence[Row], constants: Sequence[Constant] = CONSTANTS, ranges: bool = False):
        self.table, self.constants, self.ranges = table, constants, ranges
        self.weight = weights(table)
        self.start, self.low, self.high = (np.log(xs) for xs in zip(*((c.prior, c.least, c.most) for c in constants)))
        self.touches = np.array([[belongs(c, get_chip(row.chip)) and concerns(c, row.program()) for c in constants] for row in table])

    def residual(self, point, ask=None) -> np.ndarray:
        values = {c: math.exp(x) for c, x in zip(self.constants, point)}
        return np.array([math.log(simulate(self.table[i], values).ratio) for i in (range(len(self.table)) if ask is None else ask)])

    def objective(self, residual, point) -> float:
        return float(
            np.sum(self.weight * 2 * (np.sqrt(1 + (residual / SOFT) ** 2) - 1) * SOFT**2) + PRIOR * np.sum((point - self.start) ** 2)
        )

    def jacobian(self, point, now, sensitive) -> np.ndarray:
        out = np.zeros(sensitive.shape)
        for k in range(len(self.constants)):
            ask = np.flatnonzero(sensitive[:, k])
            delta = STEP if point[k] + STEP <= self.high[k] else -STEP
            moved = point.copy()
            moved[k] += delta
            out[ask, k] = (self.residual(moved, ask) - now[ask]) / delta
        return out

    def run(self, rounds: int = 5) -> dict[Constant, Fitted]:
        point, sensitive = self.start.copy(), self.touches
        now = self.residual(point)
        best = self.objective(now, point)
        for step in range(rounds):
            jacobian = self.jacobian(point, now, sensitive)
            if step == 0:
                sensitive = sensitive & (np.abs(jacobian) >= SUPPORT)
            jacobian = np.where(sensitive, jacobian, 0)
            robust = self.weight / np.sqrt(1 + (now / SOFT) ** 2)
            left = jacobian.T @ (robust[:, None] * jacobian) + PRIOR * np.eye(len(point))
            move = np.clip(np.linalg.solve(left, -jacobian.T @ (robust * now) - PRIOR * (point - self.start)), -0.5, 0.5)
            for scale in (1, 0.5, 0.25):
                there = np.clip(point + scale * move, self.low, self.high)
                then = self.residual(there)
                if self.objective(then, there) < best:
                    break
            else:
                break
            gained, best = best - self.objective(then, there), self.objective(then, there)
            point, now = there, then
            error = np.median(np.abs(np.exp(now) - 1))
            print(f"round {step + 1}: median error {error:.1%}, objective {best:.4f}", file=sys.stderr, flush=True)
            if gained < 2e-3 * best:
                break
        jacobian = self.jacobian(point, now, sensitive)
        return {c: self.found(k, point, now, jacobian[:, k]) for k, c in enumerate(self.constants)}

    def found(self, k: int, point, now, slopes) -> Fitted:
        order = np.argsort(-np.abs(slopes))
        support = [f"{self.table[i].name} ({slopes[i]:+.2f})" for i in order if abs(slopes[i]) >= SUPPORT]
        value = _rounded(math.exp(point[k]))
        return Fitted(value, support) if support else Fitted(self.constants[k].prior, [], self.free_range(k, point, now))

    def free_range(self, k: int, point, now) -> tuple[float, float]:
        """How far a constant without support may go before a row gets worse by 3 %."""
        if not self.ranges:
            return math.nan, math.nan
        ends = []
        ask = np.flatnonzero(self.touches[:, k])
        for limit in (self.low[k], self.high[k]):
            end = point[k]
            for x in np.linspace(point[k], limit, 4)[1:]:
                moved = point.copy()
                moved[k] = x
                if np.any(np.abs(self.residual(moved, ask)) > np.abs(now[ask]) + 0.03):
                    break
                end = x
            ends.append(_rounded(math.exp(end)))
        return ends[0], ends[1]


def _rounded(value: float) -> float:
    return float(f"{value:.3g}")


def write(found: Mapping[Constant, Fitted]) -> None:
    """Put what was found into the files of the chip data, with the rows behind it."""
    for constant, result in found.items():
        if not result.support:
            continue
        path = FILES / f"{get_chip(constant.chips).family}.toml"
        lines = path.read_text(encoding="utf-8").splitlines()
        head = lines.index(f"[{constant.section}]")
        at = next(i for i in range(head, len(lines)) if lines[i].startswith(f"{constant.key} = "))
        names = "; ".join(s.rsplit(" (", 1)[0] for s in result.support[:3])
        more = f" and {len(result.support) - 3} more" if len(result.support) > 3 else ""
        value = f"{result.value:.3e}".replace("e+", "e") if not 1e-3 <= result.value < 1e6 else f"{result.value:g}"
        lines[at] = f'{constant.key} = [{value}, "measured: fitted (benchmark/calibration.py) to {names}{more}, hardware 6{constant.note}"]'
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")


# ---- printing --------------------------------------------------------------------------------------------------------------


def use(row: Row) -> str:
    return "-" if row.unfitted else "aside" if held_out(row) else "fit"


def cells(r: Simulated) -> tuple[str, ...]:
    """A row of the table: what was measured, published and simulated time, ratio, bound, use."""
    unit = "cycles" if r.row.what in ("cycles", "pipe") else "us"
    return (r.row.name, f"{r.row.published:.5g} {unit}", f"{r.value:.5g} {unit}", f"{r.ratio:.2f}", r.bound, use(r.row))


def markdown_row(r: Simulated) -> str:
    """The same for docs/calibration.md, with source, chip and tiling."""
    name, *times = cells(r)
    note = f"{r.row.tiling}; {r.row.unfitted}" if r.row.unfitted else r.row.tiling
    return "| " + " | ".join((name, r.row.source, r.row.chip.removeprefix("Ascend"), note, *times)) + " |"


def print_rows(results: Sequence[Simulated], markdown: bool) -> None:
    if markdown:
        print(
            "| measurement | source | chip | tiling | published | simulated | ratio | bound | use |\n|---|---|---|---|---|---|---|---|---|"
        )
    for r in results:
        if markdown:
            print(markdown_row(r))
        else:
            print("{:58s} {:>16s} {:>16s} {:>6s}  {:14s} {}".format(*cells(r)))


def print_constants(found: Mapping[Constant, Fitted], markdown: bool) -> None:
    if markdown:
        print("| constant | before | fitted | rows that support it (exponent) |\n|---|---|---|---|")
    for c, r in found.items():
        why = "; ".join(r.support[:3]) + (f"; {len(r.support) - 3} more" if len(r.support) > 3 else "")
        if not r.support:
            why = "none" if math.isnan(r.free[0]) else f"none; {r.free[0]:g} to {r.free[1]:g} would make no row worse by more than 3 %"
        if markdown:
            print(f"| {c.name} | {c.prior:g} | {r.value:g} | {why} |")
        else:
            print(f"{c.name:45s} {c.prior:10.4g} -> {r.value:10.4g}  {why}")
    print()


def print_summary(results: Sequence[Simulated]) -> None:
    parts = {
        "fitted rows": [r for r in results if use(r.row) == "fit"],
        "rows kept aside": [r for r in results if use(r.row) == "aside"],
        "rows that are not compared for a reason of their own": [r for r in results if use(r.row) == "-"],
    }
    for name, part in parts.items():
        if part:
            beyond = sum(not 1 / 1.5 <= r.ratio <= 1.5 for r in part)
            print(f"* {len(part)} {name}: median error {median_error(part):.1%}, {beyond} beyond a factor of 1.5")
    groups: dict[str, list[Simulated]] = {}
    for r in results:
        groups.setdefault(r.row.group, []).append(r)
    print(
        f"* median over {len(groups)} kernels of the median error of their rows: {statistics.median(map(median_error, groups.values())):.1%}"
    )
    for what, only in (("two variants of a kernel", True), ("two rows of a group, sizes and dtypes included", False)):
        right, total, wrong = pairs(results, only)
        if total:
            print(f"* order of {what}: {right} of {total} pairs right ({right / total:.1%})" + ("; wrong are" if wrong else ""))
        for pair in wrong:
            print(f"    - {pair}")
    print_slope(results)


def print_slope(results: Sequence[Simulated]) -> None:
    """Both tables of additions: us for a thousand more elements of each core."""
    slopes = []
    for table in ("add table 1", "add table 2"):
        part = [r for r in results if r.row.group == table]
        if len(part) < 2:
            return
        sizes = [float(r.row.name.split(", ")[1].split("k")[0]) for r in part]
        slopes.append(
            [np.polyfit(sizes, [getattr(x, "value", 0) or 0 for x in part], 1)[0], np.polyfit(sizes, [x.row.published for x in part], 1)[0]]
        )
    (s1, p1), (s2, p2) = slopes
    print(f"* slope of table 2 over table 1 of the additions: simulated {s2 / s1:.2f}, published {p2 / p1:.2f}")


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pattern", nargs="?", default="", help="only rows whose name contains this")
    parser.add_argument("--quick", action="store_true", help="only rows that need no more than a tenth of a second")
    parser.add_argument("--fit", action="store_true", help="fit the constants to the rows that are not kept aside")
    parser.add_argument("--ranges", action="store_true", help="and say of numbers without support what would be noticed: some minutes more")
    parser.add_argument("--write", action="store_true", help="and put them into tilelang_ascend/arch")
    parser.add_argument("--markdown", action="store_true", help="print the tables of docs/calibration.md")
    parser.add_argument("--verbose", action="store_true", help="print how long each row takes")
    args = parser.parse_args(argv)
    table = [row for row in rows(args.quick) if args.pattern in row.name]
    if args.fit:
        found = Fit([row for row in table if fitted(row)], ranges=args.ranges).run()
        print_constants(found, args.markdown)
        if args.write:
            write(found)
        values = {c: result.value for c, result in found.items()}
    else:
        values = {}
    results = []
    for row in table:
        begin = time.perf_counter()
        results.append(simulate(row, values))
        if args.verbose:
            print(f"{time.perf_counter() - begin:6.2f} s  {row.name}", file=sys.stderr)
    print_rows(results, args.markdown)
    print()
    print_summary(results)
    if args.markdown:
        print("\n| published | why it is no row |\n|---|---|")
        for what, why in NOT_ROWS:
            print(f"| {what} | {why} |")


if __name__ == "__main__":
    main()
