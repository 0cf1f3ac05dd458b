"""`@tilelang.autotune`: a compiled function that chooses its own tile sizes."""

from __future__ import annotations

import contextlib
import functools
import inspect
from typing import Any, Callable, Hashable, Iterable, Sequence

from .. import interpret
from ..errors import InvalidArgument, InvalidKernel
from ..jit import JITImpl
from ..jit.decorator import RETURN_KERNEL
from ..jit.fingerprint import call_fingerprint, form_of
from ..log import get_logger
from ..runtime.graphs import outside_of_graphs
from .given import get_autotune_inputs
from .settings import AutotuneResult, CompileArgs, ProfileArgs
from .space import DERIVED, expand, split, tunables


class AutoTuneImpl:
    """A function decorated with `@tilelang.autotune` over `@tilelang.jit`.

    A call leaves out the tunable parameters. The first one with new arguments tunes; the winner is remembered in this
    object, and every measurement on disk. A call that passes a tunable itself is a plain call of the compiled function.
    """

    def __init__(self, jit_impl: JITImpl, configs: Any, profile: ProfileArgs, do_not_specialize: Iterable[str | int] = ()):
        functools.update_wrapper(self, jit_impl.func)
        self.jit_impl = jit_impl
        self.func = jit_impl.func
        self.signature = jit_impl.signature
        self.configs = configs if configs is None or callable(configs) else list(configs)
        self.profile_args = profile
        self._free = _parameter_names(do_not_specialize, self.signature)
        self._tunables: list[str] | None = None
        self._results: dict[Hashable, AutotuneResult] = {}
        self._configs: dict[Hashable, dict] = {}

    @property
    def mode(self) -> str:
        """``lazy`` or ``eager``."""
        return self.jit_impl.mode

    @outside_of_graphs
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Lazy: the best kernel. Eager: run the best kernel on the tensors given, return its outputs; with ``__return_kernel=True`` the kernel
        instead."""
        if kwargs.pop(RETURN_KERNEL, False):
            return self.compile(*args, **kwargs)
        if self._skips(args, kwargs):
            return self.jit_impl(*args, **kwargs)
        if interpret.enabled():  # there is nothing to measure
            return self.jit_impl(*args, **self.with_config(kwargs, self._space(args, kwargs)[0]))
        result = self.tune(*args, **kwargs)
        if self.mode == "lazy":
            return result.kernel
        return result.kernel(*self.jit_impl.launch_inputs(*args, **self.with_config(kwargs, result.config or {})))

    def compile(self, *args: Any, **kwargs: Any):
        """The best kernel, not run."""
        if self._skips(args, kwargs):
            return self.jit_impl.compile(*args, **kwargs)
        return self.tune(*args, **kwargs).kernel

    def get_tir(self, *args: Any, **kwargs: Any):
        """The traced kernel (Tile IR) of the best configuration, or of the one that is passed."""
        return self.jit_impl.get_tir(*args, **kwargs) if self._skips(args, kwargs) else self.tune(*args, **kwargs).func

    def get_kernel_source(self, *args: Any, kernel_only: bool = True, **kwargs: Any) -> str:
        """The Ascend C of the best configuration, or of the one that is passed."""
        return self.compile(*args, **kwargs).get_kernel_source(kernel_only)

    def tune(self, *args: Any, **kwargs: Any) -> AutotuneResult:
        """The result for a call with these arguments: measured now, or remembered."""
        key = self._key(args, kwargs, ())
        if key is not None and key in self._results:
            return self._results[key]
        shared = self._key(args, kwargs, self._free)
        config = self._configs.get(shared) if shared is not None else None
        result = self._tune(args, kwargs, None if config is None else [config])
        if key is not None:
            self._results[key] = result
        if shared is not None:
            self._configs[shared] = result.config or {}
        return result

    def __get__(self, instance: Any, owner: type | None = None):
        """A decorated method gets its instance as first argument."""
        return self if instance is None else functools.partial(self, instance)

    def __repr__(self) -> str:
        return f"<AutoTuneImpl {self.func.__module__}.{self.func.__qualname__}>"

    def _tune(self, args: tuple, kwargs: dict, configs: list[dict] | None) -> AutotuneResult:
        from .program import Subject
        from .session import tune

        if configs is None or self.configs is None:  # what a derived space finds is compared with its first configuration
            space = self._space(args, kwargs)
            configs = space if configs is None else [space[0], *configs]
        backend, target, options = self.jit_impl.settings
        subject = Subject(
            self.func.__name__,
            lambda config: self.jit_impl.get_tir(*args, **self.with_config(kwargs, config)),
            CompileArgs(self.jit_impl.out_idx, target, backend, options),
        )
        given: Sequence[Any] | None = get_autotune_inputs()
        if given is None and self.mode == "eager":
            passed = self._launch_inputs(args, kwargs, configs)
            given = None if any(value is None for value in passed) else passed
        return tune(subject, configs, self.signature, self.profile_args, given, derived=self.configs is None)

    def _launch_inputs(self, args: tuple, kwargs: dict, configs: list[dict]) -> tuple:
        """What the kernel is called with, which every configuration says that can be traced; (None,) when none can."""
        for config in configs:
            with contextlib.suppress(Exception):  # of the user's function; the tuning shows it
                return self.jit_impl.launch_inputs(*args, **self.with_config(kwargs, config))
        return (None,)

    def _space(self, args: tuple, kwargs: dict) -> list[dict]:
        """The configurations for a call; the user's, or, where he gave none, those that suit the kernel and the chip."""
        own, _ = self._split_constants(kwargs)
        if self.configs is not None:
            return expand(self.configs, self.signature, args, own)
        from ..targets import resolve_chip
        from .derive import derive

        trace = lambda config: self.jit_impl.get_tir(*args, **self.with_config(kwargs, config))
        passed = self.signature.bind_partial(*args, **own).arguments
        return derive(trace, self.signature, passed.keys(), resolve_chip(self.jit_impl.settings[1]), DERIVED)

    def _skips(self, args: tuple, kwargs: dict) -> bool:
        if self.configs is None:  # derived spaces are of what the caller leaves open
            return False
        own, _ = self._split_constants(kwargs)
        names = self._tunables or tunables(expand(self.configs, self.signature, args, own))
        if not callable(self.configs):  # a function may give every call others
            self._tunables = names
        passed = self.signature.bind_partial(*args, **own).arguments
        given = [name for name in names if name in passed]
        if given:
            get_logger().debug("%s: %s given by the caller, not tuned", self.func.__name__, ", ".join(given))
        return bool(given)

    def _split_constants(self, kwargs: dict) -> tuple[dict, dict]:
        """(parameters of the function, constants of an eager kernel that are given by name)."""
        names = self.signature.parameters
        if self.mode == "lazy":
            return kwargs, {}
        return ({k: v for k, v in kwargs.items() if k in names}, {k: v for k, v in kwargs.items() if k not in names})

    def completed(self, args: tuple, kwargs: dict) -> dict:
        """The keyword arguments of a call with those of the best configuration; as they are when the call leaves nothing to tune."""
        key = self._key(args, kwargs, ())
        if key is None or key not in self._results:
            try:
                self._space(args, kwargs)
            except InvalidArgument as reason:
                get_logger().debug("%s is not tuned: %s", self.func.__name__, reason.message)
                if key is not None:
                    self._results[key] = AutotuneResult()
                return kwargs
        return self.with_config(kwargs, self.tune(*args, **kwargs).config or {})

    def with_config(self, kwargs: dict, config: dict) -> dict:
        """The keyword arguments of a call together with those of a configuration."""
        return {**kwargs, **split(config, self.signature)[0]}

    def _key(self, args: tuple, kwargs: dict, free: Iterable[str]) -> Hashable | None:
        own, constants = self._split_constants(kwargs)
        bound = self.signature.bind_partial(*args, **own)
        bound.apply_defaults()
        arguments = {name: value for name, value in bound.arguments.items() if name not in free}
        if self.mode == "eager":  # tracing does not read the elements of tensors
            arguments = {name: form_of(value) for name, value in arguments.items()}
        inputs = [form_of(value) for value in get_autotune_inputs() or ()]
        return call_fingerprint(self.func, (arguments, constants, inputs, self.configs), {})


def autotune(
    func: Any = None,
    *,
    configs: Any = None,
    warmup: float = 25,
    rep: float = 100,
    timeout: float = 100,
    supply_type: Any = None,
    ref_prog: Callable | None = None,
    supply_prog: Callable | None = None,
    rtol: float = 1e-2,
    atol: float = 1e-2,
    max_mismatched_ratio: float = 0.01,
    skip_check: bool = False,
    manual_check_prog: Callable | None = None,
    cache_input_tensors: bool = False,
    do_not_specialize: Iterable[str | int] | None = None,
    early_stop: bool = False,
    early_stop_factor: float = 2.0,
    measurements: int | None = None,
) -> Any:
    """Decorator above `@tilelang.jit`: tries `configs` and keeps the fastest one that is correct.

    Configurations are compiled and simulated in worker processes; those that do not fit, fail, crash or hang drop out.
    The others are ranked by *simulated* time. Where the kernel runs on a board, here or over RPC, the most promising ones
    are then measured there. The best one is run for its values (docs/tuning.md).

    Args:
        configs: dicts from tunable parameters to values, or a function that gets the arguments of a call and returns
            them. The key ``pass_configs`` sets compiler options of one configuration. None: tile sizes and stages that
            suit the kernel and the chip, for the parameters with defaults that the caller leaves out; what wins then computes
            what the defaults compute.
        timeout: seconds one configuration may take to compile and to be simulated, to be measured, and the best one to be
            checked; also what `ref_prog` and `supply_prog` may take.
        measurements: how many configurations are measured on a board; None: a tenth of them.
        supply_type: how inputs are filled that nobody supplies (`TensorSupplyType`).
        ref_prog: reference for the winner; gets the inputs, returns the expected outputs.
        supply_prog: gets the kernel's input parameters, returns their values.
        rtol, atol, max_mismatched_ratio: tolerances of the comparison with `ref_prog`.
        skip_check: take the fastest configuration unchecked.
        manual_check_prog: compares (outputs, reference outputs) in place of the tolerances; raises AssertionError.
        do_not_specialize: names or positions of parameters; when only they change, the configuration is kept.
        warmup, rep: milliseconds of calls on a board that do not count, and that do. A simulated time does not vary: one
            run tells it.
        early_stop, early_stop_factor, cache_input_tensors: without effect; all configurations run on the same inputs.
    """
    if func is not None and not isinstance(func, JITImpl):
        raise InvalidKernel("@tilelang.autotune takes arguments", hint="write @tilelang.autotune(configs=[...])")
    profile = ProfileArgs(
        timeout=timeout,
        warmup=warmup,
        rep=rep,
        measurements=measurements,
        supply_type=supply_type,
        supply_prog=supply_prog,
        ref_prog=ref_prog,
        rtol=rtol,
        atol=atol,
        max_mismatched_ratio=max_mismatched_ratio,
        manual_check_prog=manual_check_prog,
        skip_check=skip_check,
    )

    def decorate(implementation: Any) -> AutoTuneImpl:
        if not isinstance(implementation, JITImpl):
            raise InvalidKernel(
                f"@tilelang.autotune decorates a function that @tilelang.jit has decorated, not {type(implementation).__name__}",
                hint="write @tilelang.autotune(...) in the line above @tilelang.jit(...)",
            )
        return AutoTuneImpl(implementation, configs, profile, do_not_specialize or ())

    return decorate if func is None else decorate(func)


def _parameter_names(chosen: Iterable[str | int], signature: inspect.Signature) -> tuple[str, ...]:
    names = list(signature.parameters)
    chosen = [chosen] if isinstance(chosen, (str, int)) else list(chosen)
    for item in chosen:
        if item not in names and not (isinstance(item, int) and -len(names) <= item < len(names)):
            raise InvalidArgument(f"do_not_specialize names {item!r}; the parameters are {', '.join(names)}")
    return tuple(names[item] if isinstance(item, int) else item for item in chosen)
