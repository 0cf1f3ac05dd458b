"""Native programs: C functions, tvm_ffi functions, failing programs; and the streams they issue."""

import ctypes
import shutil
import subprocess

import numpy as np
import pytest
from stream_program import CHIP, Program, add_arrays, gm, launch, ub, vector_add

from tilelang_ascend import native
from tilelang_ascend.isa.table import TABLE
from tilelang_ascend.sim.machine import SimOptions, Tensor, run
from tilelang_ascend.sim.streams import first_difference, records

OPS = {name: i for i, name in enumerate(TABLE)}

SOURCE = """
#include <cstdint>
extern "C" void tla_issue(int32_t, int32_t, int32_t, const int64_t*);
extern "C" int64_t tla_scalar_0(int32_t, int32_t);
extern "C" int32_t tla_core_type();
extern "C" void tla_issue_6(int32_t, int32_t, int64_t, int64_t, int64_t, int64_t, int64_t, int64_t);
extern "C" void tla_issue_2(int32_t, int32_t, int64_t, int64_t);
static int64_t word(int64_t space, int64_t dtype, int64_t offset) { return space << 56 | dtype << 48 | offset; }
extern "C" void entry(const int64_t* args, int32_t n) {
  if (n != 3 || tla_core_type() != 1) return;
  int64_t block = tla_scalar_0(GET_BLOCK_IDX, 1);
  int64_t src = args[0] + block * 256, dst = args[1] + block * 256;
  int64_t load[] = {word(5, 11, 0), word(0, 11, src), 1, 256, 0, 0, 0, 0, 0, 0};
  tla_issue(COPY_IN, 2, 10, load);
  tla_issue_2(SET_FLAG, 3, EVENT, args[2]);
  tla_issue_2(WAIT_FLAG, 3, EVENT, args[2]);
  tla_issue_6(COPY_OUT, 4, word(0, 11, dst), word(5, 11, 0), 1, 256, 0, 0);
}
"""


@pytest.fixture(scope="module")
def entry(tmp_path_factory):
    if shutil.which("g++") is None:
        pytest.skip("needs g++")
    folder = tmp_path_factory.mktemp("entry")
    event = TABLE["set_flag"].attrs["event"].index("MTE2_MTE3")
    names = {"GET_BLOCK_IDX": "get_block_idx", "COPY_IN": "copy_gm_to_ub", "COPY_OUT": "copy_ub_to_gm",
             "SET_FLAG": "set_flag", "WAIT_FLAG": "wait_flag"}  # fmt: skip
    defines = [f"-D{macro}={OPS[name]}" for macro, name in names.items()] + [f"-DEVENT={event}"]
    (folder / "entry.cc").write_text(SOURCE)
    subprocess.run(["g++", "-shared", "-fPIC", *defines, "entry.cc", "-o", "entry.so"], cwd=folder, check=True)
    native.load()
    return ctypes.CDLL(str(folder / "entry.so"))


def _run(target, a, c, **options):
    rows = [Tensor(a.ctypes.data, a.nbytes, "a", False), Tensor(c.ctypes.data, c.nbytes, "c")]
    words = [a.ctypes.data, c.ctypes.data, 3]
    return run(CHIP, "aiv_only", 4, {"aiv": target}, words, rows, SimOptions(**options))


def test_c_entry(entry):
    a, _, c = add_arrays(256)
    result = _run(ctypes.cast(entry.entry, ctypes.c_void_p).value, a, c, record_stream=True)
    assert result.ok, result.text()
    np.testing.assert_array_equal(a, c)
    names = list(TABLE)
    issued = [names[r.op] for r in records(result.streams[2])]
    assert issued == ["get_block_idx", "copy_gm_to_ub", "set_flag", "wait_flag", "copy_ub_to_gm"]


def test_streams_do_not_depend_on_addresses(entry):
    target = ctypes.cast(entry.entry, ctypes.c_void_p).value
    streams = []
    for _ in range(2):
        a, _, c = add_arrays(256)
        streams.append(_run(target, a, c, record_stream=True).streams)
        keep = a, c  # noqa: F841 - the second pair must not reuse the memory of the first
        streams.append(_run(target, a.copy(), c.copy(), record_stream=True).streams)
    assert all(first_difference(streams[0], s) is None for s in streams[1:])


def test_first_difference_is_shown():
    a, b, c = add_arrays()
    good = vector_add(a, b, c)
    runs = {"a": a, "b": b, "c": c}
    x = launch(runs, good, record_stream=True)
    other = good.without(4).add(ub(0), ub(512), ub(1024), 3)
    y = launch(runs, other, record_stream=True, checks=())
    text = first_difference(x.streams, y.streams, x.core_names)
    assert text.startswith("AIV 0: instruction 4:") and "copy_gm_to_ub" in text
    assert "GM1[0]:float32" in text
    shorter = Program()
    shorter.items = good.items[:-1]
    z = launch(runs, shorter, record_stream=True)
    assert "instructions; the first one missing is wait_flag event=MTE3_V" in first_difference(x.streams, z.streams)
    moved = Program()
    moved.items = [(op, line + 100, args) for op, line, args in good.items]
    assert first_difference(x.streams, launch(runs, moved, record_stream=True).streams) is None


def test_ffi_function_and_its_failure():
    import tvm_ffi

    calls = []

    def program(*args):
        calls.append(args)

    a, _, c = add_arrays(256)
    assert _run(tvm_ffi.convert(program), a, c).ok
    assert calls == [(a.ctypes.data, c.ctypes.data, 3)] * 4

    def failing(*_):
        raise ValueError("no luck")

    with pytest.raises(RuntimeError, match="AIV [0-3].*no luck"):
        _run(tvm_ffi.convert(failing), a, c)
    assert _run(tvm_ffi.convert(program), a, c).ok


def test_issue_outside_of_a_run_does_nothing():
    library = native.load()
    library.tla_issue(ctypes.c_int32(0), ctypes.c_int32(0), ctypes.c_int32(0), None)


def test_damaged_stream():
    a, _, c = add_arrays(256)
    with pytest.raises(RuntimeError, match="damaged"):
        _run([np.array([0, 0, 99], np.int64).tobytes()], a, c)


def test_machines_are_independent_between_threads():
    from concurrent.futures import ThreadPoolExecutor

    def one(seed):
        a, b, c = add_arrays()
        result = launch({"a": a, "b": b, "c": c}, vector_add(a, b, c), seed=seed)
        return result.ok and (c == a + b).all()

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(one, range(32)))


def test_missing_and_stale_library(monkeypatch):
    monkeypatch.setattr(native, "library_path", lambda: None)
    with pytest.raises(native.NativeLibraryError, match="make build"):
        native.load.__wrapped__()
    monkeypatch.undo()
    monkeypatch.setattr("tilelang_ascend.isa.table.table_hash", lambda: 1)
    with pytest.raises(native.NativeLibraryError, match="another version of the instruction table"):
        native.load.__wrapped__()


def test_gm_address_word():
    a, _, c = add_arrays(64)
    result = launch({"a": a, "c": c}, Program().load(ub(0), gm(a, 64), 64), record_stream=True)
    (record,) = records(result.streams[0])
    assert record.text().startswith("copy_gm_to_ub d=UB[0]:float32 s=GM0[64]:float32 block_count=1 block_len=64")
