"""Static check of synchronisation: which dependences of a function do its flags and barriers leave unordered?"""

from __future__ import annotations

import math
from dataclasses import dataclass

from .build_program import build_program
from .dependence import dependences
from .happens_before import BARRIER, BARRIER_ALL, CROSS_SET, CROSS_WAIT, SET, WAIT, Timeline
from .program import QUEUES, Program, Sync
from .trace import GAP, SAME_ITERATION, SYNC, Need, traces


@dataclass(frozen=True)
class Uncovered:
    """One thing that is wrong: an unordered dependence (`source`, `sink` are statements) or a misused flag."""

    text: str
    source: object = None
    sink: object = None

    def __str__(self) -> str:
        return self.text


def sync_covers(func, chip) -> list[Uncovered]:
    """Everything the synchronisation of `func` misses; empty when every dependence is ordered and every flag is used
    correctly.

    `func` is Ascend IR of one core, or of both cores together with attr `core` on synchronisation statements.
    """
    program = build_program(func, chip)
    return check_program(program)


def check_program(program: Program) -> list[Uncovered]:
    """Like `sync_covers`, for a built program."""
    deps = dependences(program)
    versions = [d.version_count for d in deps if QUEUES[d.src.queue][0] != QUEUES[d.dst.queue][0]]
    credit = max([2, *versions])
    ids = [n.ident for n in _sync_nodes(program.root) if n.ident is not None]
    found: dict[str, Uncovered] = {}
    # Rings of different length that share flags meet in any iteration of a turn of both.
    turn = math.lcm(1, *(a.modulus for form in ids for a in form.atoms() if a.kind == "mod"))
    for trace in traces(program, deps, ids, max(turn, credit if versions else 1)):
        result = Timeline.of(trace, _bind(trace)).run(credit=credit)
        for need in result.kinds:
            item = _describe(need)
            found.setdefault(item.text, item)
        for text in result.broken:
            found.setdefault(text, Uncovered(text))
        for key in result.unsafe:
            text = f"flag {_flag_name(key)} may be set again before its wait is over"
            found.setdefault(text, Uncovered(text))
        for key in result.leftover:
            text = f"flag {_flag_name(key)} is still set at the end"
            found.setdefault(text, Uncovered(text))
    return list(found.values())


def _sync_nodes(block) -> list[Sync]:
    out = []
    for node in block.nodes:
        if isinstance(node, Sync):
            out.append(node)
        for arm in ("body", "then", "other"):
            inner = getattr(node, arm, None)
            if inner is not None:
                out += _sync_nodes(inner)
    return out


def _bind(trace) -> list:
    return [_event(e[1], e[2]) if e[0] == SYNC else e for e in trace.events if e[0] != GAP]


def _event(node: Sync, env: dict):
    ident = node.ident.evaluate(env) if node.ident is not None else None
    if node.kind == "set":
        return SET, (node.src, node.dst, ident), node.src, node.dst, None
    if node.kind == "wait":
        return WAIT, (node.src, node.dst, ident), node.src, node.dst, None
    if node.kind == "barrier":
        return (BARRIER_ALL, node.core, None) if node.src is None else (BARRIER, node.src, None)
    if node.kind == "cross_set":
        return CROSS_SET, ("cross", node.core, ident), node.src, None
    other = "aiv" if node.core == "aic" else "aic"
    return CROSS_WAIT, ("cross", other, ident), node.core, None


def _flag_name(key) -> str:
    if key[0] == "cross":
        return f"{key[2]} set by {key[1]}"
    return f"{QUEUES[key[0]][1]}_{QUEUES[key[1]][1]} {key[2]} of {QUEUES[key[0]][0]}"


def _describe(need: Need) -> Uncovered:
    d = need.dependence
    where = "in the same iteration" if need.level == SAME_ITERATION else f"across iterations of loop {d.common[need.level].atom.expr}"
    source, sink = (f"{i.name} ({'.'.join(QUEUES[i.queue])}{_line(i.stmt)})" for i in (d.src, d.dst))
    return Uncovered(f"{d.kind} on {d.buffer.name}: {sink} does not wait for {source} {where}", d.src.stmt, d.dst.stmt)


def _line(stmt) -> str:
    span = getattr(stmt, "span", None)
    return f", line {span.line}" if span is not None else ""


__all__ = ["Uncovered", "check_program", "sync_covers"]
