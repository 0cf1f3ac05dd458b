"""The kernel object a user holds: call it, read its source, simulate it, measure it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..log import get_logger
from ..runtime import launches
from ..runtime.arguments import bind
from ..runtime.artifact import Artifact
from ..runtime.executors import Executor, choose
from ..runtime.graphs import outside_of_graphs
from ..runtime.params import Parameter

if TYPE_CHECKING:
    from ..profiler import Profiler
    from ..runtime.npu.profile import LaunchProfile
    from ..runtime.simulation import SimulationReport
    from ..sim.profile.explain import Explanation


class JITKernel:
    """A compiled kernel.

    Calling it checks the arguments, allocates the outputs named by `out_idx` and runs it; tensors may be torch or
    numpy, contiguous or not.

    Attributes:
        artifact: all the compiler produced.
        config, latency, ref_latency: filled by the tuner, None otherwise.
    """

    _tl_source: Any  # the kernel as a Python function, for `interpret.run`; a cached artifact has lost it

    def __init__(self, artifact: Artifact, execution_backend: str | None = None):
        self.artifact = artifact
        self.execution_backend = execution_backend
        self.config: dict | None = None
        self.latency: float | None = None
        self.ref_latency: float | None = None

    @property
    def executor(self) -> Executor:
        """What a call runs on.

        Raises:
            errors.TargetError: it cannot be used here.
        """
        return choose(self.execution_backend, self.artifact)

    @outside_of_graphs
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the kernel. Returns None, the output, or a tuple of outputs.

        Raises:
            errors.ArgumentError: an argument does not fit its declaration.
            errors.SimulationError: the machine model found the program to be wrong.
            errors.DeviceCompileError, errors.DeviceError: the compiler of CANN refuses the text; the board, or the kernel there, failed.
        """
        executor = self.executor
        launch = bind(self.artifact.signature, self.artifact.name, args, kwargs, executor.devices)
        if launch.wants_gradient and "gradient" not in self.artifact.told:
            self.artifact.told.add("gradient")
            get_logger().warning(
                "%s: its results carry no gradient; call it in the forward function of a torch.autograd.Function", self.artifact.name
            )
        launches.notify(self.artifact, launch)
        executor.launch(self.artifact, launch)
        launch.write_back()
        return launch.result

    def __getstate__(self) -> dict[str, Any]:
        """What other processes get: all but the Python function, which may be one they cannot import."""
        return {k: v for k, v in vars(self).items() if k != "_tl_source"}

    def __getattr__(self, name: str) -> Any:
        reason = _OF_GPU_KERNELS.get(name)
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}" + (f"; {reason}" if reason else ""))

    def __repr__(self) -> str:
        inputs = ", ".join(_declaration(p) for p in self.params)
        return f"<JITKernel {self.artifact.name}({inputs}) for {self.artifact.chip}>"

    @property
    def params(self) -> tuple[Parameter, ...]:
        """All parameters in the user's order, outputs included."""
        return self.artifact.signature.parameters

    @property
    def out_idx(self) -> list[int]:
        """Indices of the parameters a call allocates and returns."""
        return list(self.artifact.signature.out_idx)

    @property
    def prim_func(self):
        """The traced kernel (Tile IR)."""
        return self.artifact.tile_ir

    def get_kernel_source(self, kernel_only: bool = True) -> str:
        """The emitted Ascend C; with `kernel_only=False` kernel and host launcher."""
        if kernel_only:
            return self.artifact.kernel_source
        return f"{self.artifact.kernel_source}\n{self.artifact.host_source}"

    def get_host_source(self) -> str:
        """The emitted host launcher with its plain C entry `call`."""
        return self.artifact.host_source

    def show_source(self, which: str = "kernel") -> None:
        """Print the ``kernel``, the ``host`` or ``both`` sources."""
        sources = {"kernel": self.artifact.kernel_source, "host": self.artifact.host_source}
        if which not in (*sources, "both"):
            raise ValueError(f"which is 'kernel', 'host' or 'both', not {which!r}")
        for name in sources if which == "both" else (which,):
            print(sources[name])

    @property
    def kernel_source(self) -> str:
        """The emitted Ascend C."""
        return self.artifact.kernel_source

    @property
    def host_source(self) -> str:
        """The emitted host launcher."""
        return self.artifact.host_source

    def print_source_code(self, which: str = "kernel") -> None:
        """An older name of `show_source`."""
        self.show_source(which)

    def export_sources(self, kernel_path: str | Path | None = None, host_path: str | Path | None = None) -> None:
        """Write the sources to the paths that are given; missing folders are made."""
        for path, text in ((kernel_path, self.artifact.kernel_source), (host_path, self.artifact.host_source)):
            if path is not None:
                Path(path).parent.mkdir(parents=True, exist_ok=True)
                Path(path).write_text(text, encoding="utf-8")

    def export_library(self, folder: str | Path, op: str | None = None) -> None:
        """Write a folder that builds a shared library with the compiler of CANN, without this package: texts, C header, CMake project,
        an op of torch (``NAME_op.py``) and a README that says how.

        Args:
            folder: made if it is missing; files of these names are replaced.
            op: name of the op, ``namespace::name``; ``tilelang::`` and the kernel's name when None.

        Raises:
            ValueError: the path is that of a library.
            errors.ArgumentTypeError: the kernel has a scalar that C has no type for.
        """
        if Path(folder).suffix in (".so", ".a", ".o"):
            raise ValueError(f"export_library writes a folder, in which CMake builds the library, not the file {folder}; pass a folder")
        from ..runtime.npu.export import export

        export(self.artifact, Path(folder).resolve(), op or f"tilelang::{self.artifact.name}")

    def get_tuner_result(self) -> dict[str, Any]:
        """``latency`` and ``ref_latency`` in milliseconds and the winning ``config``.

        Raises:
            ValueError: the kernel was not tuned.
        """
        if self.latency is None:
            raise ValueError("Tuning result is not available. Please tune the kernel first.")
        return {"latency": self.latency, "config": self.config, "ref_latency": self.ref_latency}

    def memory_map(self) -> str:
        """Table of what lies where in every on-chip memory."""
        return self.artifact.memory_map

    def get_profiler(self, tensor_supply_type=None) -> "Profiler":
        """Helper that makes inputs, measures and compares."""
        from ..profiler import Profiler, TensorSupplyType

        return Profiler(self, TensorSupplyType.Auto if tensor_supply_type is None else tensor_supply_type)

    def run_once(self) -> Any:
        """One call on generated inputs."""
        return self.get_profiler().run_once()

    def simulate(
        self, *inputs: Any, arch: Any = None, values: bool = True, checks: bool = True, warm: bool = True, every_step: bool = False
    ) -> "SimulationReport":
        """Run on the machine model and report time, occupancy and hazards; works whatever the kernel's executor is.

        Args:
            inputs: as for a call; outputs are in the report.
            arch: another chip than the kernel was compiled for.
            values: compute values; False measures time only, and `outputs` is meaningless.
            checks: run memcheck, initcheck, racecheck and synccheck with adversarial scheduling.
            warm: L2 holds what an earlier call with the same tensors left in it, as where a board repeats a measurement; False: it
                starts empty.
            every_step: without values and checks, iterations that repeat others are counted once their rhythm is known, which keeps times
                within 1 %; True: all of them are replayed.
        """
        from ..runtime import simulation

        artifact = self.artifact if arch is None else self.retarget(arch).artifact
        launch = bind(artifact.signature, artifact.name, inputs)
        launches.notify(artifact, launch)
        report = simulation.simulate(artifact, launch, values=values, checks=checks, warm=warm, every_step=every_step)
        launch.write_back()
        return report

    def explain(self, *inputs: Any, arch: Any = None, warm: bool = True) -> "Explanation":
        """What bounds the kernel on its chip, and the two or three changes most likely to help; ``print(kernel.explain(a, b))``.

        Times of changes come from replays of the simulated run without one cost each: a wait, the work of a line, a bandwidth. Inputs and
        options are those of `simulate`; nothing is computed, so that outputs mean nothing.
        """
        return self.simulate(*inputs, arch=arch, values=False, checks=False, warm=warm).explain()

    def profile(self, folder: str | Path = ".") -> "list[LaunchProfile]":
        """What msprof has measured of this kernel on an NPU: one record for each launch in the newest ``op_summary*.csv`` below `folder`,
        which ``msprof --output=folder python SCRIPT`` leaves there.

        Raises:
            errors.DeviceError: there is no such table, or it has no launch of this kernel.
        """
        from ..runtime.npu import profile

        return profile.read(Path(folder), profile.kernels_of(self.artifact.kernel_source))

    def retarget(self, target: Any) -> "JITKernel":
        """The same kernel compiled for another chip."""
        from ..targets import resolve_target
        from .build import build_artifact

        a = self.artifact
        options = {**a.options, **resolve_target(target)[1]}
        return JITKernel(build_artifact(a.tile_ir, a.signature.out_idx, target, options), self.execution_backend)


_ASCEND_C = "it is compiled to Ascend C, which .show_source() prints and .export_sources(path) writes"
_LIBRARY = "a library needs the compiler of CANN; .export_library(folder) writes a folder that builds it"
_MEMORY = "Ascend cores have no registers to allocate; .memory_map() shows what lies where on the chip"
_OF_GPU_KERNELS = {
    **dict.fromkeys(("show_ptx", "export_ptx", "_get_ptx", "show_sass", "export_sass", "_get_sass"), _ASCEND_C),
    "lib_path": _LIBRARY,
    **dict.fromkeys(("n_regs", "n_spills"), _MEMORY),
}
"""What kernels for a GPU have besides, and why it is missing."""


def _declaration(p: Parameter) -> str:
    if not p.is_buffer:
        return f"{p.name}: {p.dtype}"
    return f"{p.name}: {p.dtype}[{', '.join(str(d) for d in p.extents)}]"
