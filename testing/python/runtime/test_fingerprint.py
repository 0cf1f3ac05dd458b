"""When a second call may reuse a kernel, and when it has to trace again."""

import collections
import enum
import functools
import importlib
import linecache
import os
import sys
import types
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
import torch

import tilelang_ascend.language as T
from tilelang_ascend import errors
from tilelang_ascend.jit import fingerprint
from tilelang_ascend.jit.fingerprint import call_fingerprint
from tilelang_ascend.targets import target_rule

BLOCK = 64
TABLE = {"a": [1, 2]}


def helper(x):
    return x * BLOCK


def factory(m, n=1):
    def inner():
        return helper(m) + TABLE["a"][0] + np.float32(n)

    return inner


def key(*args, fn=factory, **kwargs):
    k = call_fingerprint(fn, args, kwargs)
    assert k is None or hash(k) is not None
    return k


def test_equal_calls_have_equal_keys():
    assert key(1) is not None and key(1) == key(1)
    assert key([1, {"a": 2}], n=torch.float16) == key([1, {"a": 2}], n=torch.float16)


@pytest.mark.parametrize("a, b", [
    (1, 2), (1, 1.0), (1, True), (1, "1"), (0.0, -0.0), ([1], (1,)), ({"a": 1}, {"a": 2}), (None, 0),
    (torch.float16, torch.bfloat16), (np.float32(1), np.float64(1)), (np.int32, np.int64),
    (types.SimpleNamespace(b=1), types.SimpleNamespace(b=2)),
    (torch.zeros(2, 3), torch.zeros(2, 4)), (torch.zeros(2, 2), torch.zeros(2, 2, dtype=torch.int8)),
    (torch.zeros(2, 3), torch.zeros(3, 2).T), (torch.zeros(2), np.zeros(2, np.float32)),
    (lambda x: x, lambda x: x + 1),
])  # fmt: skip
def test_different_arguments_have_different_keys(a, b):
    assert key(a) is not None and key(a) != key(b)


def test_elements_of_tensors_count_where_tracing_may_read_them():
    for make in (torch.tensor, np.array):
        assert key(make([1, 2])) == key(make([1, 2])) != key(make([1, 3]))
        assert call_fingerprint(factory, (make([1, 2]),), {}, skip_tensors=True) == call_fingerprint(
            factory, (make([1, 3]),), {}, skip_tensors=True
        )
    assert key(np.zeros(1 << 20)) is None and key(np.array([object()])) is None


@pytest.mark.parametrize("name, value", [("BLOCK", 128), ("TABLE", {"a": [3, 2]}), ("helper", lambda x: x)])
def test_a_changed_global_changes_the_key(monkeypatch, name, value):
    before = key(1)
    monkeypatch.setitem(globals(), name, value)
    assert key(1) != before


def test_a_changed_item_inside_a_global_changes_the_key(monkeypatch):
    before = key(1)
    monkeypatch.setitem(TABLE, "a", [5, 2])
    assert key(1) != before


def test_a_changed_module_attribute_changes_the_key():
    config = types.ModuleType("config")
    config.TILE = 1

    def fn():
        return config.TILE

    before = key(fn=fn)
    config.TILE = 2
    assert before is not None and key(fn=fn) != before


def test_a_changed_closure_changes_the_key():
    size = 1

    def fn():
        return size

    before = key(fn=fn)
    size = 2
    assert key(fn=fn) != before


def test_recursion_ends():
    cyclic = []
    cyclic.append(cyclic)
    assert key(cyclic) is not None

    def even(n):
        return n == 0 or odd(n - 1)

    def odd(n):
        return n > 0 and even(n - 1)

    assert key(4, fn=even) == key(4, fn=even)


class Colour(enum.Enum):
    RED = 1
    BLUE = 2


@dataclass
class Config:
    block: int


def test_enums_and_user_objects_count_by_content():
    assert key(Colour.RED) != key(Colour.BLUE)
    config = Config(1)
    before = key(config)
    config.block = 2
    assert key(config) != before and key(config) == key(Config(2))


def test_what_is_not_understood_is_never_reused():
    assert key(object()) is None
    assert key((i for i in range(3))) is None
    assert key(iter([])) is None


class Rows(list):
    def scaled(self):
        return self[0] * BLOCK


class Whole(int):
    def scaled(self):
        return self * BLOCK


class Pair(NamedTuple):
    first: int

    @property
    def scaled(self):
        return self.first * BLOCK


class Kind(enum.IntFlag):
    PLAIN = 1

    @property
    def scaled(self):
        return self.value * BLOCK


class Slot:
    __slots__ = ("x",)


class Slotted(Slot):
    pass


class Queue(collections.deque):
    pass


class Wrapper:
    def __init__(self, fn):
        functools.update_wrapper(self, fn)
        self.by = 1

    def __call__(self):
        return self.by * BLOCK


def reaches_a_tensor():
    places = np.array([1, 2])
    return (lambda: int(places[0])), (lambda: places.__setitem__(0, 3))


def reaches_a_list_with_a_field():
    rows = Rows([1])
    rows.step = 1
    return (lambda: rows.step), (lambda: setattr(rows, "step", 2))


def reaches_a_slot():
    value = Slotted()
    value.x = 1
    return (lambda: value.x), (lambda: setattr(value, "x", 2))


def reaches_a_queue():
    value = Queue([1])
    return (lambda: value[0]), (lambda: value.append(value.popleft() + 1))


def reaches_a_table_through_its_method():
    table = {"a": 1}
    get = table.get
    return (lambda: get("a")), (lambda: table.__setitem__("a", 2))


def reaches_a_member_without_a_name():
    box = types.SimpleNamespace(kind=Kind(8))
    return (lambda: int(box.kind)), (lambda: setattr(box, "kind", Kind(16)))


def reaches_a_default_factory():
    table = collections.defaultdict(lambda: 1)
    return (lambda: table.copy()["a"]), (lambda: setattr(table, "default_factory", lambda: 2))


def reaches_a_decorated_function():
    wrapped = Wrapper(helper)
    return (lambda: wrapped()), (lambda: setattr(wrapped, "by", 2))


def reaches_a_computed_name():
    class Table:
        rows = [1]

    return (lambda: getattr(Table, "".join(("ro", "ws")))[0]), (lambda: Table.rows.__setitem__(0, 2))


def reaches_the_environment():
    return (lambda: os.getenv("A_LIBRARY_BLOCK", "1")), (lambda: os.environ.__setitem__("A_LIBRARY_BLOCK", "2"))


def reaches_names_a_module_computes():
    module = types.ModuleType("module")
    exec("names = {'block': 1}\ndef __getattr__(name):\n    return names[name]", vars(module))
    return (lambda: module.block), (lambda: module.names.__setitem__("block", 2))


@pytest.mark.parametrize("make", [f for name, f in list(globals().items()) if name.startswith("reaches_")])
def test_whatever_holds_a_value_a_changed_value_is_noticed(make, monkeypatch):
    monkeypatch.delenv("A_LIBRARY_BLOCK", raising=False)
    fn, change = make()
    result, before = fn(), key(fn=fn)
    change()
    assert fn() != result and (before is None or key(fn=fn) != before)


@pytest.mark.parametrize("value", [Rows([1]), Whole(2), Pair(1), Kind.PLAIN, Kind(8)], ids=lambda v: type(v).__name__)
def test_methods_of_lists_numbers_and_members_are_followed(value, monkeypatch):
    fn = lambda: value.scaled
    before = key(fn=fn)
    assert before is not None and key(fn=fn) == before
    monkeypatch.setitem(globals(), "BLOCK", 128)
    assert key(fn=fn) != before


def test_dynamic_extents_and_declared_tensors_are_known_by_identity():
    rows = T.dynamic("rows")
    spec = T.Tensor((rows, 16), "float32")

    def fn():
        return rows * 2, spec

    before = key(fn=fn)
    assert before is not None and key(fn=fn) == before
    rows = T.dynamic("rows")
    assert key(fn=fn) != before


def test_other_rules_for_targets_make_another_kernel(library, tmp_path):
    kernel = kernel_with("B[i] = A[i] * o.SCALE", tmp_path)
    first = kernel(16)
    with target_rule(lambda target: "a5"):
        assert kernel(16).artifact.chip != first.artifact.chip
    assert kernel(16) is first


def test_a_folder_whose_name_begins_like_the_package_is_the_users():
    assert errors.is_internal(errors.__file__) and not errors.is_internal(f"{Path(errors.__file__).parent}_of_mine/kernels.py")


LIBRARY = """
import dataclasses, functools
import tilelang_ascend.language as T

SCALE = 2.0

class Cfg:
    f = 2.0

    class Inner:
        g = 2.0

    @staticmethod
    def s():
        return 2.0

    @classmethod
    def c(cls):
        return cls.f

    @property
    def p(self):
        return SCALE

    @functools.cached_property
    def q(self):
        return SCALE

    def __mul__(self, other):
        return other * helper()

class Sub(Cfg):
    pass

@dataclasses.dataclass
class Record:
    f: float = 2.0

cfg, sub, record, table = Cfg(), Sub(), Record(), {"cfg": Cfg}

def helper():
    return 2.0

def outer():
    return helper()

def scale():
    return SCALE

def outer_scale():
    return scale()

def by_name(name="SCALE"):
    return globals()[name]

def local_import():
    import a_library
    return a_library.SCALE

part = functools.partial(lambda a, b: a * SCALE, 1.0)

@T.macro
def double(B, i, A):
    B[i] = A[i] * SCALE

@T.macro
def nested(B, i, A):
    double(B, i, A)
"""


@pytest.fixture
def library(tmp_path, monkeypatch):
    (tmp_path / "a_library.py").write_text(LIBRARY)
    monkeypatch.syspath_prepend(str(tmp_path))
    importlib.invalidate_caches()
    yield importlib.import_module("a_library")
    del sys.modules["a_library"]


def kernel_with(body, tmp_path, names="a_library as o"):
    path = tmp_path / "kernel.py"
    imports = "from a_library import *" if names == "*" else f"import {names}"
    path.write_text(f"""
import tilelang_ascend as tilelang, tilelang_ascend.language as T
{imports}

@tilelang.jit(out_idx=[-1])
def kernel(n):
    @T.prim_func
    def main(A: T.Tensor((n,), "float32"), B: T.Tensor((n,), "float32")):
        with T.Kernel(1) as _:
            for i in T.Parallel(n):
                {body}
    return main
""")
    linecache.checkcache(str(path))
    space = {"__name__": "user_kernel"}
    exec(compile(path.read_text(), str(path), "exec"), space)
    return space["kernel"]


def three(*_):
    return 3.0


CHANGES = {  # the kernel's statement, in which @ is where the library's name goes; what changes; the new value
    "a global of the module of a macro": ("@double(B, i, A)", "SCALE", 3.0),
    "a global of the module of a macro in a macro": ("@nested(B, i, A)", "SCALE", 3.0),
    "a macro": ("@nested(B, i, A)", "double", "triple"),
    "a class attribute": ("B[i] = A[i] * @Cfg.f", "Cfg.f", 3.0),
    "an attribute of a class in a class": ("B[i] = A[i] * @Cfg.Inner.g", "Cfg.Inner.g", 3.0),
    "a class attribute read through an object": ("B[i] = A[i] * @cfg.f", "Cfg.f", 3.0),
    "a class attribute that is inherited": ("B[i] = A[i] * @sub.f", "Cfg.f", 3.0),
    "a class attribute read in a class method": ("B[i] = A[i] * @Cfg.c()", "Cfg.f", 3.0),
    "a class in a container": ("B[i] = A[i] * @table['cfg'].f", "Cfg.f", 3.0),
    "a field of a data class": ("B[i] = A[i] * @record.f", "record.f", 3.0),
    "a static method": ("B[i] = A[i] * @Cfg.s()", "Cfg.s", staticmethod(three)),
    "what a property reads": ("B[i] = A[i] * @cfg.p", "SCALE", 3.0),
    "what an operator of a class calls": ("B[i] = A[i] * (@cfg * 1.0)", "helper", three),
    "a function": ("B[i] = A[i] * @helper()", "helper", three),
    "a function in a function": ("B[i] = A[i] * @outer()", "helper", three),
    "a global read by its name": ("B[i] = A[i] * @by_name()", "SCALE", 3.0),
    "a module imported in a function": ("B[i] = A[i] * @local_import()", "SCALE", 3.0),
    "what a partial function reads": ("B[i] = A[i] * @part(1.0)", "SCALE", 3.0),
}


@pytest.mark.one_in(3)
@pytest.mark.parametrize("case, names", [
    (case, names) for case, (body, name, _) in CHANGES.items() for names in ("a_library as o", "*")
    if names != "*" or "@" + name not in body or "." in name  # otherwise the kernel has a reference of its own
])  # fmt: skip
def test_a_kernel_is_made_again_when_what_it_reaches_has_changed(library, tmp_path, case, names):
    body, name, value = CHANGES[case]
    kernel = kernel_with(body.replace("@", "" if names == "*" else "o."), tmp_path, names)
    ones = torch.ones(16)
    assert kernel(16)(ones)[0] == 2.0 and kernel(16) is kernel(16)
    if value == "triple":
        text = "@T.macro\ndef triple(B, i, A):\n    B[i] = A[i] * 3.0\n"
        (tmp_path / "triple.py").write_text(text)
        exec(compile(text, str(tmp_path / "triple.py"), "exec"), vars(library))
        value = library.triple
    owner, _, last = name.rpartition(".")
    setattr(functools.reduce(getattr, owner.split("."), library) if owner else library, last, value)
    assert kernel(16)(ones)[0] == 3.0 and kernel(16) is kernel(16)


def test_macros_of_an_installed_package_and_their_helpers_are_followed(library, tmp_path, monkeypatch):
    kernel = kernel_with("o.nested(B, i, A)", tmp_path)
    fingerprint._is_installed_file.cache_clear()
    monkeypatch.setattr(errors, "_INSTALLED", (*errors._INSTALLED, library.__file__))
    before = key(16, fn=kernel.func)
    library.SCALE = 3.0
    assert before is not None and key(16, fn=kernel.func) != before
    fingerprint._is_installed_file.cache_clear()


def test_helpers_of_an_installed_kernel_are_followed(library, monkeypatch):
    fingerprint._is_installed_file.cache_clear()
    monkeypatch.setattr(errors, "_INSTALLED", (*errors._INSTALLED, library.__file__))
    before = key(fn=library.outer_scale)
    library.SCALE = 3.0
    assert before is not None and key(fn=library.outer_scale) != before
    fingerprint._is_installed_file.cache_clear()


def test_a_change_of_what_the_kernel_does_not_reach_is_no_reason_to_trace_again(library, tmp_path):
    kernel = kernel_with("B[i] = A[i] * o.outer()", tmp_path)
    first = kernel(16)
    library.SCALE = 5.0
    library.Cfg.f = 5.0
    assert kernel(16) is first


def test_annotations_that_are_texts_are_read_too(monkeypatch):
    def fn(x: "T.Tensor((BLOCK,), 'float32')"):
        return x

    before = key(1, fn=fn)
    monkeypatch.setitem(globals(), "BLOCK", 128)
    assert key(1, fn=fn) != before


def test_a_key_takes_little_time():
    """It is part of every call."""
    import timeit

    seconds = min(timeit.repeat(lambda: call_fingerprint(factory, (1, 2), {}), number=100, repeat=5)) / 100
    assert seconds < 1e-3
