"""Does a program do what the reference interpreter says? Strict machine run, emitted text, NumPy."""

from __future__ import annotations

import itertools
import linecache
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tilelang_ascend.ir import scope_of
from tilelang_ascend.sim import reference

sys.path.append(str(Path(__file__).resolve().parents[1] / "python" / "kernels"))

EPS = {"float32": 2.0**-23, "float16": 2.0**-10, "bfloat16": 2.0**-7}
ROUNDINGS = 16
"""Units in the last place of the largest value a result may be away: a bound for chains of eight statements."""

_names = itertools.count()


@dataclass(frozen=True)
class Failure:
    """What went wrong. `kind` is stable while a case is reduced, `text` is for people."""

    kind: str
    text: str

    @property
    def refused(self) -> bool:
        """The compiler named a construct it does not support: a limit of the compiler, no wrong code."""
        return self.kind == "compile UnsupportedConstruct"


class _Outside(Exception):
    pass


class Interpreter(reference._Interpreter):
    """The reference, with guarded element accesses: outside of a GM tensor loads give zero and stores do nothing."""

    def __init__(self):
        super().__init__()
        self.peak = 1.0
        """Largest finite magnitude of a stored float."""

    def _index(self, buffer, indices):
        try:
            return super()._index(buffer, indices)
        except reference.InterpreterError:
            if scope_of(buffer) == "global":
                raise _Outside from None
            raise

    def _BufferStore(self, s):
        try:
            super()._BufferStore(s)
            self._see(self.values[s.buffer][self._index(s.buffer, s.indices)])
        except _Outside:
            self.expr(s.value)

    def store(self, region, values):
        super().store(region, values)
        self._see(values)

    def _see(self, values):
        values = np.asarray(values)
        if reference._is_float(values.dtype) and values.size:
            finite = np.abs(values[np.isfinite(values)].astype(np.float64))
            self.peak = max(self.peak, float(finite.max(initial=0)))

    def expr(self, e):
        if type(e).__name__ == "TensorLoad":
            try:
                return super().expr(e)
            except _Outside:
                dtype = self.values[e.source].dtype
                return 0 if dtype.kind in "iu" else dtype.type(0)
        return super().expr(e)


def trace(source: str):
    """The traced kernel of a program text."""
    name = f"<fuzz {next(_names)}>"
    linecache.cache[name] = (len(source), None, source.splitlines(True), name)
    scope = {"__name__": "fuzz_case"}
    exec(compile(source, name, "exec"), scope)  # noqa: S102
    return scope["kernel"]


def check(source: str, inputs: dict[str, np.ndarray], text: bool = False) -> Failure | None:
    """Compile `source`, run it strictly (with `text` the emitted program too), and compare with the interpreter.

    Args:
        source: a module that defines a traced `kernel`.
        inputs: arrays for every parameter by name; 0-dimensional ones are scalars.

    Returns:
        None, or the first failure: ``trace``, ``compile``, ``run`` (hazards, guard bytes, other text) or ``value``.
    """
    import roads

    import tilelang_ascend as tilelang

    try:
        func = trace(source)
    except Exception as error:  # noqa: BLE001  any error is a finding
        return Failure(f"trace {type(error).__name__}", str(error))
    want = {n: a.copy() for n, a in inputs.items()}
    interpreter = Interpreter()
    order = [str(p.name) for p in func.params]
    arguments = [want[n] if want[n].ndim else want[n].item() for n in order]
    with np.errstate(all="ignore"):
        try:
            interpreter.run(func.body, list(func.params), arguments)
        except (reference.InterpreterError, ArithmeticError) as error:
            return Failure(f"reference {type(error).__name__}", str(error))
    try:
        kernel = tilelang.compile(func)
    except Exception as error:  # noqa: BLE001  any error is a finding
        return Failure(f"compile {type(error).__name__}", str(error))
    arrays = {n: a for n, a in inputs.items() if a.ndim}
    scalars = {n: a.item() for n, a in inputs.items() if not a.ndim}
    scalars.update(_sizes(func, arrays))
    try:
        got = roads.run(kernel, arrays, scalars, text=text)
    except AssertionError as error:
        return Failure("run " + str(error).split("\n")[0].split(":")[0][:24], str(error))
    except Exception as error:  # noqa: BLE001  any error is a finding
        return Failure(f"run {type(error).__name__}", str(error))
    return _compare(got, want, inputs, interpreter.peak)


def _sizes(func, arrays) -> dict[str, int]:
    """Values of the dynamic dimensions."""
    out = {}
    for p in func.params:
        for dim, n in zip(getattr(p.ty, "shape", ()), arrays[p.name].shape if p.name in arrays else ()):
            if type(dim).__name__ == "Var":
                out[dim.name] = n
    return out


def _compare(got, want, inputs, peak: float) -> Failure | None:
    eps = max((EPS.get(str(a.dtype), 0.0) for a in inputs.values()), default=0.0)
    for name, expected in want.items():
        if not expected.ndim:
            continue
        limit = ROUNDINGS * max(eps, EPS["float32"]) * peak if str(expected.dtype) in EPS else 0.0
        a, b = got[name].astype(np.float64), expected.astype(np.float64)
        with np.errstate(all="ignore"):
            bad = ~((a == b) | (np.abs(a - b) <= limit) | (np.isnan(a) & np.isnan(b)))
        if bad.any():
            where = tuple(int(i) for i in np.argwhere(bad)[0])
            return Failure(
                "value",
                f"{name}{list(where)} is {a[where]}, not {b[where]} "
                f"(limit {limit:.3g}; {bad.sum()} of {bad.size} differ)",
            )
    return None
