"""Running a kernel: its function once for every block."""

from __future__ import annotations

import functools
import itertools
import random
import threading
import types
from typing import Any

import numpy as np

from .. import env
from ..errors import (
    ArgumentTypeError,
    ArgumentValueError,
    DeviceAssertionError,
    InvalidKernel,
    TilelangAscendError,
    location_from_traceback,
)
from ..frontend import keywords
from ..frontend.annotations import DType, PointerSpec, TensorSpec
from ..log import get_logger
from ..runtime import tensors
from ..runtime.params import normalize_out_idx
from . import bind, debug, elements, loops, names, reductions, scopes, tileops
from .memory import Tile, Variable
from .state import Session, current, is_user_code, set_current

_LOCK = threading.RLock()  # names of modules are changed while a kernel runs


class Source:
    """A kernel as its author wrote it: the function and its types."""

    def __init__(self, function: types.FunctionType, annotations: dict[str, Any]):
        self.function, self.annotations = function, annotations
        functools.update_wrapper(self, function)

    def __call__(self, *args, **kwargs):
        """Run on tensors; returns what the kernel returns."""
        return Interpreted(self)(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<kernel {self.function.__qualname__}, interpreted>"


class Interpreted:
    """What `tilelang.compile` returns while `TILELANG_INTERPRET` is set: called like a compiled kernel, but Python runs it."""

    def __init__(self, source: Source, out_idx=None):
        self.source = source
        self.parameters = bind.parameters(source.function, source.annotations)
        self.out_idx = list(normalize_out_idx(out_idx, len(self.parameters)))
        self.config = self.latency = self.ref_latency = None

    def __call__(self, *args, **kwargs):
        given = [p for k, p in enumerate(self.parameters) if k not in self.out_idx]
        name = self.source.function.__name__
        wanted = ", ".join(n for n, _ in given) or "none"
        if len(args) > len(given):
            raise ArgumentValueError(f"{name} expects {len(given)} arguments ({wanted}), got {len(args)}")
        values = dict(zip([n for n, _ in given], args))
        for key, value in kwargs.items():
            if key not in [n for n, _ in given] or key in values:
                raise ArgumentValueError(f"{name} has no parameter {key} to pass; its parameters are {wanted}")
            values[key] = value
        missing = [n for n, _ in given if n not in values]
        if missing:
            raise ArgumentValueError(f"{name} expects {len(given)} arguments ({wanted}), {', '.join(missing)} is missing")
        return launch(self.source.function, dict(self.parameters), values, [self.parameters[k][0] for k in self.out_idx])

    def __getattr__(self, name: str):
        raise AttributeError(f"this kernel is interpreted (TILELANG_INTERPRET=1), it has no {name!r}: it was not compiled")

    def __repr__(self) -> str:
        return f"<interpreted kernel {self.source.function.__qualname__}>"


def run(kernel: Any, *args: Any, seed: int | None = None) -> Any:
    """Run a kernel as plain Python, in place on NumPy arrays or torch tensors.

    Args:
        kernel: a `@T.prim_func` (traced or not), its undecorated function, a compiled kernel, or an eager `@tilelang.jit` function.
        args: all parameters in order, outputs included. Arrays for tensors made by `T.empty` may follow.
        seed: decides the order of blocks and of parallel iterations; default `TILELANG_INTERPRET_SEED`.

    Returns: what the kernel returns (tensors made by `T.empty`), else None.

    Raises:
        InterpretError: the kernel reads what was never written, or an element outside of a buffer.
        TilelangAscendError: any other error of the kernel, with the line.
    """
    function = getattr(kernel, "func", None)
    if isinstance(function, types.FunctionType) and not isinstance(kernel, Source):
        return call_eager(function, args, {}, seed)
    source = source_of(kernel)
    if source is None:
        raise TypeError(f"the Python source of {kernel!r} is not known; pass what @T.prim_func returned")
    parameters = bind.parameters(source.function, source.annotations)
    if len(args) < len(parameters):
        raise ArgumentValueError(f"{len(parameters)} parameters ({', '.join(n for n, _ in parameters)}), {len(args)} arguments")
    values = dict(zip([n for n, _ in parameters], args))
    result = launch(source.function, dict(parameters), values, [], seed)
    extra = args[len(parameters) :]
    if extra:
        for target, made in zip(extra, result if isinstance(result, tuple) else (result,)):
            target[...] = made
    return result


def source_of(kernel: Any) -> Source | None:
    """The Python function behind a kernel object."""
    if isinstance(kernel, Source):
        return kernel
    if isinstance(kernel, Interpreted):
        return kernel.source
    if isinstance(kernel, types.FunctionType):
        from ..frontend.tracing import signature_types

        return Source(kernel, signature_types(kernel, {}))
    known = getattr(kernel, "_tl_source", None)
    return Source(*known) if known is not None else None


def launch(function, parameters: dict[str, Any], values: dict[str, Any], outputs: list[str], seed: int | None = None) -> Any:
    """Check and convert arguments, run, return the outputs."""
    session = Session(random.Random(env.INTERPRET_SEED.get() if seed is None else seed))
    specs = {n: k for n, k in parameters.items() if isinstance(k, TensorSpec)}
    arrays = {n: bind.as_numpy(values[n], specs[n].dtype, n) for n in specs if n not in outputs}
    given = [values[n] for n in arrays]
    session.torch = any(map(tensors.is_torch, given)) or (not given and tensors.have_torch())
    for name, kind in parameters.items():
        if isinstance(kind, DType):
            session.symbols[name] = bind.number(values[name], str(kind), name)
    bind.bind_dimensions(session, specs, arrays)
    pointers = {n: bind.Memory(n, values[n]) for n, k in parameters.items() if isinstance(k, PointerSpec)}
    session.torch = session.torch or any(tensors.is_torch(values[n]) for n in pointers)
    arguments: dict[str, Any] = {
        n: pointers[n] if n in pointers else bind.in_gm(n, k, arrays.get(n), session) if n in specs else session.symbols[n]
        for n, k in parameters.items()
    }
    result = execute(function, arguments, session)
    made = [arguments[n] for n in outputs]
    if result is not None:
        made += list(result) if isinstance(result, (tuple, list)) else [result]
    for tile in made:
        if not isinstance(tile, Tile):
            raise InvalidKernel(f"'{function.__name__}' returns {tile!r}", hint="only tensors made by T.empty can be returned")
        _tell_unwritten(tile)
    out = tuple(bind.returned(t, session.torch) for t in made)
    return None if not out else out[0] if len(out) == 1 else out


def _tell_unwritten(tile: Tile) -> None:
    missing = int((~tile.defined()).sum())
    if missing:
        get_logger().warning("%d of %d elements of output '%s' were not written", missing, tile.array.size, tile.name)


def call_eager(function, args: tuple, kwargs: dict, seed: int | None = None) -> Any:
    """Run an eager kernel on the tensors of a call."""
    import inspect

    from ..frontend.tracing import signature_types

    annotations = signature_types(function, {})
    signature = inspect.signature(function)
    extra = {k: kwargs[k] for k in kwargs if k not in signature.parameters}
    try:
        bound = signature.bind(*args, **{k: v for k, v in kwargs.items() if k not in extra})
    except TypeError as error:
        raise ArgumentTypeError(f"'{function.__name__}': {error}") from error
    bound.apply_defaults()
    values = dict(bound.arguments)
    session = Session(random.Random(env.INTERPRET_SEED.get() if seed is None else seed))
    session.constants = bind.read_constants(function, values, extra)
    declared = bind.eager_declarations(function)[0]
    specs = {n: k for n, k in annotations.items() if isinstance(k, TensorSpec)}
    arrays, kinds = {}, {n: s.dtype for n, s in specs.items()}
    for name in (*specs, *declared):
        if name in values:
            if name in declared:
                kinds[name] = bind.declared_dtype(function, declared[name], values) or tensors.HostTensor(values[name]).dtype
            arrays[name] = bind.as_numpy(values[name], kinds[name], name)
    session.torch = any(tensors.is_torch(values[n]) for n in arrays) or (not arrays and tensors.have_torch())
    for name, kind in annotations.items():
        if isinstance(kind, DType) and name in values:
            session.symbols[name] = values[name] = bind.number(values[name], str(kind), name)
    bind.bind_dimensions(session, specs, arrays)
    for name, array in arrays.items():
        if name in specs:
            values[name] = bind.in_gm(name, specs[name], array, session)
        else:
            values[name] = bind.argument(array, name, kinds[name])
    for name, kind in annotations.items():
        if isinstance(kind, PointerSpec) and name in values:
            session.torch = session.torch or tensors.is_torch(values[name])
            values[name] = bind.Memory(name, values[name])
    result = execute(function, values, session)
    made = [] if result is None else list(result) if isinstance(result, (tuple, list)) else [result]
    for tile in made:
        _tell_unwritten(tile)
    out = tuple(bind.returned(t, session.torch) for t in made)
    return None if not out else out[0] if len(out) == 1 else out


def execute(function: types.FunctionType, arguments: dict[str, Any], session: Session) -> Any:
    """Run the function for every block of its launches, one launch after the other, blocks in random order."""
    outer = current()
    session.long = any(isinstance(x, Tile) and x.long is not None for x in arguments.values())
    with _LOCK, np.errstate(all="ignore"), bind.names_bound(function, session):
        set_current(session)
        keywords.interpret_with(meaning)
        try:
            return _passes(names.prepared(function), arguments, session)
        except TilelangAscendError as error:
            error.attach(location_from_traceback(error.__traceback__, is_user_code))
            raise
        except AssertionError as error:
            where = location_from_traceback(error.__traceback__, is_user_code)
            raise DeviceAssertionError(f"assertion failed{': ' if str(error) else ''}{error}", at=where) from error
        finally:
            set_current(outer)
            keywords.interpret_with(meaning if outer is not None else None)


def _passes(function, arguments: dict[str, Any], session: Session) -> Any:
    while True:
        session.block = None
        done, result = _once(function, arguments, session, False)
        if done:
            if session.launch == 0:
                raise InvalidKernel(
                    f"'{function.__name__}' launches no kernel", hint="put the body under `with T.Kernel(...) as (bx, by):`"
                )
            return result
        blocks = list(itertools.product(*map(range, session.extents)))
        session.rng.shuffle(blocks)
        for k, block in enumerate(blocks):
            session.block = block
            done, result = _once(function, arguments, session, k == len(blocks) - 1)
            if done:
                return result
        session.launch += 1


def _once(function, arguments, session: Session, last: bool):
    session.kernels = session.allocated = session.parallel = 0
    session.grid, session.last = None, last
    try:
        return True, function(**arguments)
    except scopes.NextBlock:
        return False, None


# -- what names of the language mean


def _hint(*_args, **_kwargs) -> None:
    """Hints have no meaning."""


MEANINGS: dict[str, Any] = {
    **elements.MEANINGS, **loops.MEANINGS, **scopes.MEANINGS, **tileops.MEANINGS, **reductions.MEANINGS, **debug.MEANINGS,
    "to_dtype": elements.to_dtype,
}  # fmt: skip


def meaning(name: str):
    """What ``T.<name>`` does in this interpreter."""
    found = MEANINGS.get(name.removeprefix("T."))
    if found is not None:
        return found
    from ..language import hints

    short = name.removeprefix("T.")
    if short in hints.NAMES:
        return _hint
    return None


def macro(function: types.FunctionType):
    """A function whose parameters are numbers by value, buffers and `T.Ref` by reference."""
    import inspect

    from ..frontend.annotations import Ref

    references = {n for n, a in function.__annotations__.items() if a is Ref or (isinstance(a, str) and a.split(".")[-1] == "Ref")}
    signature = inspect.signature(function)

    @functools.wraps(function)
    def call(*args, **kwargs):
        if current() is None:
            return function(*args, **kwargs)
        bound = signature.bind(*args, **kwargs)
        for name, value in bound.arguments.items():
            if name in references:
                bound.arguments[name] = names.by_reference(value)
            elif type(value) is Variable:
                bound.arguments[name] = value.load()
        return names.prepared(function)(*bound.args, **bound.kwargs)

    call._tl_source, call._tl_traced, call._tl_takes_variables = function, True, True
    return call


@functools.lru_cache(maxsize=None)
def _macro_of(function):
    return macro(function)


def call_macro(function: types.FunctionType, args, kwargs):
    """A call of a macro that was rewritten for the compiler."""
    return _macro_of(function)(*args, **kwargs)


MEANINGS["macro"] = macro
MEANINGS["call_macro"] = call_macro
