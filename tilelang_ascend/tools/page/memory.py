"""Memories over time: what lies at which address, and when somebody wants it."""

from __future__ import annotations

from typing import Any, Mapping

import numpy as np
from bokeh.models import ColumnDataSource, CustomJS, FixedTicker, HoverTool, LinearColorMapper, Range1d, ResetTool, TapTool, WheelZoomTool
from bokeh.palettes import Category20
from bokeh.plotting import figure

from .columns import unpack
from .lanes import _small

_GAP = 0.12
"""Share of a row between two memories."""
_TAP = """
const at = cb_obj.indices[0];
if (at === undefined) return;
document.dispatchEvent(new CustomEvent("profile-line", {detail: {line: tiles.data.line[source.data.tile[at]]}}));
"""


def memory_figure(memory: Mapping[str, Any], x_range: Range1d, cycles_per_us: float, name: str) -> Any:
    """One core: a row for each memory it has tiles in, up to the highest address in use; a box for each version of a tile while it has contents."""
    tiles = memory["tiles"]
    spaces = list(dict.fromkeys(tile["space"] for tile in sorted(tiles, key=lambda t: list(memory["capacity_bytes"]).index(t["space"]))))
    lives = {key: unpack(packed) for key, packed in memory["lives"].items()}
    bottom, top = _places(memory, spaces, lives)
    names = [tile["name"] for tile in tiles]
    data = {
        "left": lives["start"] / cycles_per_us,
        "right": lives["end"] / cycles_per_us,
        "bottom": bottom.astype(np.float32),
        "top": top.astype(np.float32),
        "tile": _small(lives["tile"]),
        "name": [names[i] for i in lives["tile"].tolist()],
        "place": [_place_text(tiles[i], v) for i, v in zip(lives["tile"].tolist(), lives["version"].tolist())],
    }
    source = ColumnDataSource(data, name=f"{name}-lives")
    plot = figure(
        height=70 + 70 * max(2, len(spaces)), sizing_mode="stretch_width", x_range=x_range, y_range=Range1d(len(spaces), 0), tools=[], name=name,
        title=f"Memories of {memory['core']}: contents that are still wanted", x_axis_label="simulated time in µs", output_backend="canvas",
    )  # fmt: skip
    palette = Category20[20]
    colors = [palette[(2 * i) % 20 + (2 * i) // 20 % 2] for i in range(max(1, len(tiles)))]
    for row, space in enumerate(spaces):
        plot.hspan(y=row + _GAP / 2, line_color="#bbbbbb")
        plot.hspan(y=row + 1 - _GAP / 2, line_color="#bbbbbb")
    boxes = plot.quad(
        left="left", right="right", bottom="bottom", top="top", source=source, line_color=None, fill_alpha=0.85, nonselection_fill_alpha=0.4,
        fill_color={"field": "tile", "transform": LinearColorMapper(palette=colors, low=-0.5, high=len(colors) - 0.5)},
    )  # fmt: skip
    plot.yaxis.ticker = FixedTicker(ticks=[row + 0.5 for row in range(len(spaces))])
    use = {s: f"{s}  {_peak(memory, s) / 1024:.3g} of {memory['capacity_bytes'][s] // 1024} KiB" for s in spaces}
    plot.yaxis.major_label_overrides = {row + 0.5: use[space] for row, space in enumerate(spaces)}
    plot.ygrid.grid_line_color = None
    lines = ColumnDataSource({"line": [tile["line"] for tile in tiles]})
    source.selected.js_on_change("indices", CustomJS(args={"source": source, "tiles": lines}, code=_TAP))
    zoom, tap = WheelZoomTool(dimensions="width", speed=1 / 300), TapTool(renderers=[boxes])
    hover = HoverTool(
        renderers=[boxes],
        tooltips=[("", "@name"), ("", "@place"), ("from", "@left{0.000} µs"), ("to", "@right{0.000} µs")],
        point_policy="follow_mouse",
        limit=3,
    )
    plot.add_tools(zoom, tap, hover, ResetTool())
    plot.toolbar.active_scroll, plot.toolbar.logo = zoom, None
    return plot


def _peak(memory: Mapping[str, Any], space: str) -> int:
    """One past the highest address of any tile."""
    return max(1, *(t["address"] + t["versions"] * t["nbytes"] for t in memory["tiles"] if t["space"] == space))


def _places(memory: Mapping[str, Any], spaces: list[str], lives: Mapping[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Lower and upper edge of every life: rows count downwards, addresses upwards inside a row."""
    tiles, version = memory["tiles"], lives["version"].astype(float)
    field = lambda value: np.array([value(tile) for tile in tiles], float)[lives["tile"]] if len(lives["tile"]) else np.empty(0)
    row = field(lambda tile: spaces.index(tile["space"]))
    peak = field(lambda tile: _peak(memory, tile["space"]))
    nbytes = field(lambda tile: tile["nbytes"])
    low = field(lambda tile: tile["address"]) + version * nbytes
    edge = lambda at: row + 1 - _GAP / 2 - (1 - _GAP) * at / peak
    return edge(low), edge(low + nbytes)


def _place_text(tile: Mapping[str, Any], version: int) -> str:
    start = tile["address"] + version * tile["nbytes"]
    of = f", version {version + 1} of {tile['versions']}" if tile["versions"] > 1 else ""
    line = f", line {tile['line']}" if tile["line"] else ""
    return f"{tile['space']} {start}-{start + tile['nbytes']} ({tile['nbytes']} bytes{of}{line})"
