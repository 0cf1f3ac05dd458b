"""From profiles to one HTML page that needs nothing else: no network, no other file."""

from __future__ import annotations

import json
from importlib import resources
from typing import Any, Mapping

import numpy as np
from bokeh.embed import json_item
from bokeh.layouts import column
from bokeh.resources import Resources
from jinja2 import Environment
from markupsafe import Markup

from .columns import unpack
from .lanes import lanes_figure, shared_range, time_line
from .memory import memory_figure
from .roofline import roofline_figure
from .tables import tables_of


def page(profile: Mapping[str, Any], against: Mapping[str, Any] | None = None) -> str:
    """The page of a profile; `against`: the profile of another run, whose kernels are shown beside those of the same names.

    A run with one kernel is compared with a run with one kernel whatever their names.
    """
    kernels = profile["kernels"]
    partners = [_partner(kernel, kernels, against) for kernel in kernels]
    views = [_view(f"k{i}", kernel, other) for i, (kernel, other) in enumerate(zip(kernels, partners))]
    # The page sets the level of its log by itself: the statement of the library writes a line for it.
    parts = [part for part in Resources(mode="inline", components=["bokeh"]).js_raw if not part.startswith("Bokeh.set_log_level")]
    environment = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True)
    return environment.from_string(_file("page.html")).render(
        title=f"{profile['script']}: profile",
        script=profile["script"],
        against=against and against["script"],
        views=views,
        style=Markup(_file("page.css")),
        code=Markup(_file("page.js")),
        library=Markup("\n".join(f"<script>\n{_script_text(part)}\n</script>" for part in parts)),
    )


def _file(name: str) -> str:
    return (resources.files(__package__) / name).read_text(encoding="utf-8")


def _partner(kernel: Mapping[str, Any], kernels: list, against: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    others = against["kernels"] if against else []
    if len(others) == 1 and len(kernels) == 1:
        return others[0]
    return next((other for other in others if other["name"] == kernel["name"]), None)


def _view(key: str, kernel: Mapping[str, Any], other: Mapping[str, Any] | None) -> dict[str, Any]:
    """What the template needs of one kernel. `key` starts the names of its elements and models."""
    runs = [("this", "this run", kernel)] + ([("other", "other run", other)] if other else [])
    lines = [(run, label, k, time_line(k)) for run, label, k in runs]
    x_range = shared_range([t.length for *_, t in lines])
    charts, names = [], []
    for run, label, k, t in lines:
        prefix = f"{label}: " if other else ""
        title = f"{prefix}{k['name']} on {k['report']['chip']}: instructions of {len(t.lanes)} pipes"
        lane, overview = lanes_figure(t, x_range, title, f"{key}-{run}")
        charts += [overview, lane]
        names.append(f"{key}-{run}")
        for i, memory in enumerate(k["memory"] if run == "this" else ()):
            charts.append(memory_figure(memory, x_range, t.cycles_per_us, f"{key}-{run}-memory{i}"))
    roofline = roofline_figure([(label, k["report"]) for _, label, k in runs], f"{key}-roofline")
    sources = [_source(f"{key}-{run}", label, k) for run, label, k in runs]
    if other and kernel["source"]["text"] == other["source"]["text"]:
        sources.pop()  # clicks find the first one
    return {
        "key": key,
        "name": kernel["name"],
        "explanation": kernel["explanation"],
        "headline": _headline(kernel["report"], other and other["report"]),
        "charts": _json(json_item(column(charts, sizing_mode="stretch_width"), f"{key}-charts")),
        "roofline": _json(json_item(roofline, f"{key}-roofline")) if roofline is not None else None,
        "sources": sources,
        "tables": tables_of(kernel["report"], other and other["report"]),
        "compared": other is not None,
    }


def _headline(report: Mapping[str, Any], other: Mapping[str, Any] | None) -> str:
    us, relative = report["simulated_us"], report.get("error_band", {}).get("relative", 0.0)
    text = f"{us:.2f} µs{f' ± {100 * relative:.0f} %' if relative else ''} simulated on {report['chip']}"
    if other and other["simulated_us"]:
        text += f", the other run {other['simulated_us']:.2f} µs ({100 * (us / other['simulated_us'] - 1):+.1f} %)"
    return text


def _source(name: str, label: str, kernel: Mapping[str, Any]) -> dict[str, Any]:
    """The user's text, line by line, with the share of the time of all pipes that each line takes."""
    lines, cycles = unpack(kernel["events"]["line"]).astype(np.int64), unpack(kernel["events"]["duration"]).astype(float)
    spent = np.bincount(lines, weights=cycles) if len(lines) else np.zeros(1)
    most = float(spent[1:].max(initial=0.0)) or 1.0
    rows = [
        {
            "number": n,
            "text": text,
            "width": round(100 * float(spent[n]) / most) if n < len(spent) else 0,
            "cycles": float(spent[n]) if n < len(spent) else 0,
        }
        for n, text in enumerate(kernel["source"]["text"].splitlines(), 1)
    ]
    return {"name": name, "label": label, "file": kernel["source"]["file"], "rows": rows}


def _script_text(code: str) -> str:
    """Code that may stand inside of a script element; JavaScript reads the escape as the same text."""
    return code.replace("</script", "<\\/script").replace("<!--", "<\\!--")


def _json(value: Any) -> Markup:
    """JSON that may stand inside of a script element: nothing in it ends the element or starts a comment."""
    text = json.dumps(value, separators=(",", ":"))
    return Markup(text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026"))
