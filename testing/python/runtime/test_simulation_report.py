"""What `kernel.simulate` and `kernel.explain` say about kernels: dict, text, op_summary, error band, and what would help."""

import csv
import dataclasses
import json
import re
import typing
from pathlib import Path

import numpy as np
import pytest
from report_kernels import MADE, add, exponentials, ones, twice

from tilelang_ascend import arch
from tilelang_ascend.arch import get_chip
from tilelang_ascend.runtime.simulation import SimulationReport
from tilelang_ascend.sim.profile import bands, layout, op_summary
from tilelang_ascend.sim.recording import Scale

PAGE = Path(__file__).parents[3] / "docs" / "calibration.md"


@pytest.fixture(scope="module", params=MADE)
def report(request):
    kernel, inputs = MADE[request.param]()
    return kernel.simulate(*inputs)


def fits(value, kind, at="report"):
    """Is `value` what the lay-out says, with exactly its keys?"""
    origin, inside = typing.get_origin(kind), typing.get_args(kind)
    if typing.is_typeddict(kind):
        hints = typing.get_type_hints(kind)
        assert set(value) == set(hints), at
        for key, hint in hints.items():
            fits(value[key], hint, f"{at}.{key}")
    elif origin is list:
        for i, item in enumerate(value):
            fits(item, inside[0], f"{at}[{i}]")
    elif origin is dict:
        assert all(isinstance(k, inside[0]) and isinstance(v, inside[1]) for k, v in value.items()), at
    else:
        assert type(value) in ((int, float) if kind is float else (kind,)), f"{at} is {value!r}, not {kind.__name__}"


def test_the_dict_has_the_lay_out(report):
    d = report.to_dict()
    fits(d, layout.ReportDict)
    assert json.loads(json.dumps(d)) == d
    with pytest.raises(AssertionError, match="report.l2"):
        fits({**d, "l2": {}}, layout.ReportDict)


def test_parts_are_the_whole(report):
    d = report.to_dict()
    for p in d["pipes"]:
        parts = [v for k, v in p.items() if k.endswith("_cycles") and k != "elapsed_cycles"]
        assert sum(parts) == pytest.approx(p["elapsed_cycles"])
        waits = [s["cycles"] for s in d["stalls"] if (s["core"], s["pipe"]) == (p["core"], p["pipe"])]
        assert sum(waits) == pytest.approx(p["elapsed_cycles"] - p["busy_cycles"])
    path = d["critical_path"]
    assert sum(e["cycles"] for e in path["entries"]) == pytest.approx(path["cycles"])
    assert path["cycles"] / d["clock_hz"] * 1e6 == pytest.approx(d["simulated_us"])
    assert sum(s["cycles"] for s in report.to_dict(10**9)["critical_path"]["steps"]) == pytest.approx(path["cycles"])
    assert sum(t["read_bytes"] for t in d["tensors"]) == d["l2"]["read_bytes"]
    assert d["simulated_us"] == report.simulated_us == report.replay()
    assert 0 <= d["assumed_share"] <= 1 and d["error_band"]["low_us"] < d["simulated_us"] < d["error_band"]["high_us"]
    assert all(0 < r["share"] <= 1 + 1e-9 for r in d["roofline"] if r["achieved"])


def test_the_text_is_less_than_a_screen(report):
    lines = str(report).splitlines()
    assert 10 < len(lines) <= 28 and max(map(len, lines)) <= 118
    assert f"{report.simulated_us:.2f} us simulated ± " in lines[0] and "rests on assumed constants" in lines[1]
    assert any(re.search(r"^ +[\d.]+%  AI[CV] .* line \d+: \S.*[(=\[]", line) for line in lines), "source lines stand beside their share"
    assert len(repr(report)) < 100


def test_work_and_its_roof():
    kernel, inputs = MADE["scores"]()
    d = kernel.simulate(*inputs, values=False, checks=False).to_dict()
    roofs = {r["name"]: r for r in d["roofline"]}
    chip = get_chip("Ascend910B1")
    seconds = d["cycles"] / d["clock_hz"]
    assert roofs["cube"]["achieved"] == pytest.approx(2 * 256 * 512 * 128 / seconds / 1e12)
    assert roofs["cube"]["roof"] == pytest.approx(chip.num_aic * 16 * 16 * 16 * 2 * chip.clock_hz / 1e12), "float16, all cores"
    assert roofs["L2 read"]["achieved"] == pytest.approx(d["l2"]["read_bytes"] / seconds / 1e9)
    assert d["cores"] == {"AIC": 4, "AIV": 8}
    rows = {t["name"]: t for t in d["tensors"]}
    assert rows["B"]["read_bytes"] == 4 * rows["B"]["least_read_bytes"] == 4 * 512 * 128 * 2
    assert [t["scratch"] for t in d["tensors"] if t["name"] not in "ABC"] == [True]


# ---- op_summary

GOLDEN = (
    "Device_id,Model ID,Task ID,Stream ID,Op Name,OP Type,Task Type,Task Start Time(us),Task Duration(us),Task Wait Time(us),Block Dim,"
    "Mix Block Dim,Input Shapes,Input Data Types,Input Formats,Output Shapes,Output Data Types,Output Formats,aicore_time(us),"
    "aic_total_cycles,aic_mac_time(us),aic_mac_ratio,aic_scalar_time(us),aic_scalar_ratio,aic_mte1_time(us),aic_mte1_ratio,"
    "aic_mte2_time(us),aic_mte2_ratio,aic_fixpipe_time(us),aic_fixpipe_ratio,aic_icache_miss_rate,aiv_time(us),aiv_total_cycles,"
    "aiv_vec_time(us),aiv_vec_ratio,aiv_scalar_time(us),aiv_scalar_ratio,aiv_mte2_time(us),aiv_mte2_ratio,aiv_mte3_time(us),"
    "aiv_mte3_ratio,aiv_icache_miss_rate,cube_utilization(%)"
)


def table(report, path):
    with report.save_op_summary(path).open(newline="") as file:
        return list(csv.DictReader(file))


def test_op_summary_has_the_columns_of_msprof(report, tmp_path):
    report.save_op_summary(tmp_path / "sub" / "op_summary_1.csv")
    assert (tmp_path / "sub" / "op_summary_1.csv").read_text().splitlines()[0] == GOLDEN == ",".join(op_summary.COLUMNS)


def test_op_summary_says_what_the_report_says(tmp_path):
    kernel, inputs = MADE["scores"]()
    report = kernel.simulate(*inputs)
    (row,) = table(report, tmp_path / "op_summary_1.csv")
    assert row["Op Name"] == "scores_kernel" and (row["Task Type"], row["Block Dim"], row["Mix Block Dim"]) == ("MIX_AIC", "4", "8")
    assert (row["Input Shapes"], row["Input Data Types"]) == ("256,128;512,128", "FLOAT16;FLOAT16")
    assert (row["Output Shapes"], row["Output Data Types"], row["Output Formats"]) == ("256,512", "FLOAT", "ND")
    assert float(row["Task Duration(us)"]) == pytest.approx(report.simulated_us, abs=1e-3)
    assert row["aic_icache_miss_rate"] == "N/A"
    for kind, total, cores in (("aic", "aicore_time(us)", 4), ("aiv", "aiv_time(us)", 8)):
        us, cycles = float(row[total]), float(row[f"{kind}_total_cycles"])
        assert cycles / cores / report.run.clock_hz * 1e6 == pytest.approx(us, rel=1e-3), "cycles of all cores, time of one"
        assert us <= report.simulated_us - report.run.launch_us + 1e-3
        for column in [c for c in row if c.startswith(f"{kind}_") and c.endswith("_ratio")]:
            assert float(row[column]) == pytest.approx(float(row[column.replace("_ratio", "_time(us)")]) / us, abs=2e-3)
    mac = [c.busy_cycles["M"] for c in report.run.per_core if c.name.startswith("AIC")]
    assert float(row["aic_mac_time(us)"]) == pytest.approx(sum(mac) / 4 / report.run.clock_hz * 1e6, abs=1e-3)
    assert float(row["cube_utilization(%)"]) == pytest.approx(100 * sum(mac) / 24 / report.run.cycles, abs=1e-2)


def test_profile_reads_what_a_simulation_wrote(tmp_path):
    kernel = twice(4096)
    report = kernel.simulate(*ones(4096))
    report.save_op_summary(tmp_path / "op_summary_1.csv")
    first, second = kernel.profile(tmp_path)
    assert first.duration_us + second.duration_us == pytest.approx(report.simulated_us, abs=2e-3)
    assert (first.blocks, second.blocks) == (16, 8) and first.pipes["aiv_mte2_time"] > 0 and first.kernel != second.kernel
    start = [float(row["Task Start Time(us)"]) for row in table(report, tmp_path / "op_summary_2.csv")]
    assert start == [0, first.duration_us]


# ---- the error band


def test_the_rows_are_those_of_the_page():
    """`python -m tilelang_ascend.sim.profile.bands docs/calibration.md` makes them anew."""
    assert list(bands.measured_rows()) == bands.rows_of_page(PAGE.read_text(encoding="utf-8"))
    assert len(bands.measured_rows()) > 80


def test_nine_of_ten_rows_are_inside_of_the_band_of_their_class():
    rows = bands.measured_rows()
    for bound in ("HBM", "MTE2", "V", "latency"):
        band = bands.error_band(bound, 1.0, 100.0, 0.0, False)
        own = [row for row in rows if row.bound == bound]
        for part in (own, [row for row in own if row.use == "aside"]):
            # Published time is simulated time over ratio.
            inside = [band["low_us"] - 1e-9 <= 100 / row.ratio <= band["high_us"] + 1e-9 for row in part]
            assert sum(inside) >= 0.9 * len(part) or len(part) < bands.FEW
        assert band["rows"] == len(own) and band["basis"] == f"{bound}-bound rows"


def test_what_no_row_measures_has_the_widest_band():
    worst = max(row.error for row in bands.measured_rows())
    fix = bands.error_band("FIX", 1.0, 100.0, 0.0, False)
    assert fix["relative"] == pytest.approx(worst) and "none is bound by FIX" in fix["basis"]
    between = bands.error_band("V", 0.99, 100.0, 0.0, True)
    assert between["relative"] == worst and "none has flags between cores" in between["basis"]
    few = bands.error_band("M", 1.0, 100.0, 0.0, False)
    assert few["relative"] < worst and "only 4 bound by M" in few["basis"]


def test_time_that_the_bound_does_not_explain_is_less_certain():
    errors = [bands.error_band("HBM", share, 100.0, launch, False)["relative"] for share, launch in ((1.0, 0.0), (0.9, 0.0), (0.9, 50.0))]
    assert errors == sorted(errors) and errors[0] < errors[-1] < bands.error_band("latency", 0.3, 100.0, 50.0, False)["relative"]


def test_kernels_have_the_band_of_what_bounds_them():
    of = lambda name: (lambda kernel, inputs: kernel.simulate(*inputs, warm=False).to_dict())(*MADE[name]())
    streaming, mixed = of("add"), of("scores")
    assert streaming["bound"]["name"] == "HBM" and streaming["error_band"]["basis"].startswith("HBM-bound rows")
    assert any(e["kind"] == "cross" for e in mixed["critical_path"]["entries"])
    assert "flags between cores" in mixed["error_band"]["basis"]


# ---- explain


@pytest.fixture
def chip_data(monkeypatch):
    """Replace numbers of the chip that kernels are simulated on."""
    original = arch.get_chip

    def put(**numbers):
        def changed(name):
            chip = original(name)
            quantities = dict(chip.quantities)
            for key, value in numbers.items():
                quantities[key] = dataclasses.replace(quantities[key], value=value)
            return dataclasses.replace(chip, quantities=quantities)

        monkeypatch.setattr(arch, "get_chip", changed)

    yield put


def timed(kernel, inputs, **more):
    return kernel.simulate(*inputs, values=False, checks=False, **more).simulated_us


def change(explanation, word):
    found = [c for c in explanation.changes if word in c.what]
    assert len(found) == 1, f"{word} is not in\n{explanation}"
    return found[0]


def test_a_kernel_bound_by_memory_is_told_so_and_the_time_is_that_of_a_chip_with_more(chip_data):
    kernel, inputs = MADE["add"]()
    told = kernel.explain(*inputs, warm=False)
    assert "bound by HBM, in use 9" in str(told) and told.simulated_us == timed(kernel, inputs, warm=False)
    more = change(told, "HBM bandwidth")
    assert more.scales == (Scale("hbm"),) and more.simulated_us < 0.9 * told.simulated_us
    chip_data(hbm_bytes_per_second=get_chip("Ascend910B1").hbm_bytes_per_second * 1e9)
    assert timed(kernel, inputs, warm=False) == pytest.approx(more.simulated_us, rel=1e-12)


def test_the_time_of_a_pipe_is_that_of_a_chip_where_it_costs_nothing(chip_data):
    kernel, inputs = exponentials(65536, 8192, 2), ones(65536)
    told = change(kernel.explain(*inputs), "the time of AIV MTE2")
    rate = {"gm_to_ub_bytes_per_cycle": 1e12, "gm_to_ub_hbm_bytes_per_cycle": 1e12}
    chip_data(gm_to_ub_interval_cycles=0, gm_to_ub_burst_cycles=0, **rate)
    assert timed(kernel, inputs) == pytest.approx(told.simulated_us, rel=1e-3)


def test_a_kernel_bound_by_waits_is_told_which_and_its_advice_helps():
    """UB has room for one tile: each load waits until the store has read it."""
    kernel, inputs = exponentials(1 << 19, 32768, 1), ones(1 << 19)
    told = kernel.explain(*inputs)
    wait = told.changes[0]
    assert "the wait of AIV MTE2 for MTE3" in wait.what and "(T.copy(A[i * tile], a))" in wait.what and "smaller tile" in wait.advice
    assert wait.line and str(told).count("without ") == len(told.changes) <= 3
    smaller = timed(exponentials(1 << 19, 16384, 1), inputs)
    # The promise is what no wait at all would give; two tiles do not remove every one.
    assert wait.simulated_us < smaller < 0.65 * told.simulated_us


@pytest.mark.parametrize("what, key", [("cross", "cross_core_flag_cycles"), ("issue", "issue_cycles"), ("flag", "flag_cycles")])
def test_costs_that_are_removed_are_gone_from_the_chip_data(chip_data, what, key):
    kernel, inputs = MADE["scores"]()
    report = kernel.simulate(*inputs, values=False, checks=False)
    chip_data(**{key: 0})
    assert timed(kernel, inputs) == pytest.approx(report.replay(Scale(what)), rel=1e-12)
    if what == "cross":
        chip_data(**{key: 5000})
        assert "flags between cores" in str(kernel.simulate(*inputs, values=False, checks=False).explain())


def test_latency_that_is_removed_is_that_of_the_chip_data(chip_data):
    kernel, inputs = exponentials(65536, 512, 1), ones(65536)
    report = kernel.simulate(*inputs, values=False, checks=False)
    told = report.replay(Scale("latency"))
    chip = get_chip("Ascend910B1")
    chip_data(**{key: 0 for key in chip.quantities if key.endswith("_latency_cycles")})
    assert timed(kernel, inputs) == pytest.approx(told, rel=1e-12) and told < report.simulated_us
    assert "latency" in str(report.explain())


def test_several_launches_are_one_cost():
    told = twice(4096).explain(*ones(4096))
    launches = change(told, "all launches but one")
    assert launches.simulated_us == pytest.approx(told.simulated_us - get_chip("Ascend910B1").launch_seconds * 1e6)


def test_cores_without_work_are_mentioned():
    assert "It uses 1 of 48 AIV." in str(exponentials(65536, 8192, 1).explain(*ones(65536)))
    assert "It uses" not in str(add(48 * 32768, 8192, 2).explain(*ones(48 * 32768, 48 * 32768)))


def test_explain_computes_nothing():
    n = 4096
    kernel = twice(n)
    x = np.full(n, 3, np.float32)
    kernel.explain(x)
    assert np.all(x == 3)


def test_a_launch_of_nothing_has_a_report():
    from tilelang_ascend.sim import machine

    chip = get_chip("Ascend910B1")
    run = machine.run(chip, "aiv_only", 1, {"aiv": [b""]}, [], [], machine.SimOptions(keep_record=True))
    report = SimulationReport(chip.name, "nothing", (), run, launch_names=("nothing_kernel",))
    fits(report.to_dict(), layout.ReportDict)
    assert "nothing on Ascend910B1: 3.30 us" in str(report) and str(report.explain())
