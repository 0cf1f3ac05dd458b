"""The roofline: what the chip can do at an arithmetic intensity, and what the kernel does."""

from __future__ import annotations

import math
from typing import Any, Mapping, Sequence

from bokeh.models import ColumnDataSource, HoverTool
from bokeh.plotting import figure

_COLORS = ("#d62728", "#2ca02c", "#9467bd", "#8c564b")
_DASHES = ("solid", "dashed", "dotted", "dotdash")


def roofline_figure(reports: Sequence[tuple[str, Mapping[str, Any]]], name: str) -> Any | None:
    """Roofs of the first report, and the kernel of each (label, report) on them; None when the report has no roofs of both kinds.

    A kernel stands once for every pair of a unit that computes and a memory: at operations per byte that memory has moved.
    """
    roofs = reports[0][1]["roofline"]
    compute = [r for r in roofs if not _is_memory(r) and r["roof"] > 0]
    memory = [r for r in roofs if _is_memory(r) and r["roof"] > 0]
    if not compute or not memory:
        return None
    points = [point for number, (label, report) in enumerate(reports) for point in _points(label, report, number > 0)]
    ridges = [1e3 * c["roof"] / m["roof"] for c in compute for m in memory]
    seen = [*ridges, *(p["x"] for p in points)]
    low, high = 10 ** math.floor(math.log10(min(seen)) - 0.3), 10 ** math.ceil(math.log10(max(seen)) + 0.3)
    best = max(c["roof"] for c in compute)
    floor = min([1e-3 * m["roof"] * low for m in memory] + [p["y"] / 3 for p in points])
    plot = figure(
        height=330, sizing_mode="stretch_width", x_axis_type="log", y_axis_type="log", x_range=(low, high), y_range=(floor, 3 * best), name=name,
        title="Roofline", x_axis_label="operations per byte moved", y_axis_label=" or ".join(dict.fromkeys(c["unit"] for c in compute)), tools="pan,wheel_zoom,reset",
    )  # fmt: skip
    for i, m in enumerate(memory):
        top = min(high, 1e3 * best / m["roof"])
        ends = [low, top], [1e-3 * m["roof"] * low, 1e-3 * m["roof"] * top]
        plot.line(*ends, color="#1f77b4", line_width=2, line_dash=_DASHES[i % 4], legend_label=f"{m['name']} {m['roof']:.0f} GB/s")
    for i, c in enumerate(compute):
        start = min(1e3 * c["roof"] / m["roof"] for m in memory)
        ends = [start, high], [c["roof"], c["roof"]]
        plot.line(*ends, color=_COLORS[i % 4], line_width=2, legend_label=f"{c['name']} {c['roof']:.3g} {c['unit']}")
    if points:
        columns = {key: [p[key] for p in points] for key in points[0]}
        dots = plot.scatter(
            x="x",
            y="y",
            size=11,
            marker="marker",
            color="color",
            line_color="black",
            source=ColumnDataSource(columns, name=f"{name}-points"),
        )
        tips = [("", "@label"), ("", "@name"), ("does", "@y @unit, @share{0.0%} of the roof"), ("at", "@x operations per byte")]
        plot.add_tools(HoverTool(renderers=[dots], tooltips=tips))
    plot.legend.location, plot.legend.label_text_font_size, plot.legend.background_fill_alpha = "bottom_right", "10px", 0.7
    plot.toolbar.logo = None
    return plot


def _is_memory(roof: Mapping[str, Any]) -> bool:
    """Whether it moves bytes (GB/s) or computes (TFLOPS, TOPS: numbers of the same size)."""
    return roof["unit"].endswith("/s")


def _points(label: str, report: Mapping[str, Any], other: bool) -> list[dict[str, Any]]:
    roofs = [r for r in report["roofline"] if r["achieved"] > 0]
    return [
        {
            "x": 1e3 * c["achieved"] / m["achieved"],
            "y": c["achieved"],
            "share": c["share"],
            "unit": c["unit"],
            "label": label,
            "name": f"{c['name']} against {m['name']}",
            "marker": "diamond" if other else "circle",
            "color": "#ffffff" if other else _COLORS[k % 4],
        }
        for k, c in enumerate(r for r in roofs if not _is_memory(r))
        for m in roofs
        if _is_memory(m)
    ]
