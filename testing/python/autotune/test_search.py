"""The search over tables made up here: no compiler, no machine."""

import math
import random
import sys

import pytest

from tilelang_ascend.autotune.search import LEAST, ModelSearch, Point, budget
from tilelang_ascend.errors import InvalidArgument


def space(count, seed=0, scale=1.0):
    """Points whose time is three parts after each other, of which one grows as another shrinks; `scale` makes the kernel larger."""
    rng = random.Random(seed)
    points = []
    for _ in range(count):
        weights = {name: rng.uniform(0.1, 1.0) for name in ("load", "work", "store")}
        predicted = scale * rng.uniform(0.9, 1.3)
        parts = {name: predicted * weight / sum(weights.values()) for name, weight in weights.items()}
        points.append(Point(predicted, {"log_ms": math.log(predicted), **{k: v / predicted for k, v in parts.items()}}))
    return points


def truth(points, load=2.5, work=0.5, store=1.0):
    """Times where the model's constants for the three parts are wrong by these factors."""
    factors = {"load": load, "work": work, "store": store}
    times = []
    for p in points:
        times.append(sum(p.features[name] * p.predicted * factor for name, factor in factors.items()))
    return times


def measure(search, times, count, batch=4, noise=0.0, fails=lambda i: False):
    """Follow the proposals `count` times; the indices in order of measurement."""
    rng, order = random.Random(1), []
    while len(order) < count:
        proposed = search.propose(min(batch, count - len(order)))
        if not proposed:
            break
        for i in proposed:
            assert i not in order
            order.append(i)
            search.observe(i, None if fails(i) else times[i] * (1 + rng.gauss(0, noise)))
    return order


def regret(times, order):
    """How much slower the best found is than the best there is."""
    return min(times[i] for i in order) / min(times) - 1


@pytest.fixture
def without_xgboost(monkeypatch):
    monkeypatch.setitem(sys.modules, "xgboost", None)


def test_first_proposals_are_the_models_own_ranking():
    points = space(50)
    assert ModelSearch(points).propose(50) == sorted(range(50), key=lambda i: points[i].predicted)


@pytest.mark.parametrize("seed", range(5))
def test_finds_a_good_program_within_the_budget(seed):
    pytest.importorskip("xgboost")
    points = space(400, seed)
    times = truth(points)
    order = measure(ModelSearch(points), times, budget(400, None), noise=0.02)
    assert len(order) == 40
    assert regret(times, order) < 0.05


def test_correction_finds_what_the_model_alone_does_not(monkeypatch):
    pytest.importorskip("xgboost")
    spaces = [space(400, seed) for seed in range(6)]
    corrected = [regret(truth(p), measure(ModelSearch(p), truth(p), 24)) for p in spaces]
    monkeypatch.setitem(sys.modules, "xgboost", None)
    alone = [regret(truth(p), measure(ModelSearch(p), truth(p), 24)) for p in spaces]
    assert sum(corrected) < 0.5 * sum(alone)


def test_history_of_another_kernel_helps():
    pytest.importorskip("xgboost")
    other = space(300, seed=100, scale=20)
    history = list(zip(other, truth(other)))
    spaces = [space(400, seed) for seed in range(6)]
    with_history = [regret(truth(p), measure(ModelSearch(p, history), truth(p), 12)) for p in spaces]
    without = [regret(truth(p), measure(ModelSearch(p), truth(p), 12)) for p in spaces]
    assert sum(with_history) < 0.5 * sum(without)


def test_misleading_history_does_no_harm():
    pytest.importorskip("xgboost")
    other = space(300, seed=100, scale=20)
    history = list(zip(other, truth(other, load=0.4, work=2.5, store=1.0)))
    for seed in range(5):
        points = space(400, seed)
        times = truth(points)
        assert regret(times, measure(ModelSearch(points, history), times, 40)) < 0.05


def test_history_with_other_features_is_no_error():
    pytest.importorskip("xgboost")
    points = space(60)
    history = [(Point(1.0, {"load": 0.1 * i, "unknown": 3.0}), 1.0 + 0.1 * i) for i in range(10)]
    times = truth(points)
    assert len(measure(ModelSearch(points, history), times, 60)) == 60


def test_failures_are_not_proposed_again_and_others_are_found():
    points = space(200)
    times = truth(points)
    best_first = sorted(range(200), key=lambda i: points[i].predicted)
    broken = set(best_first[:10])
    order = measure(ModelSearch(points), times, 40, fails=lambda i: i in broken)
    assert len(set(order)) == 40 and not broken <= set(order[-20:])
    found = [i for i in order if i not in broken]
    assert min(times[i] for i in found) < 1.05 * min(times[i] for i in range(200) if i not in broken)


def test_all_points_may_fail():
    points = space(30)
    search = ModelSearch(points)
    assert sorted(measure(search, [1.0] * 30, 1000, fails=lambda i: True)) == list(range(30))
    assert search.propose(5) == []


def test_everything_is_measured_once_when_the_budget_is_the_space():
    points = space(37)
    assert sorted(measure(ModelSearch(points), truth(points), 1000)) == list(range(37))


def test_nothing_to_search():
    assert ModelSearch([]).propose(3) == []


@pytest.mark.parametrize("history", [False, True])
def test_same_measurements_give_the_same_proposals(history):
    points = space(150)
    times = truth(points)
    earlier = list(zip(points, times))[:50] if history else []
    runs = [measure(ModelSearch(points, earlier), times, 60) for _ in range(2)]
    assert runs[0] == runs[1]


def test_proposals_do_not_change_without_a_measurement():
    search = ModelSearch(space(20))
    assert search.propose(3) == search.propose(3) == search.propose(10)[:3]


def test_without_xgboost_the_model_ranks(without_xgboost):
    points = space(80)
    times = truth(points)
    other = space(50, seed=9)
    order = measure(ModelSearch(points, list(zip(other, truth(other)))), times, 80)
    assert order == sorted(range(80), key=lambda i: points[i].predicted)


def test_equal_predictions_keep_their_order():
    points = [Point(1.0, {"load": 0.0})] * 5
    assert ModelSearch(points).propose(5) == [0, 1, 2, 3, 4]


@pytest.mark.parametrize(
    "programs, asked, expected",
    [
        (1, None, 1),
        (LEAST, None, LEAST),
        (100, None, LEAST),
        (1000, None, 100),
        (1001, None, 101),
        (5, 50, 5),
        (500, 3, 3),
        (1, 1, 1),
        (0, None, 0),
    ],
)
def test_budget(programs, asked, expected):
    assert budget(programs, asked) == expected


@pytest.mark.parametrize("asked", [0, -1])
def test_budget_of_nothing_is_an_error(asked):
    with pytest.raises(InvalidArgument, match="measurements"):
        budget(10, asked)
