"""Values: correct programs give correct results and no findings, whatever the schedule."""

import numpy as np
import pytest
from stream_program import Program, add_arrays, checks, gm, launch, ub, vector_add


@pytest.mark.parametrize("adversarial", [False, True])
@pytest.mark.parametrize("seed", [0, 1])
def test_synchronised_add_is_right_and_silent(adversarial, seed):
    a, b, c = add_arrays()
    result = launch({"a": (a, "in"), "b": (b, "in"), "c": c}, vector_add(a, b, c), adversarial=adversarial, seed=seed)
    assert result.hazards == (), result.text()
    np.testing.assert_array_equal(c, a + b)


def test_late_transfer_shows_a_missing_wait_as_wrong_data():
    a, b, c = add_arrays(64)
    racy = Program().load(ub(0), gm(a), 256).load(ub(1024), gm(b), 256).add(ub(2048), ub(0), ub(1024), 64)
    racy.sync("V_MTE3").store(gm(c), ub(2048), 256)
    launch({"a": a, "b": b, "c": c}, racy, checks=())
    assert np.isnan(c).all()
    launch({"a": a, "b": b, "c": c}, racy, checks=(), adversarial=False)
    np.testing.assert_array_equal(c, a + b)


def test_without_values_nothing_is_written():
    a, b, c = add_arrays()
    result = launch({"a": a, "b": b, "c": c}, vector_add(a, b, c), values=False, checks=("racecheck", "synccheck"))
    assert result.ok and result.cycles > 0
    assert (c == -1).all()


def test_wait_may_be_issued_before_its_set():
    a, _, c = add_arrays(64)
    p = Program().wait("MTE2_V").add(ub(1024), ub(0), ub(0), 64).load(ub(0), gm(a), 256).set("MTE2_V")
    p.sync("V_MTE3").store(gm(c), ub(1024), 256)
    for adversarial in (False, True):
        c[:] = -1
        result = launch({"a": a, "c": c}, p, adversarial=adversarial)
        assert result.ok, result.text()
        np.testing.assert_array_equal(c, a + a)


def test_atomic_mode_is_the_one_at_issue():
    a, _, c = add_arrays(64)
    c[:] = 1
    p = Program().load(ub(0), gm(a), 256).sync("MTE2_MTE3").op("set_atomic", op="add", dtype="float32")
    p.store(gm(c), ub(0), 256).op("set_atomic", op="none", dtype="float32")
    assert launch({"a": a, "c": c}, p).ok
    np.testing.assert_array_equal(c, a + 1)


def test_blocks_share_memory_without_conflict_when_disjoint():
    a, b, c = add_arrays(64 * 4)
    programs = [vector_add(a[64 * i :], b[64 * i :], c[64 * i :], tiles=1) for i in range(4)]
    result = launch({"a": a, "b": b, "c": c}, programs, blocks=4)
    assert result.ok, result.text()
    np.testing.assert_array_equal(c, a + b)


def test_bad_chip_data_name_the_missing_key():
    class Broken:
        name, num_aiv, num_aic, clock_hz = "x", 1, 1, 1.0

        def to_json(self):
            return '{"name": "x", "generation": "c220"}'

    a, b, c = add_arrays()
    with pytest.raises(RuntimeError, match="lack the key"):
        launch({"a": a, "b": b, "c": c}, vector_add(a, b, c), chip=Broken())


def test_impossible_launches_are_refused():
    a, b, c = add_arrays()
    p = vector_add(a, b, c)
    with pytest.raises(ValueError, match="more than the 48 cores"):
        launch({"a": a, "b": b, "c": c}, p, blocks=49)
    with pytest.raises(ValueError, match="unknown checks leakcheck"):
        launch({"a": a, "b": b, "c": c}, p, checks=("leakcheck",))
    with pytest.raises(RuntimeError, match="overlap"):
        launch({"a": a, "again": a, "b": b, "c": c}, p)


def test_findings_are_deduplicated_and_capped():
    a, b, c = add_arrays()
    p = Program()
    for i in range(8):
        p.op("copy_gm_to_ub", ub(32 * i), gm(a, 4096), 1, 32, 0, 0, 0, 0, 0, 0.0, line=7)
    result = launch({"a": a, "b": b, "c": c}, p)
    assert len(result.hazards) == 1 and result.suppressed == 0
    many = Program()
    for _ in range(30):
        many.load(ub(0), gm(a, 4096), 32)
    result = launch({"a": a, "b": b, "c": c}, many, max_reports=5)
    assert checks(result) == {"memcheck"} and len(result.hazards) == 5 and result.suppressed == 25


def test_part_of_a_fresh_output_that_nobody_writes_is_reported():
    a, b, c = add_arrays()
    result = launch({"a": a, "b": b, "c": (c, "fresh")}, vector_add(a, b, c))
    assert result.ok and result.unwritten == ()
    result = launch({"a": a, "b": b, "c": (c, "fresh")}, vector_add(a, b, c, tiles=2))
    assert result.ok
    (gap,) = result.unwritten
    assert (gap.tensor, gap.lo, gap.hi, gap.nbytes) == ("c", 512, 768, 256) and "never written" in result.text()
    assert launch({"a": a, "b": b, "c": (c, "fresh")}, vector_add(a, b, c, tiles=2), checks=()).unwritten == ()


def test_undefined_values_are_still_reported_where_they_reach_a_fresh_output():
    a, _, c = add_arrays(64)
    p = Program().load(ub(0), gm(a), 128).sync("MTE2_MTE3").store(gm(c), ub(0), 256)
    result = launch({"a": a, "c": (c, "fresh")}, p)
    assert checks(result) == {"initcheck"} and result.unwritten == ()


def test_adding_to_a_fresh_output_leaves_it_unwritten():
    a, _, c = add_arrays(64)
    p = Program().load(ub(0), gm(a), 256).sync("MTE2_MTE3").op("set_atomic", op="add", dtype="float32")
    p.store(gm(c), ub(0), 256).op("set_atomic", op="none", dtype="float32")
    (gap,) = launch({"a": a, "c": (c, "fresh")}, p).unwritten
    assert gap.nbytes == 256
