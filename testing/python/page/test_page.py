"""The page in a browser: it opens, zooms, tells source lines, shows flags, and says nothing on the console."""

import io
import json

import numpy as np
import pytest
from page_browser import Page

pytest.importorskip("bokeh")

from tilelang_ascend.tools.page import data
from tilelang_ascend.tools.page.columns import pack, unpack
from tilelang_ascend.tools.page.lanes import time_line
from tilelang_ascend.tools.page.render import page


@pytest.fixture
def opened(browser, profiled):
    return Page(browser, profiled)


@pytest.fixture(scope="module")
def kernel(profiled):
    return data.read(profiled.with_suffix(".json"))["kernels"][0]


def longest_on(t, pipe):
    """The longest instruction of the first row of a pipe."""
    row = next(i for i, lane in enumerate(t.lanes) if lane[1] == pipe)
    mine = np.flatnonzero(t.lane == row)
    return int(mine[np.argmax(t.end[mine] - t.start[mine])])


def place_of(opened, t, at):
    """Pixel of the middle of an instruction, after it has been brought into view with some room around."""
    room = 3 * float(t.end[at] - t.start[at])
    opened.show_in_time(max(0, float(t.start[at]) - room), float(t.end[at]) + room)
    return opened.pixel("k0-this", float(t.start[at] + t.end[at]) / 2, int(t.lane[at]))


def test_opens_in_silence_and_shows_something(opened):
    from PIL import Image

    picture = Image.open(io.BytesIO(opened.browser.get_screenshot_as_png())).convert("RGB")
    colors = {color: n for n, color in picture.getcolors(1 << 24)}
    assert sum(n > 500 for color, n in colors.items() if max(color) - min(color) > 60) >= 4, "boxes of several pipes"
    assert opened.log() == []
    assert opened.ask("return document.title") == "attention.py: profile"


def test_needs_no_network(opened, profiled):
    assert opened.ask("return performance.getEntriesByType('resource').map((r) => r.name).filter((n) => !n.startsWith('data:'))") == []
    assert "default-src 'none'" in profiled.read_text()


def test_console_is_watched(browser, tmp_path):
    (tmp_path / "bad.html").write_text("<script>undefinedName()</script>")
    browser.get((tmp_path / "bad.html").as_uri())
    assert any("undefinedName" in entry["message"] for entry in browser.get_log("browser"))


def test_the_wheel_zooms_every_chart_in_time(opened, kernel):
    t = time_line(kernel)
    before = opened.window()
    assert before == pytest.approx([0, t.length], rel=1e-6)
    middle = t.length / 3
    opened.wheel(opened.pixel("k0-this", middle, 1), -400)
    low, high = opened.window()
    assert before[0] <= low < middle < high < before[1] and high - low < 0.8 * (before[1] - before[0])
    assert opened.ask("const x = model('k0-this-memory0').x_range; return [x.start, x.end]") == [low, high]
    assert opened.log() == []


def test_dragging_leads_to_other_cores(opened, kernel):
    t = time_line(kernel)
    rows = lambda: opened.ask("const y = model('k0-this-rows'); return [y.end, y.start]")
    assert rows() == [-0.5, pytest.approx(16.5, abs=2)], "the first cores"
    x, y = opened.pixel("k0-this", t.length / 2, 10)
    opened.drag((x, y), (x, y - 60))
    top, bottom = rows()
    assert top > 1
    last = set(t.lane[opened.ask("return model('k0-this-visible').indices")].tolist())
    assert set(range(int(top) + 1, int(bottom))) <= last
    assert opened.log() == []


def test_only_what_is_visible_is_drawn(opened, kernel):
    t = time_line(kernel)
    drawn = lambda: opened.ask("return model('k0-this-visible').indices")
    everything = drawn()
    assert everything and len(set(everything)) == len(everything)
    opened.show_in_time(0.50 * t.length, 0.52 * t.length)
    shown = set(drawn())
    assert len(shown) < len(everything)
    y = opened.ask("const y = model('k0-this-rows'); return [y.start, y.end]")
    inside = (t.end > 0.50 * t.length) & (t.start < 0.52 * t.length) & (t.lane <= max(y)) & (t.lane >= min(y))
    thick = t.end - t.start >= 0.02 * t.length / 1000
    assert set(np.flatnonzero(inside & thick).tolist()) <= shown


@pytest.mark.one_in(3)
@pytest.mark.parametrize("pipe", ["M", "MTE1", "MTE2", "V", "FIX"])
def test_a_click_tells_the_source_line(opened, kernel, pipe):
    t = time_line(kernel)
    at = longest_on(t, pipe)
    opened.move(place_of(opened, t, at), click=True)
    line = int(t.line[at])
    assert opened.texts(".line.chosen code") == [kernel["source"]["text"].splitlines()[line - 1]]
    told = opened.texts("#k0-details")[0]
    assert told.startswith(f"{t.ops[t.op[at]]} on {'  '.join(t.lanes[t.lane[at]])}, line {line}:"), told
    assert opened.ask("return model('k0-this-instructions').selected.indices") == np.flatnonzero(t.line == line).tolist()
    assert opened.ask(
        "const r = document.querySelector('.line.chosen').getBoundingClientRect(), s = document.querySelector('.source').getBoundingClientRect();"
        "return s.top <= r.top && r.bottom <= s.bottom"
    ), "scrolled into view"
    assert opened.log() == []


def test_lines_are_those_of_the_statements(kernel):
    t = time_line(kernel)
    text = kernel["source"]["text"].splitlines()
    products = {text[line - 1].strip().split("(")[0] for line in set(t.line[t.op == t.ops.index("mmad")].tolist())}
    assert products == {"T.gemm"}


def test_a_line_marks_its_instructions(opened, kernel):
    t = time_line(kernel)
    line = int(t.line[longest_on(t, "M")])
    opened.ask(f"document.querySelector('.line[data-line=\"{line}\"]').click()")
    opened.settle()
    assert opened.ask("return model('k0-this-instructions').selected.indices") == np.flatnonzero(t.line == line).tolist()
    assert f"line {line}: {int((t.line == line).sum())} instructions" in opened.texts("#k0-details")[0]
    assert opened.texts(".line.chosen i") == [str(line)]


def test_flags_are_arrows_while_the_mouse_is_over_an_instruction(opened, kernel):
    t = time_line(kernel)
    sources, destinations, names = t.links
    at = int(np.bincount(destinations[np.isin(t.lane[destinations], range(6))]).argmax())
    opened.move(place_of(opened, t, at))
    mine = [i for i in range(len(sources)) if at in (sources[i], destinations[i])]
    assert mine
    arrows = opened.ask("const d = model('k0-this-arrows').data; return {...d}")
    assert sorted(arrows["flag"]) == sorted(names[i] for i in mine)
    assert sorted(arrows["y0"]) == sorted(int(t.lane[sources[i]]) for i in mine)
    assert sorted(arrows["x1"]) == pytest.approx(sorted(float(t.start[destinations[i]]) for i in mine))
    tip = opened.ask("return document.querySelector('#k0-charts .bk-Column, #k0-charts > *') !== null")
    opened.move((5, 5))
    assert tip and opened.ask("return model('k0-this-arrows').data.flag.length") == 0
    assert opened.log() == []


@pytest.mark.one_in(2)
@pytest.mark.parametrize("pipe", ["M", "MTE2", "V"])
def test_tooltips_tell_the_times_of_their_instruction(opened, kernel, pipe):
    t = time_line(kernel)
    at = longest_on(t, pipe)
    opened.move(place_of(opened, t, at))
    (told,) = [" ".join(text.split()) for text in opened.tooltips()]
    takes = float(t.end[at]) - float(t.start[at])
    expected = [t.ops[t.op[at]], "  ".join(t.lanes[t.lane[at]]).replace("  ", " "), f"{t.start[at]:.3f} µs", f"{takes:.3f} µs"]
    assert all(word in told for word in expected), (told, expected)
    cycles = float(unpack(kernel["events"]["duration"]).astype(float)[original(kernel, t, at)])
    assert f", {round(cycles)} cycles" in told, (told, cycles)


def original(kernel, t, at):
    """Where an instruction of the time line stands in the data."""
    events = {name: unpack(packed) for name, packed in kernel["events"].items()}
    core, pipe = t.lanes[t.lane[at]]
    mine = (events["core"] == kernel["cores"].index(core)) & (events["slot"] == kernel["pipes"].index(pipe))
    begins = np.where(mine, abs(events["start"] / t.cycles_per_us - float(t.start[at])), np.inf)
    return int(begins.argmin())


def test_source_is_text_whatever_it_holds(opened, kernel, profiled):
    lines = kernel["source"]["text"].splitlines()
    assert any("</script>" in line and '"' in line and "<!--" in line for line in lines)
    assert opened.texts(".source code") == lines
    assert "alert(" not in "".join(opened.texts("script:not([type])"))
    assert 'alert("no")</script>' not in profiled.read_text()


def test_tables_show_what_the_report_has(opened, kernel):
    titles = [text.strip() for text in opened.texts(".tables summary")]
    for key in ("Summary", "Roofline", "Pipes", "Stalls", "Tensors", "L2"):
        assert any(title.startswith(key) for title in titles), (key, titles)
    assert opened.ask("return model('k0-roofline') !== undefined")
    assert f"{kernel['report']['simulated_us']:,.2f}" in " ".join(opened.texts(".tables td"))


def test_a_row_of_a_table_leads_to_its_line(opened):
    line = opened.ask("const r = document.querySelector('tr[data-line]'); r.click(); return r.dataset.line")
    opened.settle()
    assert opened.texts(".line.chosen i") == [line] and opened.log() == []


def test_two_runs_in_one_page(browser, profiled, tmp_path):
    found = data.read(profiled.with_suffix(".json"))
    other = json.loads(json.dumps(found))
    slow = other["kernels"][0]
    slow["report"]["simulated_us"] *= 2
    slow["events"]["start"] = pack(2 * unpack(slow["events"]["start"]))
    path = tmp_path / "both.html"
    path.write_text(page(found, other))
    opened = Page(browser, path)
    t, late = time_line(found["kernels"][0]), time_line(slow)
    assert "(-50.0 %)" in opened.texts(".headline")[0]
    assert opened.window()[1] == pytest.approx(late.length, rel=1e-6) and late.length > 1.5 * t.length
    assert opened.ask("return ['this', 'other'].map((r) => model(`k0-${r}-instructions`).data.left.length)") == [len(t.start)] * 2
    assert f"{slow['report']['simulated_us']:,.2f}" in " ".join(opened.texts(".tables td"))
    at = longest_on(late, "M")
    x = opened.pixel("k0-other", float(late.start[at] + late.end[at]) / 2, int(late.lane[at]))
    opened.ask("window.scrollTo(0, arguments[0])", max(0, x[1] - 500))
    opened.move(opened.pixel("k0-other", float(late.start[at] + late.end[at]) / 2, int(late.lane[at])), click=True)
    assert opened.texts(".line.chosen i") == [str(late.line[at])]
    assert opened.log() == []


def test_several_kernels_are_chosen_from(browser, profiled, tmp_path):
    found = data.read(profiled.with_suffix(".json"))
    found["kernels"].append({**found["kernels"][0], "name": "second <kernel>"})
    path = tmp_path / "several.html"
    path.write_text(page(found))
    opened = Page(browser, path)
    assert opened.ask("return [...document.querySelectorAll('section')].map((s) => s.hidden)") == [False, True]
    opened.ask("const s = document.getElementById('kernels'); s.value = 'k1'; s.dispatchEvent(new Event('change', {bubbles: true}))")
    opened.settle()
    assert opened.ask("return [...document.querySelectorAll('section')].map((s) => s.hidden)") == [True, False]
    assert opened.texts("#kernels option") == ["attend", "second <kernel>"]
    assert opened.ask("return model('k1-this-instructions').data.left.length") == len(time_line(found["kernels"][0]).start)
    assert opened.log() == []


def test_hundred_thousand_instructions(browser, profiled, tmp_path):
    found = data.read(profiled.with_suffix(".json"))
    found["kernels"][0] = many(found["kernels"][0], 100_000)
    assert len(data.text_of(found)) < 3_000_000
    path = tmp_path / "many.html"
    path.write_text(page(found))
    assert path.stat().st_size < 5_000_000
    opened = Page(browser, path)
    assert opened.seconds < 20, "a second or two on an idle machine"
    before = opened.window()
    opened.wheel(opened.pixel("k0-this", before[1] / 2, 1), -400)
    assert opened.window()[1] < before[1]
    assert len(opened.ask("return model('k0-this-visible').indices")) < 20_000
    assert opened.log() == []


def many(kernel, count):
    """The kernel with other instructions: `count` of them, on pipes that are busy in turn."""
    events = {name: unpack(packed) for name, packed in kernel["events"].items()}
    lanes = np.unique(np.column_stack([events["core"], events["slot"]]), axis=0)
    rng = np.random.default_rng(0)
    lane = np.arange(count) % len(lanes)
    duration = rng.integers(5, 60, count).astype(float)
    start = 80.0 * (np.arange(count) // len(lanes))
    line, op = rng.integers(8, 20, count), rng.integers(0, len(kernel["ops"]), count)
    columns = {"core": lanes[lane, 0], "slot": lanes[lane, 1], "op": op, "line": line, "start": start, "duration": duration}
    links = {"source": np.arange(0, count - 1, 4), "destination": np.arange(1, count, 4)[: len(range(0, count - 1, 4))]}
    links |= {"event": np.zeros(len(links["source"]), int), "id": np.zeros(len(links["source"]), int)}
    return {**kernel, "events": {k: pack(v) for k, v in columns.items()}, "links": {k: pack(v) for k, v in links.items()}}
