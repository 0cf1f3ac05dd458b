"""From a call's arguments to the values a function of Python gets, and back."""

from __future__ import annotations

import ast
import builtins
import contextlib
import inspect
import math
import os
import sysconfig
import types
from typing import Any, Iterator

import numpy as np

from ..errors import ArgumentTypeError, ArgumentValueError, InvalidKernel
from ..frontend.annotations import DType, PointerSpec, TensorSpec
from ..runtime import dtypes, tensors
from . import elements, loops
from .halves import Halves
from .memory import Tile, allocate
from .names import last_name, parse, prepared
from .scopes import names_in
from .state import Session, is_user_code
from .values import (
    _FOREIGN,
    Scalar,
    binary,
    cast,
    fit,
    integer_range,
    is_float,
    numpy_dtype,
    pick_max,
    pick_min,
    select,
    size_of,
)

# -- constants and dimensions that were made outside of the kernel: expressions of the IR


def is_foreign(value: Any) -> bool:
    """True for expressions of the IR."""
    return type(value).__module__.startswith("tvm") and hasattr(value, "ty")


_NODES = {"Add": "+", "Sub": "-", "Mul": "*", "Div": "/", "FloorDiv": "//", "FloorMod": "%", "Mod": "%"}


def evaluate(expr: Any, symbols: dict[str, Scalar]):
    """The value of an expression of constants and dimensions; None if it contains anything else."""
    kind = type(expr).__name__
    if isinstance(expr, (int, float)):
        return expr
    if kind in ("IntImm", "FloatImm"):
        dtype = str(expr.ty.dtype) if hasattr(expr.ty, "dtype") else str(expr.dtype)
        return Scalar(bool(expr.value) if dtype == "bool" else expr.value, dtype, True)
    if kind == "Var":
        return symbols.get(expr.name)
    if kind == "Cast":
        inner = evaluate(expr.value, symbols)
        return None if inner is None else cast(inner, str(expr.ty.dtype))
    if kind in (*_NODES, "Min", "Max"):
        a, b = evaluate(expr.a, symbols), evaluate(expr.b, symbols)
        if a is None or b is None:
            return None
        return pick_min(a, b) if kind == "Min" else pick_max(a, b) if kind == "Max" else binary(_NODES[kind], a, b)
    if kind == "Select":
        parts = [evaluate(e, symbols) for e in (expr.condition, expr.true_value, expr.false_value)]
        return None if None in parts else select(*parts)
    return None


def _foreign(value):
    from .state import current

    session = current()
    return evaluate(value, session.symbols if session else {}) if is_foreign(value) else None


_FOREIGN.append(_foreign)


# -- arguments


def parameters(function, annotations: dict) -> list[tuple[str, Any]]:
    """(name, TensorSpec | DType | None) of what a call passes; None for constants with a default."""
    out = []
    for p in inspect.signature(function).parameters.values():
        kind = annotations.get(p.name)
        if kind in (int, float, bool):
            kind = DType(kind)
        if isinstance(kind, (TensorSpec, DType, PointerSpec)):
            out.append((p.name, kind))
        elif p.default is p.empty and p.kind not in (p.VAR_KEYWORD, p.VAR_POSITIONAL):
            raise InvalidKernel(f"parameter '{p.name}' of '{function.__name__}' has no type")
    return out


def as_numpy(value: Any, dtype: str, name: str) -> np.ndarray:
    """A view of the memory of a torch tensor or NumPy array; of dtypes of 4 bits, its bytes."""
    if not tensors.is_tensor(value):
        raise ArgumentTypeError(f"Expected a tensor for parameter {name}, got {type(value).__name__}; pass a torch tensor or a numpy array")
    host = tensors.HostTensor(value)
    if host.dtype not in dtypes.packed(dtype, host.is_torch):
        raise ArgumentValueError(f"Buffer dtype mismatch for parameter {name}: expected {host.label_of(dtype)}, got {host.dtype_label}")
    if host.device != "cpu":
        raise ArgumentValueError(f"Buffer device mismatch for parameter {name}: expected cpu, got {host.device}")
    if dtype in dtypes.NIBBLES:
        return _bytes_of(value)
    if not host.is_torch:
        return value
    import torch

    raw = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[value.element_size()]
    return value.detach().view(raw).numpy().view(numpy_dtype(dtype))


def _bytes_of(value: Any) -> np.ndarray:
    """The memory of a tensor or array of bytes."""
    if not tensors.is_torch(value):
        return value.view(np.uint8)
    import torch

    return value.detach().view(torch.uint8).numpy()


def number(value: Any, dtype: str, name: str) -> Scalar:
    """A run-time scalar, which its dtype must hold."""
    if isinstance(value, Scalar):
        value = value.get()
    if (tensors.is_tensor(value) and math.prod(value.shape) == 1) or isinstance(value, np.generic):
        value = value.item()
    if not isinstance(value, (int, float)):
        raise ArgumentTypeError(f"Expected a number of dtype {dtype} for parameter {name}, got {type(value).__name__}")
    if is_float(dtype):
        return Scalar(fit(float(value), dtype), dtype)
    low, high = (0, 1) if dtype == "bool" else integer_range(dtype)
    if isinstance(value, float) and not value.is_integer() or not low <= value <= high:
        raise ArgumentValueError(f"Scalar out of range for parameter {name}: {dtype} holds {low}..{high}, got {value}")
    return Scalar(fit(int(value), dtype), dtype)


def bind_dimensions(session: Session, specs: dict[str, TensorSpec], arrays: dict[str, np.ndarray]) -> None:
    """Give every dimension that stands alone in a shape (or among strides) its value, then check all shapes."""
    # A row of bytes does not tell whether its last number of 4 bits is padding, so other tensors are asked first.
    for name, spec in sorted(specs.items(), key=lambda x: x[1].dtype in dtypes.NIBBLES):
        array = arrays.get(name)
        if array is None:
            continue
        if array.ndim != len(spec.shape):
            raise ArgumentValueError(
                f"Buffer rank mismatch for parameter {name}: expected {len(spec.shape)} dimensions, got {array.ndim} (shape {array.shape})"
            )
        strides = dtypes.counted_strides(spec.dtype, tuple(s // array.itemsize for s in array.strides))
        for dim, size in [*zip(spec.shape, dtypes.counted(spec.dtype, array.shape)), *zip(spec.strides or (), strides)]:
            if type(dim).__name__ == "Var":
                session.symbols.setdefault(dim.name, Scalar(int(size), str(dim.ty.dtype)))
    for name, spec in specs.items():
        if name in arrays:
            wanted, given = shape_of(spec, session, name), dtypes.counted(spec.dtype, arrays[name].shape)
            if dtypes.stored(spec.dtype, wanted) != arrays[name].shape:
                axis = next(k for k, (a, b) in enumerate(zip(wanted, given)) if a != b)
                kind = "Static" if isinstance(spec.shape[axis], int) else "Dynamic"
                raise ArgumentValueError(
                    f"{kind} shape mismatch for parameter {name}: expected {wanted[axis]} at index {axis}, got {given[axis]}"
                )


def dims_of(spec: TensorSpec, session: Session, name: str) -> tuple:
    """Dimensions as the program sees them: integers, or scalars of the kernel."""
    out = []
    for dim in spec.shape:
        value = evaluate(dim, session.symbols)
        if value is None:
            raise ArgumentValueError(
                f"Cannot tell the value of the dynamic extent {dim} of {name}: no argument has it as a whole dimension"
            )
        out.append(value)
    return tuple(out)


def shape_of(spec: TensorSpec, session: Session, name: str) -> tuple[int, ...]:
    """Dimensions as numbers."""
    return tuple(map(size_of, dims_of(spec, session, name)))


def in_gm(name: str, spec: TensorSpec, array: np.ndarray | None, session: Session) -> Tile:
    """The tile of a tensor argument; fresh memory if the call makes it."""
    dims = dims_of(spec, session, name)
    if array is None:
        return allocate(tuple(map(size_of, dims)), spec.dtype, name, "global", dims, True)
    return argument(array, name, spec.dtype, dims)


def argument(array: np.ndarray, name: str, dtype: str, dims=None) -> Tile:
    """The tile of an array a call passes. dims: the shape as the program sees it."""
    if dtype in dtypes.NIBBLES:
        shape = dtypes.counted(dtype, array.shape) if dims is None else tuple(map(size_of, dims))
        return Tile(Halves(array, shape, dtype, True), None, name, dtype, "global", dims, True)
    return Tile(array, None, name, dtype, "global", dims, True)


class Memory:
    """What a call passes for a parameter declared as `T.ptr`."""

    def __init__(self, name: str, value):
        self.name, self.dtype = name, tensors.HostTensor(value).dtype if tensors.is_tensor(value) else ""
        self.array, self.made = as_numpy(value, self.dtype, name), None

    def tensor(self, dims, dtype: str) -> Tile | None:
        """All of it as a tensor. None for another shape or dtype once there is a tensor: it is a view of that."""
        shape = dtypes.stored(dtype, tuple(map(size_of, dims)))
        same = self.dtype == dtype or self.dtype in dtypes.packed(dtype, True)
        if self.made is not None and (self.made.dtype != dtype or self.array.shape != shape):
            return None
        if not same or self.array.shape != shape:
            raise ArgumentValueError(f"parameter {self.name} is {self.dtype} {self.array.shape}, the kernel makes {dtype} {shape} of it")
        self.made = argument(self.array, self.name, dtype, dims)
        return self.made


def returned(tile: Tile, torch_like: bool):
    """A tile as the caller's library knows it."""
    array = tile.array
    if tile._dtype in dtypes.NIBBLES:
        array = array.raw.view(dtypes.numpy_dtype(tile._dtype))
    if not torch_like:
        return array
    out = tensors.empty(tuple(array.shape), tile._dtype, True)
    if array.size:
        tensors.HostTensor(out).assign(np.ascontiguousarray(array))
    return out


# -- eager kernels: constants are read off the declarations


def eager_declarations(function) -> tuple[dict[str, ast.expr], dict[str, str]]:
    """({tensor: annotation in the body}, {Python name: name given to `T.const`})."""
    node = parse(function)
    declared, constants = {}, {}
    for n in ast.walk(node) if node is not None else ():
        if isinstance(n, ast.AnnAssign) and n.value is None and isinstance(n.target, ast.Name):
            if last_name(n.annotation) in ("Tensor", "StridedTensor", "Buffer"):
                declared[n.target.id] = n.annotation
        if isinstance(n, ast.Assign) and isinstance(n.value, ast.Call) and last_name(n.value) == "const":
            names = n.value.args[0].value if isinstance(n.value.args[0], ast.Constant) else ""
            targets = n.targets[0].elts if isinstance(n.targets[0], (ast.Tuple, ast.List)) else n.targets
            constants.update({t.id: c for t, c in zip(targets, names_in(names)) if isinstance(t, ast.Name)})
    return declared, constants


def declared_dtype(function, annotation: ast.expr, values: dict[str, Any]) -> str | None:
    """The dtype of 4 bits a declaration in the body of a kernel names, None for others: those a tensor has itself."""
    parts = annotation.slice if isinstance(annotation, ast.Subscript) else annotation
    parts = (
        parts.elts
        if isinstance(parts, ast.Tuple)
        else [*parts.args, *(k.value for k in parts.keywords)]
        if isinstance(parts, ast.Call)
        else []
    )
    known = {**function.__globals__, **inspect.getclosurevars(function).nonlocals, **values}
    for node in parts:
        name = node.value if isinstance(node, ast.Constant) else known.get(node.id) if isinstance(node, ast.Name) else last_name(node)
        if isinstance(name, str) and name in dtypes.NIBBLES:
            return str(name)
    return None


def _literal_dims(annotation: ast.expr) -> tuple[list, list]:
    """Expressions of the shape and of the strides of ``T.Tensor[[M, N], dtype]``."""
    if isinstance(annotation, ast.Subscript):
        parts = annotation.slice.elts if isinstance(annotation.slice, ast.Tuple) else [annotation.slice]
    else:
        parts = [*annotation.args, *(k.value for k in annotation.keywords if k.arg in ("shape", "strides"))]
    if parts and not isinstance(parts[0], (ast.Tuple, ast.List)):
        parts = [ast.Tuple(parts, ast.Load())]
    lists = [p.elts for p in parts[:2] if isinstance(p, (ast.Tuple, ast.List))]
    strides = lists[1] if len(lists) > 1 and last_name(annotation) == "StridedTensor" else []
    return (lists[0] if lists else []), strides


def _made_tensors(function) -> list[tuple[str, list, list]]:
    """(parameter, expressions of the shape, none of strides) of ``T.make_tensor(parameter, shape, …)``, the first one of each parameter."""
    node = parse(function)
    calls = [n for n in ast.walk(node) if isinstance(n, ast.Call)] if node is not None else []
    out: dict[str, list] = {}
    for call in calls:
        if last_name(call) in ("make_tensor", "make_tensor_from_addr") and len(call.args) > 1 and isinstance(call.args[0], ast.Name):
            shape = call.args[1].elts if isinstance(call.args[1], (ast.Tuple, ast.List)) else [call.args[1]]
            out.setdefault(call.args[0].id, shape)
    return [(name, shape, []) for name, shape in out.items()]


def read_constants(function, given: dict[str, Any], extra: dict[str, int]) -> dict[str, int]:
    """Values of the `T.const` names: from the tensors whose declarations name them, or from the call."""
    declared, names = eager_declarations(function)
    found = {k: int(v) for k, v in extra.items()}
    places = [*((n, *_literal_dims(a)) for n, a in declared.items()), *_made_tensors(function)]
    kinds = {n: declared_dtype(function, a, given) or "" for n, a in declared.items()}
    # A row of bytes does not tell whether its last number of 4 bits is padding, so other tensors are asked first.
    for name, shape, strides in sorted(places, key=lambda x: kinds.get(x[0]) in dtypes.NIBBLES):
        tensor = given.get(name)
        if tensor is None or not hasattr(tensor, "shape"):
            continue
        if shape and len(shape) != len(tensor.shape):
            raise ArgumentValueError(f"argument '{name}' has {len(tensor.shape)} dimensions, the kernel declares {len(shape)}")
        kind = kinds.get(name, "")
        extents, have = dtypes.counted(kind, tuple(tensor.shape)), dtypes.counted_strides(kind, tensors.HostTensor(tensor).strides)
        for axis, (dim, size) in enumerate([*zip(shape, extents), *zip(strides, have)]):
            if isinstance(dim, ast.Name) and dim.id in names:
                known = found.setdefault(names[dim.id], int(size))
                padded = kind in dtypes.NIBBLES and axis == len(shape) - 1 and known == size - 1
                if known != int(size) and not padded:
                    raise ArgumentValueError(f"a dimension of '{name}' is {size}, but {dim.id} is {known} elsewhere in this call")
    return found


# -- names outside of the function


_PYTHON = {"max": elements.builtin_max, "min": elements.builtin_min, "range": loops.python_range}
_MATH = {
    name: meaning
    for name, meaning in elements.MEANINGS.items()
    if name in "sqrt exp exp2 log log2 log10 log1p sin cos tan tanh erf floor ceil trunc fabs pow".split() and hasattr(math, name)
}


def _math(name: str):
    python, ours = getattr(math, name), _MATH[name]

    def choose(*args):
        return ours(*args) if any(isinstance(a, Scalar) or hasattr(a, "load_scalar") for a in args) else python(*args)

    return choose


_math_module = types.SimpleNamespace(**{n: getattr(math, n) for n in dir(math)} | {n: _math(n) for n in _MATH})
_MATH_BY_FUNCTION = {getattr(math, n): getattr(_math_module, n) for n in _MATH}


@contextlib.contextmanager
def names_bound(function, session: Session) -> Iterator[None]:
    """While the kernel runs, names of its closures and modules that hold dimensions or constants of the IR hold numbers; `max`, `min`,
    `range` and `math` know numbers of the kernel.
    """
    undo: list = []
    seen: set[int] = set()
    try:
        _visit(function, session, undo, seen)
        yield
    finally:
        for restore in reversed(undo):
            restore()


def _visit(function: types.FunctionType, session: Session, undo: list, seen: set[int]) -> None:
    function = getattr(function, "_tl_source", function)
    if id(function) in seen or not isinstance(function, types.FunctionType) or not _is_users(function.__code__):
        return
    seen.add(id(function))
    for cell in function.__closure__ or ():
        try:
            value = cell.cell_contents
        except ValueError:
            continue
        new = _replacement(value, session)
        _visit(value, session, undo, seen)
        if new is not value:
            undo.append(lambda c=cell, v=value: setattr(c, "cell_contents", v))
            cell.cell_contents = new
    names = _names_of(function.__code__)
    space = function.__globals__
    for name in names:
        if name in space:
            value = space[name]
            new = _replacement(value, session)
            _visit(value, session, undo, seen)
            if new is not value:
                undo.append(lambda n=name, v=value: space.__setitem__(n, v))
                space[name] = new
        elif name in _PYTHON and hasattr(builtins, name):
            undo.append(lambda n=name: space.pop(n, None))
            space[name] = _PYTHON[name]


_FOLDERS = ("stdlib", "platstdlib", "purelib", "platlib")
_LIBRARIES = tuple({os.path.abspath(p) + os.sep for k in _FOLDERS if (p := sysconfig.get_paths().get(k))})


def _is_users(code: types.CodeType) -> bool:
    """True for code that is neither this package nor an installed library."""
    return is_user_code(code) and not code.co_filename.startswith((*_LIBRARIES, "<frozen"))


def _names_of(code: types.CodeType) -> set[str]:
    names = set(code.co_names)
    for c in code.co_consts:
        if isinstance(c, types.CodeType):
            names |= _names_of(c)
    return names


def _replacement(value: Any, session: Session):
    kind = type(value)
    if kind in (list, tuple):
        new = [_replacement(v, session) for v in value]
        return value if all(a is b for a, b in zip(new, value)) else kind(new)
    if kind is dict:
        new = {k: _replacement(v, session) for k, v in value.items()}
        return value if all(new[k] is v for k, v in value.items()) else new
    if value is math:
        return _math_module
    if kind is types.BuiltinFunctionType:
        return _MATH_BY_FUNCTION.get(value, value)
    if kind is types.FunctionType and not hasattr(value, "_tl_source") and _is_users(value.__code__):
        return prepared(value)
    if is_foreign(value):
        found = evaluate(value, session.symbols)
        return value if found is None else found
    return value
