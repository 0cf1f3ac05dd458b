"""How far simulated times are from measured ones: the rows of docs/calibration.md by what bounds them.

`calibration.csv` has the rows that are compared. It is made from the tables of the page by
``python -m tilelang_ascend.sim.profile.bands docs/calibration.md``.
"""

from __future__ import annotations

import csv
import functools
import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from .layout import ErrorBand

ROWS = Path(__file__).with_name("calibration.csv")
FEW = 5
"""With fewer rows of a class its band says nothing."""
INSIDE = 0.9
"""Share of the rows that lie inside of a band."""


@dataclass(frozen=True)
class MeasuredRow:
    """One published measurement: what bounds it in the model, and simulated over published time."""

    name: str
    chip: str
    bound: str
    use: str
    ratio: float

    @property
    def error(self) -> float:
        """0.1: a tenth too long, or as much too short."""
        return math.exp(abs(math.log(self.ratio))) - 1


@functools.cache
def measured_rows() -> tuple[MeasuredRow, ...]:
    """All rows that are compared, fitted ones and those kept aside."""
    with ROWS.open(newline="", encoding="utf-8") as file:
        return tuple(MeasuredRow(**{**row, "ratio": float(row["ratio"])}) for row in csv.DictReader(file))


def error_band(bound: str, share: float, kernel_us: float, launch_us: float, between_cores: bool) -> ErrorBand:
    """The band around a simulated time.

    The part of the time in which the bound resource is in use (`share` of `kernel_us`) is as uncertain as the rows it bounds; all other time,
    the launch included, is as uncertain as rows bound by latency. No row measures flags between cores, and of some classes there is none:
    then the band is that of the worst row of all.

    Args:
        bound: class of `bound.bound_of`.
        between_cores: the critical path goes from core to core.
    """
    us = kernel_us + launch_us
    if between_cores:
        relative, rows, basis = _worst("none has flags between cores")
    else:
        own, rows, basis = _of_class(bound)
        rest, more, _ = _of_class("latency")
        part = share * kernel_us / us if us else 0.0
        relative = part * own + (1 - part) * rest if bound != "latency" else own
        if bound != "latency" and part < 1 - 0.05:
            rows, basis = rows + more, f"{basis}, {1 - part:.0%} of the time as latency-bound rows"
    return {"relative": relative, "low_us": us / (1 + relative), "high_us": us * (1 + relative), "rows": rows, "basis": basis}


def _of_class(bound: str) -> tuple[float, int, str]:
    """Error, number of rows, and which they are: of a class with fewer than `FEW` rows all, of one without any the worst one."""
    rows = measured_rows()
    own = [row for row in rows if row.bound == bound]
    if len(own) >= FEW:
        return _within(own), len(own), f"{bound}-bound rows"
    if own:
        return _within(rows), len(rows), f"all rows: only {len(own)} bound by {bound}"
    return _worst(f"none is bound by {bound}")


def _worst(why: str) -> tuple[float, int, str]:
    rows = measured_rows()
    return max(row.error for row in rows), len(rows), f"the worst of all rows: {why}"


def _within(rows: Sequence[MeasuredRow]) -> float:
    """The least error that so many rows do not exceed, neither of all nor of those kept from the fit."""
    found: list[float] = []
    for part in (rows, [row for row in rows if row.use == "aside"]):
        errors = sorted(row.error for row in part)
        if len(errors) >= FEW:
            found.append(errors[math.ceil(INSIDE * len(errors)) - 1])
    return max(found)


def rows_of_page(text: str) -> list[MeasuredRow]:
    """The compared rows of the tables of docs/calibration.md."""
    found = []
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if len(cells) == 9 and cells[-1] in ("fit", "aside"):
            bound = cells[7] if cells[7] == "latency" else cells[7].rpartition(" ")[0]
            found.append(MeasuredRow(cells[0], cells[2], bound, cells[8], float(cells[6])))
    return found


def main(argv: Sequence[str]) -> None:
    with ROWS.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(MeasuredRow.__dataclass_fields__)
        writer.writerows(
            (r.name, r.chip, r.bound, r.use, f"{r.ratio:.2f}") for r in rows_of_page(Path(argv[0]).read_text(encoding="utf-8"))
        )


if __name__ == "__main__":
    main(sys.argv[1:])
