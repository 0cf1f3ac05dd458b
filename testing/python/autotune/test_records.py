"""What was measured: kept, shared by processes, exported and imported; other people's files are left alone."""

import os
import sqlite3
import subprocess
import sys

import pytest
from click.testing import CliRunner

from tilelang_ascend.autotune import records
from tilelang_ascend.autotune.outcome import Outcome, Status
from tilelang_ascend.autotune.records import Memory, Record, Records, RecordsError
from tilelang_ascend.log import get_logger
from tilelang_ascend.tools.cli import main

FINE = Outcome(Status.OK, 0.5, "MTE2", checked=True, predicted=0.25, features={"pipe.M": 0.5})
WRONG = Outcome(Status.WRONG, error="racecheck: …", details="racecheck: …\nby whom")


def record(key="ab", outcome=FINE, place="machine model", **more) -> Record:
    return Record(key, place, **{"kernel": "gemm", "chip": "Ascend910B1", "created": 5.0, **more}, outcome=outcome)


def run(*words):
    return CliRunner().invoke(main, ["records", *map(str, words)])


@pytest.fixture
def file(tmp_path):
    return tmp_path / "some.sqlite"


@pytest.fixture
def warnings(monkeypatch):
    told = []
    monkeypatch.setattr(get_logger(), "warning", lambda text, *args: told.append(text % args))
    return told


def test_what_is_saved_is_there_next_time(file):
    with Records(file) as first:
        first.save(record())
        first.save(record(place="npu", outcome=WRONG))
        first.save(record(outcome=FINE))
    with Records(file) as second:
        assert second.load("ab", "machine model") == FINE and second.load("ab", "npu") == WRONG
        assert second.load("cd", "npu") is None and len(second) == 2
        assert list(second.select(place="npu")) == [record(place="npu", outcome=WRONG)]
    assert file.stat().st_mode & 0o077 == 0


def test_what_may_end_differently_is_not_kept():
    memory = Memory()
    for key, outcome in {"a": Outcome(Status.CRASHED, error="x"), "b": Outcome(Status.TIMED_OUT), "c": WRONG}.items():
        memory.save(record(key, outcome))
    memory.close()
    memory = Memory()
    assert [memory.load(key, "machine model") for key in "abc"] == [None, None, WRONG]


def test_the_cache_is_switched_off_and_cleared(monkeypatch):
    from tilelang_ascend import cache

    memory = Memory()
    memory.save(record())
    memory.close()
    monkeypatch.setenv("TILELANG_AUTO_TUNING_DISABLE_CACHE", "1")
    assert Memory().load("ab", "machine model") is None
    monkeypatch.delenv("TILELANG_AUTO_TUNING_DISABLE_CACHE")
    assert Memory().load("ab", "machine model") == FINE
    cache.clear_cache()
    assert Memory().load("ab", "machine model") is None


def of_another_version(path):
    Records(path).close()
    with sqlite3.connect(path) as database:
        database.execute("PRAGMA user_version = 7")


def of_another_program(path):
    with sqlite3.connect(path) as database:
        database.execute("CREATE TABLE mine (x)")


def damaged(path):
    path.write_bytes(b"SQLite format 3\0" + b"nothing of the kind" * 1000)


def not_readable(path):
    path.mkdir()


@pytest.mark.parametrize("spoil, told", [
    (of_another_version, "version 7, this release reads version 1; it is left as it is"),
    (of_another_program, "not of tuning records; it is left as it is"),
    (damaged, "cannot be"),
    (not_readable, "cannot be opened"),
])  # fmt: skip
def test_files_that_are_not_ours(file, spoil, told, monkeypatch, warnings):
    spoil(file)
    before = file.read_bytes() if file.is_file() else None
    with pytest.raises(RecordsError, match=told):
        Records(file)
    monkeypatch.setattr(records, "path_of_user", lambda: file)
    memory = Memory()  # a tuning goes on without
    memory.save(record())
    assert memory.load("ab", "machine model") is None and memory.history("Ascend910B1", "npu") == []
    assert len(warnings) == 1 and told in warnings[0] and "this tuning is not remembered" in warnings[0]
    assert before is None or file.read_bytes() == before
    if file.is_file():
        done = run("--file", file, "list")
        assert done.exit_code == 1 and told in done.output


WRITER = """
import sys
from tilelang_ascend.autotune.outcome import Outcome, Status
from tilelang_ascend.autotune.records import Record, Records

with Records(sys.argv[1]) as mine:
    for i in range(100):
        mine.save(Record(f"{sys.argv[2]}-{i}", "here", outcome=Outcome(Status.OK, 1.0)))
"""


def test_processes_write_at_the_same_time(file):
    writers = [subprocess.Popen([sys.executable, "-c", WRITER, str(file), str(i)]) for i in range(4)]
    assert [w.wait(120) for w in writers] == [0] * 4
    with Records(file) as all_of_them:
        assert len(all_of_them) == 400


def test_a_full_disk_costs_the_memory_not_the_measurement(file, monkeypatch, warnings):
    monkeypatch.setattr(records, "path_of_user", lambda: file)
    memory = Memory()
    memory.save(record())
    assert memory._records is not None
    memory._records._database.execute("PRAGMA max_page_count = 1")
    for i in range(200):
        memory.save(record(f"{i:064}", WRONG))
    assert len(warnings) == 1 and "full" in warnings[0]
    with Records(file) as kept:
        assert kept.load("ab", "machine model") == FINE


def test_export_and_import(tmp_path, file):
    with Records(file) as mine:
        mine.save(record())
        mine.save(record("cd", WRONG, kernel="softmax", config="{block: 64}"))
    out = tmp_path / "exported.jsonl"
    assert "2 records ->" in run("--file", file, "export", out).output
    other = tmp_path / "other.sqlite"
    with Records(other) as theirs:
        theirs.save(record(outcome=WRONG))
    assert "1 of 2 records are new" in run("--file", other, "import", out).output
    with Records(other) as theirs:
        assert theirs.load("ab", "machine model") == WRONG, "what is there stays"
        assert list(theirs.select(kernel="softmax")) == [record("cd", WRONG, kernel="softmax", config="{block: 64}")]
    listed = run("--file", other, "list", "--kernel", "softmax").output
    assert "{block: 64}" in listed and "racecheck" in listed and "1 records" in listed


@pytest.mark.parametrize("change, told", [
    (lambda text: "", "no file of exported tuning records"),
    (lambda text: text.replace('"version": 1', '"version": 9'), "version 9, this release reads version 1"),
    (lambda text: text.replace('"status": "ok"', '"status": "splendid"'), "line 2: this is no tuning record"),
    (lambda text: text.replace('"latency": 0.5', '"latency": null'), "line 2: this is no tuning record"),
    (lambda text: text.replace('"kernel": "gemm"', '"kernel": ["gemm"]'), "line 2: this is no tuning record"),
    (lambda text: text + "[]\n", "line 3: this is no tuning record"),
    (lambda text: text[:-9], "line 2: this is no tuning record"),
], ids=["empty", "version", "status", "latency", "type", "row", "cut"])  # fmt: skip
def test_damaged_imports_change_nothing(tmp_path, file, change, told):
    with Records(file) as mine:
        mine.save(record())
        mine.export(tmp_path / "fine")
    bad = tmp_path / "bad"
    bad.write_text(change((tmp_path / "fine").read_text()))
    other = tmp_path / "other.sqlite"
    done = run("--file", other, "import", bad)
    assert done.exit_code == 1 and told in done.output
    with Records(other) as theirs:
        assert len(theirs) == 0


def test_an_export_that_fails_leaves_the_file(tmp_path, file):
    target = tmp_path / "nowhere" / "out"
    with Records(file) as mine:
        with pytest.raises(RecordsError, match="cannot be written"):
            mine.export(target)
    assert not target.exists() and not os.path.exists(target.parent)
