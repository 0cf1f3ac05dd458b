"""Tables of a report: made of whatever `SimulationReport.to_dict()` holds, so that new keys show without a change here."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, Mapping

MOST_ROWS = 200
"""Rows a table shows."""
_SHARES = ("share", "relative")


@dataclass
class Cell:
    """A value as text; `other`: what the run it is compared with has there."""

    text: str
    other: str = ""
    number: bool = False


@dataclass
class Table:
    """A heading, names of columns, rows of cells. lines: of each row the source line it belongs to, 0 for none; more: rows left out."""

    title: str
    columns: list[str]
    rows: list[list[Cell]] = field(default_factory=list)
    lines: list[int] = field(default_factory=list)
    more: int = 0
    compared: bool = False


def tables_of(report: Mapping[str, Any], other: Mapping[str, Any] | None = None) -> list[Table]:
    """One table for the plain values of a report, one for each record and each list in it, in its own order."""
    compared = other is not None
    summary = Table("Summary", ["", *(["this run", "other run"] if compared else ["value"])], compared=compared)
    tables = [summary]
    _walk("", report, other, summary, tables)
    return [t for t in tables if t.rows]


def _walk(path: str, value: Mapping[str, Any], other: Any, table: Table, tables: list[Table]) -> None:
    other = other if isinstance(other, Mapping) else {}
    for key, v in value.items():
        title = f"{path}: {_words(key)}" if path else _words(key)
        if isinstance(v, Mapping):
            inner = Table(_headline(title), list(table.columns), compared=table.compared)
            tables.append(inner)
            _walk(title, v, other.get(key), inner, tables)
        elif isinstance(v, (list, tuple)):
            tables.append(_list_table(_headline(title), list(v), other.get(key) if table.compared else None))
        else:
            row = [Cell(_words(key)), Cell(show(key, v), number=_is_number(v))]
            if table.compared:
                row.append(Cell(show(key, other[key]) if key in other else "", number=True))
            table.rows.append(row)
            table.lines.append(0)


def _list_table(title: str, items: list, others: Any) -> Table:
    if not all(isinstance(item, Mapping) for item in items):
        table = Table(title, [""], [[Cell(show("", item))] for item in items[:MOST_ROWS]], more=max(0, len(items) - MOST_ROWS))
        table.lines = [0] * len(table.rows)
        return table
    keys = list(dict.fromkeys(key for item in items for key in item))
    table = Table(title, [_words(key) for key in keys], more=max(0, len(items) - MOST_ROWS), compared=others is not None)
    known: dict[tuple, Mapping[str, Any]] = {}
    for item in others or []:
        known.setdefault(_identity(item), item)
    for item in items[:MOST_ROWS]:
        partner = known.get(_identity(item), {})
        cells = []
        for key in keys:
            mine, its = item.get(key), partner.get(key)
            cell = Cell(show(key, mine), number=_is_number(mine))
            if _is_number(mine) and _is_number(its) and its != mine:
                cell.other = show(key, its)
            cells.append(cell)
        table.rows.append(cells)
        line = item.get("line")
        table.lines.append(line if isinstance(line, int) else 0)
    return table


def _identity(item: Mapping[str, Any]) -> tuple:
    """What makes two rows of two runs the same: their words. Lines may have moved, and numbers are what is compared."""
    return tuple((key, value) for key, value in item.items() if isinstance(value, str))


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _words(key: str) -> str:
    return str(key).replace("_", " ")


def _headline(title: str) -> str:
    return title[:1].upper() + title[1:]


def show(key: str, value: Any) -> str:
    """A value for people: its key tells shares, bytes, times and lines apart."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if not _is_number(value) or not math.isfinite(value):
        return str(value)
    if key in _SHARES or key.endswith("_share"):
        return f"{100 * value:.1f} %"
    if key == "line" or key.endswith("_line"):
        return str(value) if value else ""
    if key.endswith("_hz"):
        return f"{value / 1e6:.0f} MHz"
    if key.endswith("bytes"):
        return f"{value:,.0f}"
    if isinstance(value, int) or value == int(value) and abs(value) < 1e15:
        return f"{value:,.0f}"
    if key.endswith("cycles"):
        return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.1f}"
    return f"{value:,.2f}" if abs(value) >= 1 else f"{value:.3g}"
