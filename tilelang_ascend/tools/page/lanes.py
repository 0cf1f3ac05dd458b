"""The swim lane: one row for each pipe of each core, one box for each instruction, an overview above it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Mapping

import numpy as np
from bokeh.models import (
    Arrow,
    BasicTicker,
    BoxZoomTool,
    CDSView,
    ColumnDataSource,
    CustomJS,
    CustomJSHover,
    CustomJSTickFormatter,
    HoverTool,
    IndexFilter,
    LinearColorMapper,
    NormalHead,
    PanTool,
    Range1d,
    RangeTool,
    ResetTool,
    TapTool,
    WheelPanTool,
    WheelZoomTool,
)
from bokeh.plotting import figure

from .columns import unpack

PIPE_COLORS = {
    "S": "#7f7f7f", "V": "#2ca02c", "M": "#d62728", "MTE1": "#9467bd", "MTE2": "#1f77b4", "MTE3": "#17a2b8", "FIX": "#ff8c1a",
}  # fmt: skip
ROWS_AT_FIRST = 18
"""Rows shown when the page opens: those of the first cores that are together no more than this, one core at least."""
_OVERVIEW_COLUMNS, _OVERVIEW_ROWS = 600, 50
_BLOCK = re.compile(r"(?:launch (\d+) )?(AI[CV]) (\d+)")


@dataclass(frozen=True)
class TimeLine:
    """The events of one profiled kernel as arrays, times in microseconds. `lane`: row of each event; `lanes`: (core, pipe) of each row."""

    start: np.ndarray
    end: np.ndarray
    lane: np.ndarray
    op: np.ndarray
    line: np.ndarray
    lanes: list[tuple[str, str]]
    ops: list[str]
    links: tuple[np.ndarray, np.ndarray, list[str]]
    cycles_per_us: float

    @property
    def length(self) -> float:
        return float(self.end.max()) if len(self.end) else 1.0


def time_line(kernel: Mapping[str, Any]) -> TimeLine:
    """From the columns of a profile. Rows stand in the order of blocks; pipes that do nothing have none."""
    from ...sim.flags import flag_name

    column = {name: unpack(packed) for name, packed in kernel["events"].items()}
    link = {name: unpack(packed) for name, packed in kernel["links"].items()}
    cores, pipes = kernel["cores"], kernel["pipes"]
    key = column["core"].astype(np.int64) * len(pipes) + column["slot"]
    used = sorted(set(key.tolist()), key=lambda k: (*_order(cores[k // len(pipes)]), k))
    row_of = np.zeros(len(cores) * len(pipes), np.uint16)
    row_of[used] = np.arange(len(used))
    per_us = kernel["report"]["clock_hz"] / 1e6 or 1.0
    start, end = column["start"] / per_us, (column["start"] + column["duration"]) / per_us
    length = float(end.max()) if len(end) else 1.0
    order = np.lexsort((start, row_of[key]))  # row by row, each in order of time: what is visible is found by bisection
    rank = np.empty(len(order), np.int64)
    rank[order] = np.arange(len(order))
    start, end, lane = start[order], end[order], row_of[key][order]
    small = length * np.finfo(np.float32).eps < 0.25 / per_us  # single precision is a quarter of a cycle or better
    dtype = np.float32 if small else np.float64
    return TimeLine(
        start.astype(dtype),
        end.astype(dtype),
        lane,
        _small(column["op"][order]),
        _small(column["line"][order]),
        [(cores[k // len(pipes)], pipes[k % len(pipes)]) for k in used],
        kernel["ops"],
        (rank[link["source"]], rank[link["destination"]], [flag_name(*pair) for pair in zip(link["event"].tolist(), link["id"].tolist())]),
        per_us,
    )


def _order(core: str) -> tuple:
    """Cores of one block stand together, its cube core first, where a kernel has both kinds."""
    match = _BLOCK.fullmatch(core)
    if match is None:
        return (0, 0, core, 0)
    launch, kind, number = match.groups()
    return (int(launch or 0), int(number) // (2 if kind == "AIV" else 1), kind, int(number))


def _small(values: np.ndarray) -> np.ndarray:
    """Integers in a dtype the drawing library passes on as bytes."""
    high = int(values.max()) if len(values) else 0
    return values.astype(np.uint8 if high < 1 << 8 else np.uint16 if high < 1 << 16 else np.uint32)


def shared_range(lengths: list[float]) -> Range1d:
    """The time axis all charts of a kernel share."""
    length = max(lengths)
    return Range1d(0, length, bounds=(-0.02 * length, 1.02 * length), name="time")


def lanes_figure(t: TimeLine, x_range: Range1d, title: str, name: str) -> tuple[Any, Any]:
    """(swim lane, overview) of one run. `name` tells the models of several runs apart."""
    source = ColumnDataSource({"left": t.start, "right": t.end, "lane": t.lane, "op": t.op, "line": t.line}, name=f"{name}-instructions")
    shown = _rows_at_first(t)
    y_range = Range1d(shown - 0.5, -0.5, bounds=(-0.5, len(t.lanes) - 0.5), name=f"{name}-rows")
    rows = ["  ".join(lane) for lane in t.lanes]
    plot = figure(
        height=110 + 17 * max(6, min(ROWS_AT_FIRST, len(t.lanes))),
        sizing_mode="stretch_width",
        x_range=x_range,
        y_range=y_range,
        title=title,
        x_axis_label="simulated time in µs",
        tools=[],
        name=name,
        lod_threshold=15_000,  # of these boxes every tenth is drawn while the window moves
        lod_factor=10,
        lod_timeout=150,
        output_backend="canvas",  # software WebGL, as on machines without a GPU, is slower by far
    )
    colors = [PIPE_COLORS.get(pipe, "#444444") for _, pipe in t.lanes]
    boxes = plot.hbar(
        y="lane",
        left="left",
        right="right",
        height=0.8,
        source=source,
        fill_color={"field": "lane", "transform": LinearColorMapper(palette=colors, low=-0.5, high=len(colors) - 0.5)},
        line_color=None,
        nonselection_fill_alpha=0.2,
    )
    _draw_what_is_visible(plot, boxes, source, t, name)
    plot.yaxis.ticker = BasicTicker(min_interval=1, desired_num_ticks=30, num_minor_ticks=0)
    plot.yaxis.formatter = CustomJSTickFormatter(args={"rows": rows}, code="return rows[tick] ?? ''")
    plot.yaxis.major_label_text_font_size = "11px"
    plot.ygrid.grid_line_color = None
    _add_tools(plot, boxes, source, t, name)
    return plot, _overview(t, plot, name)


def _rows_at_first(t: TimeLine) -> int:
    if len(t.lanes) <= ROWS_AT_FIRST + 6:
        return len(t.lanes)
    ends = [i + 1 for i in range(len(t.lanes)) if i + 1 == len(t.lanes) or t.lanes[i][0] != t.lanes[i + 1][0]]
    return max([ends[0], *(n for n in ends if n <= ROWS_AT_FIRST)])


_VISIBLE = """
// Which boxes are drawn: those in the window and a margin around it, and of those thinner than a part of a pixel one for each such part, the
// longest. The list is made again when the window leaves the margin or has become much smaller.
const lo = Math.min(x.start, x.end), hi = Math.max(x.start, x.end), top = Math.min(y.start, y.end), bottom = Math.max(y.start, y.end);
const {left, right} = source.data, seen = filter.seen, width = hi - lo;
if (seen && lo >= seen.lo && hi <= seen.hi && top >= seen.top && bottom <= seen.bottom && width > seen.width / 3 && width <= seen.width) return;
const margin = 0.5 * width, from = lo - margin, to = hi + margin, step = width / 2400;
const first = Math.max(0, Math.floor(top) - 2), last = Math.min(first_of.length - 2, Math.ceil(bottom) + 2), drawn = [];
for (let row = first; row <= last; row++) {
  let a = first_of[row], b = first_of[row + 1];
  const stop = b;
  while (a < b) { const m = (a + b) >> 1; if (right[m] < from) a = m + 1; else b = m; }
  let part = NaN, longest = -1;
  for (; a < stop && left[a] <= to; a++) {
    if (right[a] - left[a] >= step) { drawn.push(a); continue; }
    const p = Math.floor(left[a] / step);
    if (p !== part) { part = p; longest = drawn.length; drawn.push(a); }
    else if (right[a] - left[a] > right[drawn[longest]] - left[drawn[longest]]) drawn[longest] = a;
  }
}
filter.seen = {lo: from, hi: to, top: first - 0.5, bottom: last + 0.5, width};
if (first === 0) filter.seen.top = -Infinity;
if (last === first_of.length - 2) filter.seen.bottom = Infinity;
filter.indices = drawn;
"""


def _draw_what_is_visible(plot, boxes, source, t: TimeLine, name: str) -> None:
    """The library draws every box it is given in every frame; a time line has many more than a screen shows."""
    visible = IndexFilter(indices=[], name=f"{name}-visible")
    boxes.view = CDSView(filter=visible)
    first_of = np.searchsorted(t.lane, np.arange(len(t.lanes) + 1)).tolist()
    args = {"x": plot.x_range, "y": plot.y_range, "source": source, "filter": visible, "first_of": first_of}
    choose = CustomJS(args=args, code=_VISIBLE, name=f"{name}-choose")
    for axis in (plot.x_range, plot.y_range):
        for end in ("start", "end"):
            axis.js_on_change(end, choose)


_HOVER = """
if (!links.bySource) {
  links.bySource = new Map(); links.byDestination = new Map();
  const {source, destination} = links.data;
  const add = (map, key, i) => { if (map.has(key)) map.get(key).push(i); else map.set(key, [i]); };
  for (let i = 0; i < source.length; i++) { add(links.bySource, source[i], i); add(links.byDestination, destination[i], i); }
}
const at = cb_data.index.indices[0];
if (at === arrows.shown) return;
arrows.shown = at;
const d = instructions.data;
const found = at === undefined ? [] : [...(links.bySource.get(at) ?? []), ...(links.byDestination.get(at) ?? [])];
const from = found.map((i) => links.data.source[i]), to = found.map((i) => links.data.destination[i]);
arrows.data = {
  x0: from.map((i) => d.right[i]), y0: from.map((i) => d.lane[i]),
  x1: to.map((i) => d.left[i]), y1: to.map((i) => d.lane[i]),
  flag: found.map((i) => links.data.flag[i]),
  color: found.map((i) => links.data.source[i] === at ? "#c2410c" : "#1e3a8a"),
};
"""
_TAKES = """
const us = value - d.data.left[special_vars.index];
return `${us.toFixed(3)} µs, ${Math.round(us * per_us)} cycles`;
"""
_TAP = """
// Runs some time after the change, also after those made here and by the page: these are told by `marked`.
const d = cb_obj, at = d.indices[0], marked = source.marked;
if (at === undefined || marked && marked.length === d.indices.length && marked[0] === at) return;
const line = source.data.line[at], same = [];
for (let i = 0; i < source.data.line.length; i++) if (source.data.line[i] === line) same.push(i);
source.marked = line > 0 ? same : [at];
d.indices = source.marked;
document.dispatchEvent(new CustomEvent("profile-instruction", {detail: {
  name, line, op: ops[source.data.op[at]], row: rows[source.data.lane[at]],
  start: source.data.left[at], end: source.data.right[at], cycles_per_us,
}}));
"""


def _add_tools(plot, boxes, source, t: TimeLine, name: str) -> None:
    sources, destinations, flags = t.links
    links = ColumnDataSource({"source": sources.astype(np.uint32), "destination": destinations.astype(np.uint32), "flag": flags})
    arrows = ColumnDataSource({k: [] for k in ("x0", "y0", "x1", "y1", "flag", "color")}, name=f"{name}-arrows")
    head = NormalHead(size=8, line_color="color", fill_color="color")
    ends = {"x_start": "x0", "y_start": "y0", "x_end": "x1", "y_end": "y1"}
    plot.add_layout(Arrow(source=arrows, end=head, line_color="color", line_width=1.5, **ends))
    plot.text(
        x="x1", y="y1", text="flag", source=arrows, text_color="color", text_font_size="11px", x_offset=-10, y_offset=-8, text_align="right",
        background_fill_color="white", background_fill_alpha=0.85,
    )  # fmt: skip
    rows = ["  ".join(lane) for lane in t.lanes]
    takes = CustomJSHover(args={"d": source, "per_us": t.cycles_per_us}, code=_TAKES)
    hover = HoverTool(
        renderers=[boxes],
        tooltips=[
            ("", "@op{custom}"),
            ("on", "@lane{custom}"),
            ("line", "@line"),
            ("begins", "@left{0.000} µs"),
            ("takes", "@right{custom}"),
        ],
        formatters={
            "@op": CustomJSHover(args={"ops": t.ops}, code="return ops[value]"),
            "@lane": CustomJSHover(args={"rows": rows}, code="return rows[value]"),
            "@right": takes,
        },
        callback=CustomJS(args={"links": links, "arrows": arrows, "instructions": source}, code=_HOVER),
        point_policy="follow_mouse",
        limit=1,
    )
    zoom = WheelZoomTool(dimensions="width", speed=1 / 300)
    tap = TapTool(renderers=[boxes])
    box = BoxZoomTool()
    pan = PanTool()
    plot.add_tools(pan, zoom, WheelPanTool(dimension="height"), box, tap, hover, ResetTool())
    plot.toolbar.active_scroll, plot.toolbar.active_drag, plot.toolbar.active_tap = zoom, pan, tap
    plot.toolbar.logo = None
    args = {"source": source, "ops": t.ops, "rows": rows, "name": name, "cycles_per_us": t.cycles_per_us}
    source.selected.js_on_change("indices", CustomJS(args=args, code=_TAP))


def _overview(t: TimeLine, plot, name: str):
    """All rows at once, darker where a pipe is busy; a box that can be moved and stretched shows what the lane below has."""
    edges = np.linspace(0, t.length, _OVERVIEW_COLUMNS + 1)
    busy = np.zeros((len(t.lanes), _OVERVIEW_COLUMNS))
    for row in range(len(t.lanes)):
        mine = t.lane == row
        # The time a pipe has been busy up to any moment is piecewise linear in it.
        starts, ends = t.start[mine].astype(float), t.end[mine].astype(float)
        order = np.argsort(starts, kind="stable")
        starts, ends = starts[order], np.maximum.accumulate(ends[order])
        starts[1:] = np.maximum(starts[1:], ends[:-1])
        knots = np.column_stack([starts, ends]).ravel()
        done = np.column_stack([np.cumsum(ends - starts) - (ends - starts), np.cumsum(ends - starts)]).ravel()
        busy[row] = np.diff(np.interp(edges, knots, done)) / (t.length / _OVERVIEW_COLUMNS)
    group = -(-len(t.lanes) // _OVERVIEW_ROWS)
    starts = np.arange(0, len(t.lanes), group)
    busy = np.add.reduceat(busy, starts, axis=0) / np.diff([*starts, len(t.lanes)])[:, None]
    overview = figure(
        height=100,
        sizing_mode="stretch_width",
        x_range=Range1d(0, plot.x_range.end),
        y_range=Range1d(len(t.lanes) - 0.5, -0.5),
        tools=[],
        name=f"{name}-overview",
    )
    overview.toolbar_location = None
    overview.yaxis.visible = False
    overview.grid.grid_line_color = None
    shades = [f"#{v:02x}{v + (255 - v) // 4:02x}{v + (255 - v) // 2:02x}" for v in range(255, 30, -5)]
    overview.image(
        image=[np.round(255 * busy).clip(0, 255).astype(np.uint8)], x=0, y=-0.5, dw=t.length, dh=len(t.lanes),
        color_mapper=LinearColorMapper(palette=shades, low=0, high=255),
    )  # fmt: skip
    tool = RangeTool(x_range=plot.x_range, y_range=plot.y_range)
    tool.overlay.fill_color, tool.overlay.fill_alpha, tool.overlay.line_color = "#ff8c1a", 0.2, "#c2410c"
    overview.add_tools(tool)
    return overview
