"""Eager style: the decorated function is the kernel, and its constants are read off the tensors of each call."""

from __future__ import annotations

import ast
import dataclasses
import inspect
import operator
from typing import Any

from ..errors import ArgumentTypeError, ArgumentValueError, InvalidKernel, KernelSyntaxError, SourceUnavailable
from ..ir import PrimFunc, Var, const_int, free_vars
from ..runtime.dtypes import NIBBLES, counted, counted_strides
from . import tracing
from .annotations import DType, Pointer, PointerSpec, TensorSpec
from .builder import Builder
from .liveness import FUNCTIONS
from .source import function_ast
from .values import StopProbe


def is_eager(fn) -> bool:
    """True if the body of `fn` is itself a kernel; decided from the source, `fn` is not called.

    A function is eager when, outside nested functions, it opens `T.Kernel`, calls `T.const`, or declares
    a tensor (``A: T.Tensor[...]``). Everything else is a function that builds and returns a kernel.
    """
    if isinstance(fn, PrimFunc):
        return False
    try:
        node = function_ast(fn)
    except SourceUnavailable:
        return False
    return any(_marks_eager(n) for s in node.body for n in _own_nodes(s))


def scalar_parameters(fn) -> frozenset[str]:
    """Names of the parameters whose values the running kernel is given (``s: T.float32``), as far as that can be told without calling `fn`."""
    return frozenset(name for name, value in fn.__annotations__.items() if isinstance(value, DType))


def _own_nodes(node: ast.AST):
    if isinstance(node, FUNCTIONS):
        return
    yield node
    for child in ast.iter_child_nodes(node):
        yield from _own_nodes(child)


def _last_name(node: ast.AST) -> str | None:
    while isinstance(node, (ast.Call, ast.Subscript)):
        node = node.func if isinstance(node, ast.Call) else node.value
    return getattr(node, "attr", getattr(node, "id", None))


_TENSORS = ("Tensor", "StridedTensor", "Buffer")


def _marks_eager(node: ast.AST) -> bool:
    if isinstance(node, ast.withitem):
        return _last_name(node.context_expr) == "Kernel"
    if isinstance(node, ast.AnnAssign):
        return node.value is None and _last_name(node.annotation) in _TENSORS
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "const"


@dataclasses.dataclass(frozen=True)
class Bound:
    """One specialisation of an eager kernel. `inputs` are the caller's values for the parameters that are not
    outputs.
    """

    func: PrimFunc
    inputs: tuple
    key: tuple


@dataclasses.dataclass(frozen=True)
class _Place:
    """Where a constant is read: dimension or stride `axis` of tensor argument `param`."""

    param: str
    is_stride: bool
    axis: int


class EagerTrace:
    """What the builder asks while an eager kernel is traced: values of constants, buffers of declared tensors."""

    def __init__(self, template: EagerTemplate, constants: dict | None):
        self.template, self.constants = template, constants
        self.declared: dict[str, Any] = {}
        self.specs: dict[str, TensorSpec] = {}
        self.symbols: dict[str, Var] = {}
        self.dynamic: dict[str, Var] = {}

    @property
    def probing(self) -> bool:
        return self.constants is None

    def const(self, name: str, dtype: str):
        """The value of one `T.const` name; a variable while only the signature is wanted."""
        if self.probing:
            self.symbols[name] = Var(name, dtype)
            return self.symbols[name]
        if name not in self.constants:
            raise InvalidKernel(
                f"the constant '{name}' cannot be read from the arguments",
                hint=f"use {name} directly as a dimension of a tensor argument, or pass {name}=… by keyword",
            )
        return self.constants[name]

    def made_dynamic(self, variables) -> None:
        """`T.dynamic` in the body of the kernel made these."""
        for var in variables:
            self.dynamic[str(var.name)] = var

    def declare(self, name: str, spec: TensorSpec):
        """``name: T.Tensor[...]`` in the body."""
        if name not in self.template.tensor_names:
            raise KernelSyntaxError(f"'{name}' is declared as a tensor, but it is not a parameter of the kernel")
        self.declared[name] = tracing.make_param(name, spec, self.template.fn)
        self._saw(name, spec)
        return self.declared[name]

    def made_tensor(self, pointer: Pointer, spec: TensorSpec) -> None:
        """`T.make_tensor` says what lies behind a pointer."""
        self.declared[pointer.name] = pointer.tensor
        self._saw(pointer.name, spec)

    def reads(self, var) -> bool:
        """Whether the tensors of a call say what a variable in a shape is."""
        return any(var is v for v in (*self.symbols.values(), *self.dynamic.values()))

    def _saw(self, name: str, spec: TensorSpec) -> None:
        self.specs[name] = spec
        known = [*self.symbols.values(), *self.template.traced]
        for dim in (*spec.shape, *(spec.strides or ())):
            if const_int(dim) is None:
                self.made_dynamic(v for v in free_vars(dim) if not any(v is c for c in known))


class EagerTemplate:
    """An eager kernel before its constants are known. `bind` specialises it to one call and remembers the results."""

    def __init__(self, fn):
        self.fn = fn
        self.signature = inspect.signature(fn)
        node = function_ast(fn)
        params = list(self.signature.parameters)
        declared = {
            n.target.id
            for s in node.body
            for n in _own_nodes(s)
            if isinstance(n, ast.AnnAssign) and n.value is None and isinstance(n.target, ast.Name) and _last_name(n.annotation) in _TENSORS
        }
        self.types = tracing.signature_types(fn, {})
        self.pointers = {n for n, t in self.types.items() if isinstance(t, PointerSpec)}
        self.scalars = {n: t for n, t in self.types.items() if isinstance(t, DType)}
        in_signature = {n for n, t in self.types.items() if isinstance(t, TensorSpec)}
        self.tensor_names = tuple(n for n in params if n in declared | in_signature | self.pointers)
        self.traced: list[Var] = []
        """Scalar parameters of the trace that runs."""
        self._probes: dict[tuple, EagerTrace] = {}
        self._funcs: dict[tuple, PrimFunc] = {}

    def bind(self, args=(), kwargs=None, launch: bool = False) -> Bound:
        """Specialise to the shapes of one call.

        `kwargs` may name dimensions (``M=1024``) besides parameters: a `T.const` takes the value, a `T.dynamic` stays dynamic. Tensors and
        scalars of run time may be left out unless the kernel is launched at once (`launch`), and `inputs` holds None for them.
        Raises `ArgumentTypeError` / `ArgumentValueError` for calls that do not fit.
        """
        values, given = self._arguments(args, dict(kwargs or {}), launch)
        static = tuple((n, v) for n, v in values.items() if n not in self.tensor_names and n not in self.scalars)
        try:
            probe = self._probes.get(static)
        except TypeError as error:
            bad = next(n for n, v in static if not _hashable(v))
            raise ArgumentTypeError(
                f"compile-time argument '{bad}' of '{self.fn.__name__}' is not hashable",
                hint="pass a tuple instead of a list",
            ) from error
        if probe is None:
            probe = self._probes[static] = self._run(dict(static), None)
        unknown = set(given) - set(probe.symbols) - set(probe.dynamic)
        if unknown:
            raise ArgumentTypeError(f"'{self.fn.__name__}' has no parameter or constant named '{sorted(unknown)[0]}'")
        sizes = self._read_sizes(probe, values, given)
        constants = {n: v for n, v in sizes.items() if n in probe.symbols}
        key = (static, tuple(sorted(constants.items())))
        if key not in self._funcs:
            self._funcs[key] = self._run(dict(static), constants)
        inputs = tuple(values.get(n) for n in self.signature.parameters if n in self.tensor_names or n in self.scalars)
        return Bound(self._funcs[key], inputs, key)

    def _arguments(self, args, kwargs, launch: bool) -> tuple[dict, dict]:
        params = self.signature.parameters
        constants = {k: kwargs.pop(k) for k in list(kwargs) if k not in params}
        try:
            bound = self.signature.bind_partial(*args, **kwargs)
        except TypeError as error:
            raise ArgumentTypeError(f"'{self.fn.__name__}': {error}") from error
        bound.apply_defaults()
        for name in params:
            if launch and name not in bound.arguments:
                raise ArgumentTypeError(f"'{self.fn.__name__}' is missing argument '{name}'")
        for name, value in bound.arguments.items():
            if name in self.tensor_names and value is not None and not hasattr(value, "shape"):
                raise ArgumentTypeError(f"argument '{name}' of '{self.fn.__name__}' must be a tensor, got {type(value).__name__}")
        return dict(bound.arguments), constants

    def _read_sizes(self, probe: EagerTrace, values: dict, given: dict) -> dict[str, int]:
        """Values of `T.const` and `T.dynamic` names, as far as they are dimensions of a tensor of this call or given by name."""
        found = {k: _size(k, v) for k, v in given.items()}
        symbols = [*probe.symbols.items(), *probe.dynamic.items()]
        # A row of bytes does not tell whether its last number of 4 bits is padding, so other tensors are asked first.
        for name, spec in sorted(probe.specs.items(), key=lambda x: x[1].dtype in NIBBLES):
            tensor = values.get(name)
            if tensor is None:
                continue
            if len(tensor.shape) != len(spec.shape):
                raise ArgumentValueError(f"argument '{name}' has {len(tensor.shape)} dimensions, the kernel declares {len(spec.shape)}")
            for place, dim in _places(name, spec):
                symbol = next((n for n, v in symbols if dim is v), None)
                if symbol is None:
                    continue
                sizes = counted_strides(spec.dtype, _strides(tensor)) if place.is_stride else counted(spec.dtype, tuple(tensor.shape))
                size = int(sizes[place.axis])
                padded = not place.is_stride and spec.dtype in NIBBLES and place.axis == len(spec.shape) - 1
                if found.setdefault(symbol, size) != size and not (padded and found[symbol] == size - 1):
                    what = "stride" if place.is_stride else "dimension"
                    raise ArgumentValueError(
                        f"{what} {place.axis} of '{name}' is {size}, but {symbol} is {found[symbol]} elsewhere in this call"
                    )
        return found

    def _run(self, static: dict, constants: dict | None):
        def make(facts: dict) -> Builder:
            builder = Builder(facts)
            builder.eager = EagerTrace(self, constants)
            return builder

        return tracing.run_traced(lambda b: self._trace(b, static), make)

    def _trace(self, builder: Builder, static: dict):
        eager, args = builder.eager, dict(static)
        scalars = {n: Var(n, str(t)) for n, t in self.scalars.items()}
        builder.scalars = self.traced = list(scalars.values())
        args.update(scalars)
        for name in self.tensor_names:
            builder.unique(name)
            spec = self.types.get(name)
            pointer = Pointer(name) if name in self.pointers else None
            args[name] = eager.declare(name, spec) if isinstance(spec, TensorSpec) else pointer
        for name, p in self.signature.parameters.items():
            if name not in args and p.kind not in (p.VAR_KEYWORD, p.VAR_POSITIONAL):
                raise ArgumentTypeError(f"'{self.fn.__name__}' is missing argument '{name}'")
        if eager.probing:
            depth = builder.region
            try:
                tracing.call_rewritten(self.fn, builder, **args)
            except StopProbe:
                builder.region = depth
            return eager
        result = tracing.call_rewritten(self.fn, builder, **args)
        both = {**eager.declared, **scalars}
        missing = [n for n in self.tensor_names if n not in eager.declared]
        if missing and missing[0] in self.pointers:
            raise tracing.nothing_made(missing[0], self.fn)
        if missing:
            raise InvalidKernel(f"tensor argument '{missing[0]}' is never declared", hint=f"add `{missing[0]}: T.Tensor[[M, N], dtype]`")
        params = [both[n] for n in self.signature.parameters if n in both]
        return tracing.finish(builder, self.fn, params, result)


def _size(name: str, value) -> int:
    try:
        return operator.index(value)
    except TypeError:
        raise ArgumentTypeError(f"the dimension '{name}' is given as {value!r}, which is no integer") from None


def _places(name: str, spec: TensorSpec):
    for axis, dim in enumerate(spec.shape):
        if const_int(dim) is None:
            yield _Place(name, False, axis), dim
    for axis, stride in enumerate(spec.strides or ()):
        if const_int(stride) is None:
            yield _Place(name, True, axis), stride


def _strides(tensor) -> tuple:
    """Strides in elements of a torch or NumPy array."""
    if callable(getattr(tensor, "stride", None)):
        return tuple(tensor.stride())
    return tuple(s // tensor.itemsize for s in tensor.strides)


def _hashable(value) -> bool:
    try:
        hash(value)
    except TypeError:
        return False
    return True
