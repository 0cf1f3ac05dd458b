"""Changes of Python's containers and outer names happen at trace time: as the program says, or not at all."""

import linecache
import textwrap

import numpy as np
import pytest

import tilelang_ascend.language as T
from tilelang_ascend.errors import UnsupportedConstruct
from tilelang_ascend.sim.reference import run

REFUSED = {
    "item in if": "p = [1]\nif A[0] > 100: p[0] = 5\nB[0] = p[0]",
    "append in if": "p = [1]\nif A[0] > 100: p.append(5)\nB[0] = len(p)",
    "item in loop": "p = [0]\nfor i in T.serial(4): p[0] = p[0] + 1\nB[0] = p[0]",
    "item in augmented": "p = [0]\nfor i in T.serial(4): p[0] += 2\nB[0] = p[0]",
    "append in loop": "p = []\nfor i in T.serial(4): p.append(A[i])\nB[0] = len(p)",
    "dict": "p = {'x': 1}\nif A[0] > 100: p['x'] = 3\nB[0] = p['x']",
    "dict update": "p = {'x': 1}\nif A[0] > 100: p.update(x=3)\nB[0] = p['x']",
    "set": "p = set()\nif A[0] > 100: p.add(1)\nB[0] = len(p)",
    "list +=": "p = [0]\nif A[0] > 100: p += [2]\nB[0] = len(p)",
    "while": "p = [0]\ni = 0\nwhile i < A[2]:\n    i += 1\n    p[0] = p[0] + 1\nB[0] = p[0]",
    "parallel": "p = [0]\nfor i in T.Parallel(4): p[0] = i\nB[0] = 1",
    "del": "p = [1, 2]\nif A[0] > 100: del p[0]\nB[0] = p[0]",
    "function": "p = []\ndef f():\n    p.append(1)\nif A[0] > 100: f()\nB[0] = len(p)",
    "argument": "def f(p):\n    p[0] = 9\nq = [1]\nif A[0] > 100: f(q)\nB[0] = q[0]",
    "global": "global CHANGED\nCHANGED = 1\nif A[0] > 100: CHANGED = 7\nB[0] = CHANGED",
    "nonlocal": "z = 1\ndef f():\n    nonlocal z\n    z = 5\n    return 1\nB[1] = f() if A[0] > 100 else 0\nB[0] = z",
    "nonlocal in and": "z = 1\ndef f():\n    nonlocal z\n    z = 5\n    return 1\nif A[0] > 100 and f() > 0: B[1] = 1\nB[0] = z",
    "iterator": "p = iter([1, 2, 3, 4])\nfor i in T.serial(A[0] - 6): B[i] = next(p)",
    "iterator in a branch": "p = iter([1, 2])\nif A[0] > 100: next(p)\nB[0] = next(p)",
    "generator": "p = (x for x in range(3))\nfor i in T.serial(A[0] - 6): B[i] = sum(p)",
    "method of an iterator": "p = iter([1, 2, 3, 4])\nfor i in T.serial(A[0] - 6): B[i] = p.__next__()",
    "array": "p = np.zeros(2, np.int32)\nif A[0] > 100: p += 1\nB[0] = p[0]",
    "method of an array": "p = np.zeros(2, np.int32)\nif A[0] > 100: p.fill(3)\nB[0] = p[0]",
    "attribute": "class C: n = 1\nif A[0] > 100: C.n = 5\nB[0] = C.n",
}
ACCEPTED = {
    "made in the loop": "for i in T.serial(4):\n    p = [0] * 2\n    p[1] = A[i]\n    p.append(3)\n    B[i] = p[1] + p[2]",
    "made in the branch": "if A[0] < 100:\n    p = [0] * 2\n    p[1] = 7\n    B[0] = p[1]",
    "comprehension": "for i in T.serial(4):\n    p = [A[k] for k in range(4)]\n    for k in range(4): p[k] = p[k] + 1\n    B[i] = p[2]",
    "constant range": "p = []\nfor i in range(4): p.append(A[i])\nB[0] = p[3] + len(p)",
    "constant range, items": "p = [0, 0, 0]\nfor i in range(4): p[1] += A[i]\nB[0] = p[1]",
    "list": "p = [0, 0]\nfor i in [0, 1]: p[i] = A[i]\nB[0] = p[0] + p[1]",
    "local": "def f():\n    q = [1, 2]\n    q[0] = A[1]\n    q.append(q[0])\n    return q\nif A[0] < 100: B[0] = f()[2]",
    "nonlocal in if": "z = A[3]\ndef f():\n    nonlocal z\n    z = 5\nif A[0] > 100: f()\nB[0] = z",
    "iterator, constant range": "p, q = iter([1, 2, 3, 4]), (x for x in [5, 6])\nfor i in range(4): B[i] = next(p) * 10 + sum(q)",
    "iterator of the loop": "for i in T.serial(3):\n    p = iter([A[i], 5])\n    B[i] = next(p) * next(p) + next(iter([1, 2]))",
    "array, constant range": "p = np.zeros(2, np.int32)\nfor i in range(4):\n    p += 1\n    B[i] = A[i] + int(p[0])",
    "array of the loop": "for i in T.serial(4):\n    p = np.zeros(2, np.int32)\n    p += 2\n    B[i] = A[i] + int(p[0])",
    "attribute, constant range": "class C: n = 1\nfor i in range(4):\n    C.n += 2\n    B[i] = C.n",
    "return, constant range": "def f(w):\n    for j in range(9):\n        if j == w: return A[j] * 2\n    return 7\nB[0], B[1] = f(5), f(99)",
}


def trace(body: str):
    name = f"<containers {len(linecache.cache)}>"
    text = (
        "def make():\n    @T.prim_func\n    def k(A: T.Tensor((16,), 'int32'), B: T.Tensor((16,), 'int32')):\n        with T.Kernel(1):\n"
    )
    text += textwrap.indent(body, " " * 12) + "\n    return k\n"
    linecache.cache[name] = (len(text), None, text.splitlines(True), name)
    scope = {"T": T, "np": np}
    exec(compile(text, name, "exec"), scope)
    return scope["make"]()


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name):
    with pytest.raises(UnsupportedConstruct) as error:
        trace(REFUSED[name])
    assert str(error.value).startswith("<containers")


class _Python:
    serial = range


@pytest.mark.parametrize("name", ACCEPTED)
def test_accepted(name):
    values, out = np.arange(16, dtype=np.int32) + 10, np.zeros(16, np.int32)
    run(trace(ACCEPTED[name]), values.copy(), out)
    want, scope = [0] * 16, {"T": _Python, "np": np}
    exec("def f(A, B):\n" + textwrap.indent(ACCEPTED[name], "    "), scope)
    scope["f"](values.tolist(), want)
    assert out.tolist() == want
