"""A report as text, for people: less than a screen."""

from __future__ import annotations

import linecache
from collections import Counter
from collections.abc import Iterable

from .layout import PathEntry, PipeTime, ReportDict, Roof, Stall, TensorTraffic

WORTH = 0.005
"""Shares below are not shown."""
_WIDTH = 118


def report_text(d: ReportDict) -> str:
    """What a kernel engineer looks for first."""
    if d["stuck"]:
        return "\n".join([f"{d['kernel']} on {d['chip']}: the {d['stuck']} never ends; its times mean nothing", *d["hazards"][:3]])
    lines = [*_head(d), *_path(d), *_pipes(d["pipes"]), *_stalls(d), *_memory(d)]
    lines += [h.splitlines()[0] for h in d["hazards"][:3]]
    if len(d["hazards"]) > 3:
        lines.append(f"and {len(d['hazards']) - 3} more findings")
    return "\n".join(line[:_WIDTH].rstrip() for line in lines)


def source_line(file: str, line: int) -> str:
    """What stands there, without its indentation; empty when it is unknown."""
    return linecache.getline(file, line).strip() if file and line else ""


def _head(d: ReportDict) -> list[str]:
    band = d["error_band"]
    cores = " and ".join(f"{n} {kind}" for kind, n in d["cores"].items())
    launch = f"{d['launch_us']:.1f} us launch" if d["launches"] == 1 else f"{d['launches']} launches {d['launch_us']:.1f} us"
    bound, busy = d["bound"]["name"], d["bound"]["share"]
    what = f"latency-bound, the busiest pipe {busy:.0%}" if bound == "latency" else f"bound by {bound}, in use {busy:.0%} of the time"
    return [
        f"{d['kernel']} on {d['chip']}: {d['simulated_us']:.2f} us simulated ± {band['relative']:.0%} ({band['basis']})",
        f"{what}; {launch} + {d['cycles']:.0f} cycles on {cores}; {d['assumed_share']:.0%} rests on assumed constants",
    ]


def _path(d: ReportDict) -> list[str]:
    """The path by pipe and line."""
    shares: Counter = Counter()
    parts: dict[tuple, Counter] = {}
    for e in d["critical_path"]["entries"]:
        key = (e["core"], e["pipe"], e["line"])
        shares[key] += e["share"]
        parts.setdefault(key, Counter())[_part(e)] += e["share"]
    lines = ["critical path:"]
    for key, share in shares.most_common(5):
        core, pipe, line = key
        if share >= WORTH:
            what = ", ".join(name for name, _ in parts[key].most_common(3)) + ", …" * (len(parts[key]) > 3)
            lines.append(f"{share:6.1%}  {f'{core} {pipe:4s} {what}'.strip():46s} {_where(d['source_file'], line)}")
    return lines


def _part(e: PathEntry) -> str:
    return {"busy": e["op"], "cross": "flag between cores", "launch": "launch overhead"}.get(e["kind"], e["kind"])


def _where(file: str, line: int) -> str:
    return f"line {line}: {source_line(file, line)}".removesuffix(": ") if line else ""


_COLUMNS = ("busy", "bandwidth", "flag", "barrier", "issue", "queue", "cross", "scalar", "end")


def _pipes(pipes: Iterable[PipeTime]) -> list[str]:
    lines = ["pipes     " + "".join(f"{name:>10s}" for name in _COLUMNS)]
    for p in pipes:
        values: dict = dict(p)
        elapsed = p["elapsed_cycles"] or 1.0
        shares = [values[f"{name}_cycles"] / elapsed for name in _COLUMNS]
        lines.append(f"  {p['core']} {p['pipe']:4s}" + "".join(f"{share:>10.0%}" if share >= WORTH else f"{'.':>10s}" for share in shares))
    return lines


def waits_for(s: Stall) -> str:
    """``AIC M waits for MTE1``."""
    who = f"{s['core']} {s['pipe']}"
    return {
        "flag": f"{who} waits for {s['resource']}",
        "barrier": f"{who} waits for its own results",
        "bandwidth": f"{who} shares {s['resource']}",
        "queue": f"{who} is not fed: the queue of {s['resource']} is full",
        "cross": f"{who} waits for {s['resource']} of another core",
        "scalar": f"{who} is not fed: the scalar unit waits",
        "issue": f"{who} is not fed: the scalar unit issues other instructions",
        "end": f"{who} has nothing more to do",
    }[s["kind"]]


def _stalls(d: ReportDict) -> list[str]:
    """Waits of pipes that are on the critical path. What S waits for it waits for on behalf of others."""
    on_path: Counter = Counter()
    for e in d["critical_path"]["entries"]:
        on_path[e["core"], e["pipe"]] += e["share"]
    weight = lambda s: s["share"] * on_path[s["core"], s["pipe"]]
    rows = [s for s in d["stalls"] if s["share"] >= 0.01 and s["kind"] not in ("end", "queue") and s["pipe"] != "S" and weight(s) > 0]
    lines = []
    for s in sorted(rows, key=weight, reverse=True)[:3]:
        at = f"line {s['line']}" + (f", set at line {s['set_line']}" if s["set_line"] and s["set_line"] != s["line"] else "")
        lines.append(f"{s['share']:6.1%}  {waits_for(s):62s} {at if s['line'] else ''}")
    return ["waits:", *lines] if lines else []


def _memory(d: ReportDict) -> list[str]:
    rates = [r for r in d["roofline"] if r["share"] >= WORTH]
    work = [_rate(r) for r in rates if r["unit"] != "GB/s"]
    moved = [_rate(r) for r in rates if r["unit"] == "GB/s"]
    if d["l2"]["read_bytes"]:
        moved.append(f"L2 hits {d['l2']['hit_share']:.0%}")
    lines = [f"{title}: " + "; ".join(part) for title, part in (("achieved", work), ("memory", moved)) if part]
    for t in d["tensors"][:3]:
        lines.append(f"  {t['name'] + ' (workspace)' * t['scratch']:24s} {_moved(t)}")
    return lines


def _rate(r: Roof) -> str:
    return f"{r['name']} {r['achieved']:.4g} of {r['roof']:.4g} {r['unit']} ({r['share']:.0%})"


def _moved(t: TensorTraffic) -> str:
    parts = []
    for what, moved, least in (("read", t["read_bytes"], t["least_read_bytes"]), ("written", t["written_bytes"], t["least_written_bytes"])):
        if moved:
            # The same bytes of a workspace carry one tile after the other.
            times = "" if t["scratch"] else f", {moved / least:.1f} times the least" if moved > 1.005 * least else ", the least"
            parts.append(f"{what} {_mb(moved)}{times}")
    hbm = t["hbm_read_bytes"] + t["hbm_written_bytes"]
    return "; ".join(parts) + (f"; HBM {_mb(hbm)}" if hbm else "")


def _mb(nbytes: int) -> str:
    return f"{nbytes / 1e6:.1f} MB" if nbytes >= 1e5 else f"{nbytes / 1e3:.1f} kB"
