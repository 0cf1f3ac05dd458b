"""What bounds a kernel in a few sentences, and what would help: computed by replaying the run with one cost removed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from ..recording import Recording, Scale
from .layout import ReportDict, Stall, TensorTraffic
from .text import source_line

WORTH = 0.02
"""A change that gains less of the time is not worth a word."""
MOST = 3
"""Changes shown."""
TRIED = 4
"""Waits tried, and pipes."""
_FLOW = {"MTE2": 0, "MTE1": 1, "V": 1, "M": 2, "FIX": 3, "MTE3": 3}
"""Data go from pipes with low to pipes with high numbers; a wait for a later one waits until it has read a tile."""


@dataclass(frozen=True)
class Change:
    """A cost that was removed.

    what: the cost in words, to follow "without"; simulated_us: time of the run without it; advice: what may remove it, in words;
    scales: the costs as the replay was told; line: source line, 0 when it is no single one; bound_to_data: a wait for data, which can be
    hidden behind other work, but not removed.
    """

    what: str
    simulated_us: float
    advice: str
    scales: tuple[Scale, ...]
    line: int = 0
    bound_to_data: bool = False


@dataclass(frozen=True)
class Explanation:
    """What bounds a kernel. `str()` says it in a few sentences.

    simulated_us: of the kernel as it is. bound: one sentence. changes: the most promising ones that were tried, best first; times of
    changes do not add up. tried: how many.
    """

    kernel: str
    chip: str
    simulated_us: float
    relative_error: float
    bound: str
    changes: tuple[Change, ...]
    tried: int

    def __str__(self) -> str:
        head = f"{self.kernel} on {self.chip}: {_us(self.simulated_us)} simulated ± {self.relative_error:.0%}. {self.bound}"
        if not self.tried:
            return head
        if not self.changes:
            return f"{head}\nNone of {self.tried} costs alone, removed, gains {WORTH:.0%}: the kernel is balanced, or needs less work."
        lines = [f"without {c.what}: {_us(c.simulated_us)}; {c.advice}" for c in self.changes]
        return "\n".join([head, *lines])


def explain(report: Any) -> Explanation:
    """Of a report whose run kept its recording."""
    d = report.to_dict(max_steps=0)
    if d["stuck"]:
        return Explanation(d["kernel"], d["chip"], d["simulated_us"], 0.0, f"The {d['stuck']} never ends: its times mean nothing.", (), 0)
    recording: Recording = report.run.recording
    tried: list[Change] = []
    for what, advice, line, scales, *data in _candidates(d, recording):
        tried.append(Change(what, recording.simulated_us(*scales), advice, scales, line, *data))
    if d["launches"] > 1:
        left = d["simulated_us"] - d["launch_us"] * (1 - 1 / d["launches"])
        tried.append(Change("the overhead of all launches but one", left, "one kernel instead of several has one", ()))
    worth = [c for c in tried if c.simulated_us <= (1 - WORTH) * d["simulated_us"]]
    # What depends on data can only be hidden, never removed: such changes promise more than they keep.
    worth.sort(key=lambda c: (c.simulated_us - d["simulated_us"]) * (0.5 if c.bound_to_data else 1))
    return Explanation(
        d["kernel"], d["chip"], d["simulated_us"], d["error_band"]["relative"], _bound(d, recording), tuple(worth[:MOST]), len(tried)
    )


Candidate = tuple[str, str, int, tuple[Scale, ...]] | tuple[str, str, int, tuple[Scale, ...], bool]


def _candidates(d: ReportDict, recording: Recording) -> Iterator[Candidate]:
    """Costs that are part of the time, those of one kind after the other."""
    yield from _waits(d)
    yield from _work(d)
    yield from _shared(d)
    kinds = Counter({s["kind"]: 0.0 for s in d["stalls"]})
    for e in d["critical_path"]["entries"]:
        kinds[e["kind"]] += e["share"]
    if kinds["issue"] > WORTH:
        yield "issue by the scalar unit", "fewer and longer instructions help", 0, (Scale("issue"),)
    if any(s["kind"] == "queue" and s["share"] > WORTH for s in d["stalls"]):
        yield "full queues in front of pipes", "loads issued earlier, or longer instructions, help", 0, (Scale("queue"),)
    if kinds["cross"] > WORTH:
        yield "the latency of flags between cores", "larger tiles between cube and vector cores need fewer of them", 0, (Scale("cross"),)
    if kinds["latency"] > WORTH:
        yield "latency of instructions", "more independent work in flight (smaller tiles, more stages) hides it", 0, (Scale("latency"),)
    conflicts = sum(row["conflict_cycles"] for row in recording.analysis.ops)
    if conflicts > 0:
        yield "conflicts of UB banks", "operands at other addresses, or without broadcasts of one block, help", 0, (Scale("conflict"),)


def _waits(d: ReportDict) -> Iterator[Candidate]:
    """Flags by pipe, pipe waited for, and line; barriers by pipe."""
    shares: Counter = Counter()
    worst: dict[tuple, Stall] = {}
    for s in d["stalls"]:  # the longest come first
        if s["kind"] not in ("flag", "barrier", "cross") or (s["pipe"] == "S") != (s["kind"] == "cross"):
            continue  # a flag of another core holds the scalar unit, and with it all pipes
        key = (s["core"], s["pipe"], s["kind"], s["resource"], -1 if s["kind"] == "barrier" else s["line"])
        shares[key] += s["share"]
        worst.setdefault(key, s)
    for key, share in shares.most_common(TRIED):
        if share <= WORTH:
            break
        core, pipe, kind, resource, line = key
        what = {"flag": "wait", "cross": "cross_wait", "barrier": "barrier"}[kind]
        # Only flags of this core have a pipe that is known before they are set.
        scale = Scale(what, core=core, pipe=pipe, source=resource if kind == "flag" else "", line=line)
        s = worst[key]
        data = kind == "cross" or (kind == "flag" and not _frees_a_tile(s))
        yield _wait_words(s, s["share"] / share, d["source_file"]), _wait_advice(s), s["line"], (scale,), data


def _wait_words(s: Stall, part: float, file: str) -> str:
    if s["kind"] == "barrier":
        most = "" if part > 0.99 else f", {part:.0%} of it"
        return f"the wait of {s['core']} {s['pipe']} for its own results{most} {_at(s['line'], file)}"
    what = f"{s['core']} {s['pipe']} for {s['resource']}" if s["kind"] == "flag" else f"{s['core']} for {s['resource']} of another core"
    return f"the wait of {what} {_at(s['line'], file)}"


def _wait_advice(s: Stall) -> str:
    if s["kind"] == "barrier":
        return "independent instructions between dependent ones fill it"
    if s["kind"] == "cross":
        return "work of another iteration beside it (T.Pipelined, more stages) hides it"
    if _frees_a_tile(s):
        return "one more version of the tile it fills (num_stages), or a smaller tile, lets it run ahead"
    return f"earlier or less work on {s['resource']} (num_stages, tile sizes) hides it"


def _frees_a_tile(s: Stall) -> bool:
    """The pipe waits until another one, behind it in the flow of data, has read what it is about to write over."""
    return _FLOW.get(s["pipe"], 9) < _FLOW.get(s["resource"], 9)


def _work(d: ReportDict) -> Iterator[Candidate]:
    """What pipes do on the critical path, pipe by pipe."""
    shares: Counter = Counter()
    lines: dict[tuple[str, str], Counter] = {}
    for e in d["critical_path"]["entries"]:
        if e["kind"] in ("busy", "bandwidth"):
            shares[e["core"], e["pipe"]] += e["share"]
            lines.setdefault((e["core"], e["pipe"]), Counter())[e["line"]] += e["share"]
    for (core, pipe), share in shares.most_common(TRIED):
        if share <= WORTH:
            break
        (line, most), *others = lines[core, pipe].most_common()
        where = f", {most / share:.0%} of it {_at(line, d['source_file'])}" if others else f" {_at(line, d['source_file'])}"
        scales = (Scale("busy", core=core, pipe=pipe), Scale("rate", core=core, pipe=pipe))
        yield f"the time of {core} {pipe}{where if line else ''}", _work_advice(d, pipe), line, scales


def _work_advice(d: ReportDict, pipe: str) -> str:
    if pipe == "MTE2":
        again = _read_again(d)
        if again:
            return f"{again}: larger tiles, or blocks that share them, read less"
        return "what it reads is read once: narrower dtypes read less"
    return {
        "MTE3": "narrower results write less",
        "FIX": "narrower results, or fewer of them through GM, write less",
        "M": "the cube unit works there: narrower dtypes do more in a cycle",
        "MTE1": "longer steps along K load the same operands less often",
        "V": "fewer or cheaper vector instructions, or narrower dtypes, help",
    }.get(pipe, "tiles instead of single elements, and constants instead of scalar work, help")


def _read_again(d: ReportDict) -> str:
    """Tensors that are read more often than once."""
    times = [(t, t["read_bytes"] / t["least_read_bytes"]) for t in d["tensors"] if t["least_read_bytes"]]
    again: list[tuple[TensorTraffic, float]] = [(t, n) for t, n in times if n > 1.2]
    return " and ".join(f"{t['name']} is read {n:.1f} times" for t, n in again[:2])


def _shared(d: ReportDict) -> Iterator[Candidate]:
    again = _read_again(d)
    less = f"{again}: larger tiles read less" if again else "narrower dtypes, or what a kernel before left in L2, need less"
    if any(s["kind"] == "bandwidth" and s["share"] > WORTH and s["resource"] == "HBM" for s in d["stalls"]):
        yield "limits of HBM bandwidth", less, 0, (Scale("hbm"),)
    if any(s["kind"] == "bandwidth" and s["share"] > WORTH and s["resource"] == "L2" for s in d["stalls"]):
        yield "limits of L2 bandwidth", less, 0, (Scale("l2"),)


def _at(line: int, file: str) -> str:
    if not line:
        return "in code of no line"
    text = source_line(file, line)
    return f"in line {line} ({text if len(text) <= 60 else text[:57] + '...'})" if text else f"in line {line}"


def _us(us: float) -> str:
    return f"{us / 1e3:.2f} ms" if us >= 1e4 else f"{us:.2f} us"


def _bound(d: ReportDict, recording: Recording) -> str:
    name, share = d["bound"]["name"], d["bound"]["share"]
    launch = d["launch_us"] / d["simulated_us"] if d["simulated_us"] else 0.0
    if name == "latency":
        kinds: Counter = Counter()
        for e in d["critical_path"]["entries"]:
            kinds[e["kind"]] += e["share"]
        top = ", ".join(f"{_KINDS[kind]} {part:.0%}" for kind, part in kinds.most_common(3))
        text = f"No pipe is busy for half of the time: its critical path is {top}."
    else:
        text = f"It is bound by {name}, in use {share:.0%} of the kernel's time."
        text += f" {launch:.0%} is launch overhead." if launch > 0.1 else ""
    return text + _cores(d, recording)


def _cores(d: ReportDict, recording: Recording) -> str:
    """Cores without work, and cores that have less of it than others."""
    text = ""
    for kind, there in (("AIC", recording.chip.num_aic), ("AIV", recording.chip.num_aiv)):
        if 0 < (used := d["cores"].get(kind, 0)) < there:
            text += f" It uses {used} of {there} {kind}."
    ended = [core["end_cycles"] for launch in recording.analysis.launches for core in launch.time["cores"]]
    longest = [launch.time["cycles"] for launch in recording.analysis.launches for _ in launch.time["cores"]]
    idle = 1 - sum(ended) / sum(longest) if sum(longest) else 0.0
    return text + (
        f" Cores have nothing to do for {idle:.0%} of the time at the end: the work does not divide evenly." if idle > 0.1 else ""
    )


_KINDS = {
    "busy": "execution", "bandwidth": "shared bandwidth", "latency": "latency", "issue": "issue", "flag": "flags",
    "cross": "flags between cores", "launch": "launch overhead",
}  # fmt: skip
