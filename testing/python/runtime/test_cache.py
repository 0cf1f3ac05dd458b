"""The on-disk cache: complete or absent, whatever happens to the files or to other processes."""

import hashlib
import json
import multiprocessing
import os
import stat
import time
import weakref

import pytest

from tilelang_ascend import cache, env
from tilelang_ascend.cache import key as keys
from tilelang_ascend.runtime.artifact import AbiSlot, Artifact, Step
from tilelang_ascend.runtime.params import Parameter, Signature
from tilelang_ascend.sim import twin
from tilelang_ascend.store import MARKER, Store

KEY = "ab" + "0" * 62


def artifact(source="kernel"):
    signature = Signature((Parameter("A", "float16", ("m", 16)),), (("m", "int32"),), (0,))
    steps = (
        Step("gemm_1", "aic_only", 24, (AbiSlot("buffer", "A", "float16"), AbiSlot("shared", "W", "float32", 4096))),
        Step("gemm_2", "aiv_only", 48, (AbiSlot("buffer", "A", "float16"), AbiSlot("shared", "W", "float32", 4096))),
    )
    return Artifact("gemm", "Ascend910B1", signature, steps, source, "host",
                    "map", notes=["n"], warnings=["w"], tile_ir_json="{}", ascend_ir_json="{}")  # fmt: skip


@pytest.fixture
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("TILELANG_CACHE_DIR", str(tmp_path))
    monkeypatch.delenv("TILELANG_DISABLE_CACHE", raising=False)
    cache.clear_memory()
    yield tmp_path
    cache.clear_memory()
    cache._enabled = None


def test_an_artifact_survives_the_disk(tmp_path):
    store = Store(tmp_path)
    assert store.read(KEY) is None
    assert store.write(KEY, artifact().to_files())
    assert Artifact.from_files(store.read(KEY)) == artifact()


@pytest.mark.parametrize("damage", [
    lambda f: (f / "kernel.cpp").write_text("kernel"[:3]),
    lambda f: (f / "artifact.json").unlink(),
    lambda f: (f / "manifest.json").write_text("{"),
    lambda f: (f / "manifest.json").write_text("[]"),
    lambda f: (f / "host.cpp").write_bytes(b"\xff\xfe"),
], ids=["truncated", "file missing", "manifest truncated", "manifest of another kind", "not text"])  # fmt: skip
def test_a_damaged_entry_is_removed_and_built_again(own_cache, damage):
    store = Store(own_cache)
    store.write(KEY, artifact().to_files())
    folder = store.entry(KEY)
    damage(folder)
    assert store.read(KEY) is None and not folder.exists()
    assert cache.get_or_build(KEY, artifact) == artifact()
    assert Store(own_cache).read(KEY) is not None


def test_an_entry_of_another_release_is_built_again(own_cache):
    Store(own_cache).write(KEY, artifact().to_files() | {"artifact.json": '{"signature": 1}'})
    assert cache.get_or_build(KEY, artifact) == artifact()


def test_memory_then_disk_then_build(own_cache):
    built = []

    def build():
        built.append(1)
        return artifact()

    first = cache.get_or_build(KEY, build)
    assert cache.get_or_build(KEY, build) is first
    cache.clear_memory()
    assert cache.get_or_build(KEY, build) == first and len(built) == 1
    cache.clear_cache()
    cache.get_or_build(KEY, build)
    assert len(built) == 2


def test_memory_keeps_the_kernels_asked_for_last(own_cache):
    """A tuner compiles thousands: memory has as much as it is meant to, whoever holds an older one keeps it, and one in use stays."""
    cache.disable_cache()
    names = [f"{n:064}" for n in range(cache.KEPT + 10)]
    first = cache.get_or_build(names[0], artifact)
    gone = weakref.ref(cache.get_or_build(names[1], artifact))
    for name in names[2:]:
        cache.get_or_build(name, artifact)
        assert cache.get_or_build(names[0], artifact) is first
    assert gone() is None and len(cache._memory) == cache.KEPT
    assert cache.get_or_build(names[-1], pytest.fail) == artifact()


def test_the_disk_can_be_switched_off(own_cache, monkeypatch):
    cache.disable_cache()
    cache.get_or_build(KEY, artifact)
    assert not list(own_cache.iterdir())
    cache.clear_memory()
    cache.enable_cache()
    monkeypatch.setenv("TILELANG_DISABLE_CACHE", "1")
    cache.get_or_build(KEY, artifact)
    assert Store(own_cache).size()[0] == 1


def test_an_unwritable_folder_costs_a_build_not_a_failure(tmp_path, monkeypatch):
    blocked = tmp_path / "file"
    blocked.write_text("")
    monkeypatch.setenv("TILELANG_CACHE_DIR", str(blocked / "below"))
    cache.clear_memory()
    assert cache.get_or_build(KEY, artifact) == artifact()
    cache.clear_memory()


def _build_in_process(folder, marks):
    os.environ["TILELANG_CACHE_DIR"] = folder

    def build():
        with open(marks, "a") as f:
            f.write("x")
        time.sleep(0.3)
        return artifact()

    assert cache.get_or_build(KEY, build) == artifact()


def test_concurrent_processes_build_once(tmp_path):
    marks = tmp_path / "marks"
    context = multiprocessing.get_context("fork")
    workers = [context.Process(target=_build_in_process, args=(str(tmp_path / "cache"), str(marks))) for _ in range(4)]
    for w in workers:
        w.start()
    for w in workers:
        w.join(30)
    assert [w.exitcode for w in workers] == [0] * 4 and marks.read_text() == "x"


def test_a_process_that_is_stuck_on_one_key_keeps_no_other_waiting(own_cache, monkeypatch):
    neighbour = KEY[:-1] + "1"
    with Store(own_cache).building(neighbour):
        start = time.monotonic()
        assert cache.get_or_build(KEY, artifact) == artifact()
        assert time.monotonic() - start < 5
        monkeypatch.setattr("tilelang_ascend.store._PATIENCE_SECONDS", 0.2)
        assert cache.get_or_build(neighbour, artifact) == artifact()  # and on the same one not for ever


def test_locks_leave_no_files(own_cache):
    cache.get_or_build(KEY, artifact)
    with pytest.raises(RuntimeError), Store(own_cache).building("cd" * 32):
        raise RuntimeError
    assert not list((cache.store().folder / "locks").iterdir())


def test_a_second_writer_does_not_disturb_the_first(tmp_path):
    a, b = Store(tmp_path), Store(tmp_path)
    assert a.write(KEY, artifact("one").to_files()) and b.write(KEY, artifact("two").to_files())
    assert a.read(KEY)["kernel.cpp"] == "one"
    assert not [p for p in tmp_path.rglob(".stage-*")]


def test_everything_that_matters_is_in_the_key(monkeypatch):
    base = ("ir", "Ascend910B1", {"a": 1}, (0,))
    key = keys.kernel_key(*base)
    assert key == keys.kernel_key(*base)
    others = [
        ("ir2", *base[1:]),
        ("ir", "Ascend910B2", *base[2:]),
        ("ir", "Ascend910B1", {"a": 2}, (0,)),
        (*base[:3], (1,)),
    ]
    monkeypatch.setattr(keys, "tool_versions", lambda: ("other",))
    assert len({key, keys.kernel_key(*base), *(keys.kernel_key(*o) for o in others)}) == 6


def test_the_key_covers_the_code_of_the_package():
    names = [v.partition("==")[0] for v in keys.tool_versions()]
    assert names[:3] == ["tilelang-ascend", "apache-tvm", "apache-tvm-ffi"] and len(keys.tool_versions()[3]) == 64


def test_a_knob_that_does_not_parse_is_named(monkeypatch):
    monkeypatch.setenv("TILELANG_DISABLE_CACHE", "maybe")
    with pytest.raises(ValueError, match="environment variable TILELANG_DISABLE_CACHE='maybe': expected one of"):
        env.DISABLE_CACHE.get()


def test_clearing_leaves_what_is_not_the_caches_own(own_cache):
    """Folders of a user that are called like those of the cache."""
    own = [own_cache / name / "ab" / "mine.txt" for name in ("kernels", "locks", "twin", "autotune")]
    for path in own:
        path.parent.mkdir(parents=True)
        path.write_text("precious")
    cache.get_or_build(KEY, artifact)
    assert cache.store().size()[0] == 1
    cache.clear_cache()
    assert cache.store().size()[0] == 0 and [path.read_text() for path in own] == ["precious"] * 4


def test_a_folder_without_the_marker_is_neither_read_nor_cleared(own_cache, capfd):
    cache.get_or_build(KEY, artifact)
    store = cache.store()
    (store.folder / MARKER).unlink()
    cache.clear_memory()
    assert cache.get_or_build(KEY, lambda: artifact("built again")).kernel_source == "built again"
    cache.clear_cache()
    assert store.entry(KEY).is_dir() and not store.write("cd" * 32, {"a": "b"})
    error = capfd.readouterr().err
    assert error.count("is not used") == 1 and "hint: set TILELANG_CACHE_DIR" in error


def test_a_cache_that_cannot_be_written_is_read(own_cache, capfd, monkeypatch):
    """Nothing is built twice in a process, entries that are there serve, and clearing says what stays."""

    def refuse(*_, **__):
        raise PermissionError(13, "Permission denied")

    cache.get_or_build(KEY, artifact)
    cache.clear_memory()
    monkeypatch.setattr("tempfile.mkdtemp", refuse)
    monkeypatch.setattr("os.rename", refuse)
    monkeypatch.setattr("os.access", lambda *_, **__: False)
    assert cache.get_or_build(KEY, lambda: artifact("built again")).kernel_source == artifact().kernel_source
    other = "cd" * 32
    assert cache.get_or_build(other, lambda: artifact("new")).kernel_source == "new"
    assert cache.get_or_build(other, lambda: artifact("built again")).kernel_source == "new"
    assert cache.store().size()[0] == 1 and capfd.readouterr().err == ""
    cache.clear_cache()
    assert cache.store().size()[0] == 1 and "stay: the folder cannot be written" in capfd.readouterr().err


@pytest.mark.parametrize("text", ["", " "])
def test_an_empty_variable_is_one_that_is_not_set(tmp_path, monkeypatch, text):
    """With the working directory as cache, clearing it deleted the user's files."""
    mine = tmp_path / "kernels" / "mine.txt"
    mine.parent.mkdir()
    mine.write_text("precious")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("TILELANG_CACHE_DIR", text)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    assert env.CACHE_DIR.get() == tmp_path / "home/.cache/tilelang_ascend"
    cache.clear_cache()
    assert mine.read_text() == "precious"
    for knob in env.KNOBS:
        monkeypatch.setenv(knob.name, text)
        empty = knob.get()
        monkeypatch.delenv(knob.name)
        assert knob.get() == empty


def test_without_a_home_the_cache_is_with_the_temporary_files(monkeypatch, tmp_path):
    monkeypatch.delenv("TILELANG_CACHE_DIR")
    monkeypatch.setattr("platformdirs.user_cache_dir", lambda *a, **k: "~/.cache/tilelang_ascend")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert env.CACHE_DIR.get().parent == tmp_path
    monkeypatch.setenv("TILELANG_CACHE_DIR", "~nobody-of-this-name/cache")
    with pytest.raises(ValueError, match="environment variable TILELANG_CACHE_DIR='~nobody"):
        env.CACHE_DIR.get()


TEXT = 'extern "C" void k() {}\n'


@pytest.fixture
def plain_twin(monkeypatch):
    """Objects of plain C++, which compile quickly, and how many were compiled."""
    compiled, compile_ = [], twin._compile

    def count(compiler, flags, unit, generated, chip):
        compiled.append(1)
        return compile_(compiler, ("-shared", "-fPIC"), TEXT, generated, chip)

    monkeypatch.setattr(twin, "_compile", count)
    return compiled


def build_object():
    return twin.build_object(TEXT, "k", "c220", "a chip")


def test_clearing_removes_compiled_text(own_cache, plain_twin):
    path = build_object()
    assert path.is_file() and build_object() == path and len(plain_twin) == 1
    cache.clear_cache()
    assert not path.exists() and not [p for p in own_cache.rglob("*") if p.suffix in (".so", ".h")]
    assert build_object() == path and len(plain_twin) == 2


def test_damaged_compiled_text_is_compiled_again(own_cache, plain_twin):
    """The process died of a bus error when it loaded half a library."""
    path = build_object()
    whole = path.read_bytes()
    os.truncate(path, len(whole) // 2)
    assert build_object() == path and path.read_bytes() == whole and len(plain_twin) == 2


def test_compiled_text_that_cannot_be_kept_goes_with_the_process(tmp_path, monkeypatch, plain_twin):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("TILELANG_CACHE_DIR", str(tmp_path / "file"))
    path = build_object()
    assert path.is_file() and build_object() == path and len(plain_twin) == 1


def test_nobody_else_can_read_or_write_what_is_cached(own_cache, plain_twin):
    before = os.umask(0)
    try:
        cache.get_or_build(KEY, artifact)
        build_object()
    finally:
        os.umask(before)
    paths = [cache.store().folder, *cache.store().folder.rglob("*")]
    assert len(paths) > 10
    assert {p.name for p in paths if stat.S_IMODE(p.stat().st_mode) != (0o700 if p.is_dir() else 0o600)} == set()


OPENED = {
    "the folder": lambda store: store.folder,
    "a section": lambda store: store.section,
    "a group of entries": lambda store: store.entry(KEY).parent,
    "an entry": lambda store: store.entry(KEY),
    "a file": lambda store: store.entry(KEY) / "kernel.cpp",
    "the manifest": lambda store: store.entry(KEY) / "manifest.json",
}


@pytest.mark.parametrize("mode", [0o020, 0o002], ids=["group", "world"])
@pytest.mark.parametrize("what", OPENED)
def test_what_others_can_write_to_is_ignored(own_cache, capfd, what, mode):
    cache.get_or_build(KEY, artifact)
    store = cache.store()
    path = OPENED[what](store)
    path.chmod(path.stat().st_mode | mode)
    for _ in range(2):
        assert store.read(KEY) is None and path.exists()
    cache.clear_memory()
    assert cache.get_or_build(KEY, lambda: artifact("built again")).kernel_source == "built again"
    error = capfd.readouterr().err
    assert error.count("is not used as kernel cache: others can write to it") == 1 and "hint: set TILELANG_CACHE_DIR" in error


def test_what_belongs_to_others_is_ignored(own_cache, capfd, monkeypatch):
    cache.get_or_build(KEY, artifact)
    user = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: user + 1)
    cache.clear_memory()
    assert cache.get_or_build(KEY, lambda: artifact("built again")).kernel_source == "built again"
    cache.clear_cache()
    monkeypatch.undo()
    assert capfd.readouterr().err.count("is not used as kernel cache: it belongs to another user") == 1
    assert Store(own_cache).read(KEY) is not None


@pytest.mark.parametrize("what", [name for name in OPENED if name not in ("the folder", "a section", "a group of entries")])
def test_links_are_not_followed_into_an_entry(own_cache, tmp_path_factory, what):
    store, elsewhere = Store(own_cache), tmp_path_factory.mktemp("elsewhere") / "there"
    store.write(KEY, artifact().to_files())
    path = OPENED[what](store)
    path.rename(elsewhere)
    path.symlink_to(elsewhere)
    assert store.read(KEY) is None and elsewhere.exists()
    assert cache.get_or_build(KEY, artifact) == artifact() and store.read(KEY) is not None


def test_a_link_in_place_of_the_folder_is_not_followed(own_cache, tmp_path_factory, capfd):
    cache.get_or_build(KEY, artifact)
    store, elsewhere = cache.store(), tmp_path_factory.mktemp("elsewhere") / "there"
    store.folder.rename(elsewhere)
    store.folder.symlink_to(elsewhere)
    assert store.read(KEY) is None and not store.write("cd" * 32, {"a": "b"})
    cache.clear_cache()
    assert list(elsewhere.rglob("kernel.cpp")) and capfd.readouterr().err.count("it is a symbolic link") == 1


def test_a_link_in_place_of_a_section_leads_to_no_change_elsewhere(own_cache, tmp_path_factory):
    store, mine = Store(own_cache), tmp_path_factory.mktemp("mine")
    store.write(KEY, artifact().to_files())
    (mine / KEY[:2] / KEY).mkdir(parents=True)
    cache.clear_cache()
    store.section.symlink_to(mine)
    assert store.read(KEY) is None and not store.write(KEY, artifact().to_files())
    store.remove(KEY)
    cache.clear_cache()
    assert not list((mine / KEY[:2] / KEY).iterdir()) and not os.path.lexists(store.section)


def test_names_in_a_manifest_stay_inside_of_the_entry(own_cache):
    store, secret = Store(own_cache), own_cache / "secret"
    secret.write_text("secret")
    store.write(KEY, artifact().to_files())
    manifest = store.entry(KEY) / "manifest.json"
    for name in ("../../../../secret", str(secret)):
        digest = hashlib.sha256(b"secret").hexdigest()
        manifest.write_text(json.dumps({"key": KEY, "files": {name: digest}}))
        assert store.read_bytes(KEY) is None
        store.write(KEY, artifact().to_files())
