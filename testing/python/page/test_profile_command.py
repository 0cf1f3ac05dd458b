"""The command: what it writes, and how it fails."""

import json

import numpy as np
import page_scripts
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from tilelang_ascend.tools import cli
from tilelang_ascend.tools.page import data
from tilelang_ascend.tools.page.columns import pack, unpack
from tilelang_ascend.tools.page.tables import show, tables_of

CALL = "x = torch.zeros(256)\nmake(256)(x)\nassert (x == 1).all()"


@pytest.fixture
def script(tmp_path):
    def write(rest=CALL, inside="pass"):
        path = tmp_path / "add.py"
        path.write_text(page_scripts.ADD.replace("{rest}", rest).replace("{inside}", inside))
        return path

    return write


def profile(*args):
    pytest.importorskip("bokeh")
    return CliRunner().invoke(cli.main, ["profile", *map(str, args)])


def test_writes_page_and_data_and_leaves_values_alone(script, tmp_path):
    result = profile("-o", tmp_path / "new" / "p.html", script())
    assert result.exit_code == 0, result.output
    assert "add_one: " in result.output and "us simulated on Ascend910B1" in result.output
    found = data.read(tmp_path / "new" / "p.json")
    (kernel,) = found["kernels"]
    assert found["script"] == "add.py" and kernel["name"] == "add_one"
    assert kernel["source"]["text"] == script().read_text()
    assert set(kernel["ops"]) >= {"copy_gm_to_ub", "adds", "copy_ub_to_gm"}
    assert (tmp_path / "new" / "p.html").read_text().startswith("<!DOCTYPE html>")


def test_every_kernel_once_by_its_first_call(script, tmp_path):
    calls = "k = make(256)\nfor _ in range(3):\n    k(torch.zeros(256))\nmake(384)(torch.zeros(384))\nmake(512)"
    result = profile("-o", tmp_path / "p.html", script(calls))
    assert result.exit_code == 0, result.output
    assert [k["name"] for k in data.read(tmp_path / "p.json")["kernels"]] == ["add_one", "add_one_1"]
    assert "add_one_2: not profiled, the script does not call it" in result.output


def test_what_a_kernel_prints_is_shown_once(script, tmp_path):
    result = profile("-o", tmp_path / "p.html", script(inside='T.print(bx, "block")'))
    assert result.exit_code == 0, result.output
    lines = [line for line in result.output.splitlines() if "block" in line and line.startswith("[AIV 0]")]
    assert len(lines) == 1, result.output


def test_against_another_run(script, tmp_path):
    assert profile("-o", tmp_path / "a.html", script()).exit_code == 0
    path = script(CALL.replace("256", "4096"))
    result = profile("-o", tmp_path / "b.html", "--against", tmp_path / "a.json", path)
    assert result.exit_code == 0, result.output
    assert "the other run" in (tmp_path / "b.html").read_text()


def test_a_script_without_kernels(tmp_path):
    path = tmp_path / "none.py"
    path.write_text("print('hello')")
    result = profile("-o", tmp_path / "p.html", path)
    assert result.exit_code == 1 and "compiled no kernel" in result.output and not (tmp_path / "p.html").exists()


def test_a_script_that_calls_none(script, tmp_path):
    result = profile("-o", tmp_path / "p.html", script("make(256)"))
    assert result.exit_code == 1 and "calls none of its kernels" in result.output and "hint: call the kernel" in result.output
    assert not (tmp_path / "p.html").exists()


def test_a_script_that_fails_later_leaves_a_page(script, tmp_path):
    result = profile("-o", tmp_path / "p.html", script(CALL + "\nraise ValueError('afterwards')"))
    assert result.exit_code == 1 and "afterwards" in result.output and (tmp_path / "p.html").exists()


@pytest.mark.parametrize(
    "text, told",
    [
        ("{", "is no JSON file"),
        ("\x00\x01", "is no JSON file"),
        ("[1, 2]", "is no profile"),
        ('{"traceEvents": []}', "is no profile"),
        ('{"format": "tilelang-ascend profile", "version": 99, "kernels": []}', "version 99"),
        ('{"format": "tilelang-ascend profile", "version": 1, "kernels": [{}]}', "is a damaged profile"),
        ('{"format": "tilelang-ascend profile", "version": 1, "kernels": 3}', "is a damaged profile"),
        ('{"format": "tilelang-ascend profile", "version": 1}', "is a damaged profile"),
    ],
)
def test_other_files_are_refused_before_the_script_runs(script, tmp_path, text, told):
    (tmp_path / "other.json").write_text(text)
    result = profile("-o", tmp_path / "p.html", "--against", tmp_path / "other.json", script("print('it ran')"))
    assert result.exit_code == 1 and told in result.output and "it ran" not in result.output
    assert "error: " in result.output and "Traceback" not in result.output


def damage(kernel, how):
    events = kernel["events"]
    if how == "text":
        events["start"] = {"dtype": "<f8", "data": "no base64!"}
    elif how == "not deflated":
        events["start"]["data"] = "AAAA"
    elif how == "lengths":
        events["start"] = pack(np.zeros(1))
    elif how == "table":
        events["op"] = pack(unpack(events["op"]).astype(int) + 1000)
    elif how == "objects":
        events["start"]["dtype"] = "|O"
    elif how == "links":
        kernel["links"]["source"] = pack(unpack(kernel["links"]["source"]).astype(int) + 10**6)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("how", ["text", "not deflated", "lengths", "table", "objects", "links"])
def test_damaged_columns_are_refused(script, tmp_path, how):
    assert profile("-o", tmp_path / "a.html", script()).exit_code == 0
    found = json.loads((tmp_path / "a.json").read_text())
    damage(found["kernels"][0], how)
    (tmp_path / "a.json").write_text(json.dumps(found))
    result = profile("-o", tmp_path / "p.html", "--against", tmp_path / "a.json", script())
    assert result.exit_code == 1 and "is a damaged profile" in result.output, result.output


def test_the_page_is_no_json(script, tmp_path):
    result = profile("-o", tmp_path / "p.json", script())
    assert result.exit_code == 2 and "ending .json" in result.output


def test_a_file_that_cannot_be_written(script, tmp_path):
    (tmp_path / "taken").write_text("")
    result = profile("-o", tmp_path / "taken" / "p.html", script())
    assert result.exit_code == 1 and "cannot be written" in result.output and "--out" in result.output


def test_the_extra_is_named_where_it_is_missing(script, tmp_path, monkeypatch):
    from tilelang_ascend.tools import profile as command

    monkeypatch.setattr(command.importlib.util, "find_spec", lambda name: None)
    result = CliRunner().invoke(cli.main, ["profile", str(script("print('it ran')"))])
    assert result.exit_code == 1 and 'pip install "tilelang-ascend[profile]"' in result.output and "it ran" not in result.output


def test_open_shows_the_page(script, tmp_path, monkeypatch):
    from tilelang_ascend.tools import profile as command

    opened = []
    monkeypatch.setattr(command.webbrowser, "open", lambda uri: opened.append(uri) or False)
    result = profile("-o", tmp_path / "p.html", "--open", script())
    assert result.exit_code == 0 and opened == [(tmp_path / "p.html").as_uri()] and "open" in result.output


@given(st.lists(st.integers(-(2**31), 2**32)))
def test_integers_survive_packing(values):
    assert unpack(pack(np.array(values, np.int64))).tolist() == values


@given(st.lists(st.floats(allow_nan=False)))
def test_floats_survive_packing(values):
    assert unpack(pack(np.array(values, np.float64))).tolist() == values


def test_tables_show_keys_nobody_has_named():
    report = {"kernel": "k", "fresh": {"share": 0.5, "rows": [{"core": "AIC", "odd_cycles": 12.25, "line": 3}]}, "notes": ["a <b>"]}
    tables = {t.title: t for t in tables_of(report)}
    assert [c.text for c in tables["Fresh"].rows[0]] == ["share", "50.0 %"]
    rows = tables["Fresh: rows"]
    assert rows.columns == ["core", "odd cycles", "line"] and [c.text for c in rows.rows[0]] == ["AIC", "12.2", "3"] and rows.lines == [3]
    assert tables["Notes"].rows[0][0].text == "a <b>"


def test_rows_of_two_runs_meet_by_their_words():
    row = lambda core, cycles: {"core": core, "line": cycles, "cycles": float(cycles)}
    (table,) = tables_of({"pipes": [row("AIC", 100), row("AIV", 200)]}, {"pipes": [row("AIV", 300), row("AIC", 100)]})
    assert [[c.other for c in cells] for cells in table.rows] == [["", "", ""], ["", "300", "300"]]


@pytest.mark.parametrize("value", [float("nan"), float("inf"), None, True, 0, 1e300, "x", [1]])
def test_any_value_has_a_text(value):
    for key in ("cycles", "share", "line", "nbytes", "clock_hz", ""):
        assert isinstance(show(key, value), str)
