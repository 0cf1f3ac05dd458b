"""Features of runs of the machine model."""

import json
import math

from tilelang_ascend.autotune.features import features_of
from tilelang_ascend.sim.report import CoreTime, RunResult


def core(name, end=100.0, **busy):
    return CoreTime(name, end, busy, {}, {pipe: 4 for pipe in busy})


def run(*cores, us=2.0):
    traffic = {"hbm_read": 1000, "hbm_write": 0, "l2_read": 2000, "l2_write": 50}
    return RunResult(hazards=(), cycles=100.0, simulated_us=us, launch_us=0.5, assumed_share=0.25, traffic=traffic, per_core=cores)


def test_shares_counts_and_portions_of_each_kind_of_core():
    f = features_of(run(core("AIV 0", 100.0, V=80.0, MTE2=20.0), core("AIV 1", 50.0, V=40.0, MTE2=20.0)))
    assert f["log_us"] == math.log(2) and f["launch_share"] == 0.25 and f["assumed_share"] == 0.25
    assert f["log_hbm_read"] == math.log(1001) and f["log_hbm_write"] == 0
    assert f["AIV_cores"] == 2 and f["AIV_busy_V"] == 0.6 and f["AIV_busy_MTE2"] == 0.2 and f["AIV_idle"] == 0.4
    assert math.isclose(f["AIV_imbalance"], 1 / 3)
    assert f["AIV_log_count_V"] == math.log(9) and f["AIV_log_cycles_V"] == math.log(16)
    assert not any(value for name, value in f.items() if name.startswith("AIC_"))


def test_names_are_the_same_for_every_run_and_values_are_json():
    runs = [run(core("AIV 0", V=1.0)), run(core("launch 2 AIC 0", M=5.0), core("AIV 3", V=1.0)), run(), RunResult(hazards=())]
    features = [features_of(r) for r in runs]
    assert len({tuple(f) for f in features}) == 1
    for f in features:
        assert json.loads(json.dumps(f, allow_nan=False)) == f
    assert features[1]["AIC_busy_M"] == 0.05
