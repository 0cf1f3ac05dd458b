"""The base of all errors: rendering, locations, pickling."""

import linecache
import pickle

import pytest

from tilelang_ascend import errors
from tilelang_ascend.errors import Location, OutOfMemory, ShapeMismatch, TilelangAscendError, UnknownName, located

SOURCE = "x = 1\n\ty = f(a, b)\n"


@pytest.fixture(autouse=True)
def _sample(monkeypatch):
    monkeypatch.setitem(linecache.cache, "sample.py", (len(SOURCE), None, SOURCE.splitlines(True), "sample.py"))


class FakeSpan:
    class source_name:
        name = "sample.py"

    line, end_line, column, end_column = 2, 2, 6, 13


def test_rendering():
    error = ShapeMismatch("3 is not 4", at=FakeSpan(), notes=["a fact", ("the other line", Location("sample.py", 1, 5, 6))], hint="try 4")
    assert str(error) == "\n".join(
        [
            "sample.py:2:6: error: 3 is not 4",
            "    2 | \ty = f(a, b)",
            "      | \t    ^^^^^^^",
            "note: a fact",
            "sample.py:1:5: note: the other line",
            "    1 | x = 1",
            "      |     ^",
            "hint: try 4",
        ]
    )


def test_template_and_missing_location():
    assert str(UnknownName(api="T", name="gem", hint="did you mean T.gemm?")) == "T has no name 'gem'\nhint: did you mean T.gemm?"
    assert str(ShapeMismatch("no", at=Location("no such file", 3, 1))) == "no such file:3:1: error: no"
    text = str(OutOfMemory(memory="UB", needed=300000, available=196608, chip="Ascend910B1"))
    assert text == "UB overflow: 300000 bytes needed, 196608 available on Ascend910B1"


def test_located_attaches_once():
    with pytest.raises(ShapeMismatch) as info, located(Location("outer.py", 9)), located(FakeSpan()):
        raise ShapeMismatch("no")
    assert str(info.value.location) == "sample.py:2:6"


def test_errors_are_also_the_builtin_kind():
    assert issubclass(errors.ArgumentValueError, ValueError) and issubclass(errors.ArgumentTypeError, TypeError)
    assert issubclass(errors.UnknownName, AttributeError) and issubclass(errors.GpuOnlyApi, AttributeError)
    assert issubclass(errors.AliasingOutput, errors.ArgumentValueError) and issubclass(errors.OutOfMemory, errors.CompileError)


def test_every_class_is_documented():
    for name, cls in vars(errors).items():
        if isinstance(cls, type) and issubclass(cls, TilelangAscendError):
            assert cls.__doc__, name


def test_pickling_keeps_everything():
    error = pickle.loads(pickle.dumps(ShapeMismatch("no", at=FakeSpan(), notes=["n"], hint="h")))
    assert str(error).splitlines()[0] == "sample.py:2:6: error: no" and error.notes == [("n", None)] and error.hint == "h"
