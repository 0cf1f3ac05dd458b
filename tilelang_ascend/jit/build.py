"""From a traced kernel to an `Artifact`: lower, emit, cache. The only place that calls the compiler."""

from __future__ import annotations

from collections import deque
from typing import Any

from .. import cache, env
from ..cache.key import kernel_key
from ..errors import InvalidKernel, location_of
from ..log import get_logger
from ..runtime.artifact import Artifact
from ..targets import resolve_target
from . import measure
from .hooks import notify
from .signature import read_signature
from .steps import describe_steps


def build_artifact(func, out_idx: tuple[int, ...], target: Any = None, options: dict[str, Any] | None = None) -> Artifact:
    """Compile the Tile IR `func` for `target`, or take the result of an earlier identical compilation.

    Raises:
        errors.CompileError: the kernel cannot be translated for the chip.
    """
    from .. import ir

    chip, options = resolve_target(target, options)
    text = ir.save_json(func)
    key = kernel_key(text, chip.name, options, out_idx)
    artifact = cache.get_or_build(key, lambda: _compile(func, text, chip, out_idx, options))
    for note in artifact.notes:
        get_logger().debug("%s: %s", artifact.name, note)
    notify(artifact)
    return artifact


def _warning_text(span, message: str) -> str:
    """`file:line:col: message`."""
    where = location_of(span)
    return f"{where}: {message}" if where else message


def _compile(func, tile_ir_json: str, chip, out_idx: tuple[int, ...], options: dict[str, Any]) -> Artifact:
    from .. import codegen, ir
    from ..analysis.tiles.output_gaps import output_gaps
    from ..ir.functions import launches
    from ..transform import pipeline
    from ..transform.canonicalize.resolve_tensor_views import resolve_tensor_views
    from ..transform.canonicalize.split_launches import split_launches

    name = str(func.attrs["global_symbol"])
    announce = env.PRINT_ON_COMPILATION.get()
    if announce:
        get_logger().info("begins to compile kernel %s for %s", name, chip.name)
    lowered = pipeline.lower(func, chip, options=pipeline.Options(**options), keep_stages=env.VERIFY_PASSES.get(), measure=measure.cycles)
    written = written_buffers(lowered.ascend_ir)
    _check_outputs(func, out_idx, written)
    parts = [part for module in launches(split_launches(func)) for part in module.functions.values()]
    seen = [resolve_tensor_views(part) for part in parts]
    gaps = output_gaps(seen, {func.params[i].name for i in out_idx})
    source = codegen.emit(lowered.ascend_ir, pipeline.Options(**options).cann)
    artifact = Artifact(
        name=name,
        chip=chip.name,
        signature=read_signature(func, out_idx, written, seen),
        steps=describe_steps(lowered.ascend_ir),
        kernel_source=source.kernel,
        host_source=source.host,
        memory_map="\n\n".join(_headed(k, m.text(), len(lowered.memory_maps)) for k, m in enumerate(lowered.memory_maps)),
        options=options,
        notes=[*_hint_notes(func), *(_warning_text(g.span, g.text()) for g in gaps if g.sizes), *(str(n) for n in lowered.notes)],
        warnings=[
            *(_warning_text(span, message) for span, message in lowered.warnings),
            *(_warning_text(g.span, g.text()) for g in gaps if not g.sizes),
        ],
        tile_ir_json=tile_ir_json,
        ascend_ir_json=ir.save_json(lowered.ascend_ir),
    )
    for warning in artifact.warnings:
        get_logger().warning("%s", warning)
    if announce:
        get_logger().info("completes to compile kernel %s", name)
    if lowered.stages:
        artifact.tile_ir = func  # The stages have its variables: read back from its text, it would have others.
        _recent.append((artifact, lowered.stages))
    return artifact


def _check_outputs(func, out_idx: tuple[int, ...], written: frozenset[str]) -> None:
    """What a call allocates and returns has to be written by somebody, unless it has no elements."""
    from .. import ir

    for i in out_idx:
        name = str(func.params[i].name)
        empty = any(ir.const_int(n) == 0 for n in func.params[i].ty.shape)
        if name not in written and not empty:
            outputs = [f"{k} ('{p.name}')" for k, p in enumerate(func.params) if str(p.name) in written]
            raise InvalidKernel(
                f"out_idx names parameter {i}, '{name}', which the kernel does not write: a call would return memory nobody has set",
                at=func.span,
                hint=f"it writes parameter {', '.join(outputs)}" if outputs else "the kernel writes no parameter at all",
            )


def _hint_notes(func) -> list[str]:
    """One note that lists the performance hints the kernel gave."""
    hints = func.attrs.get("tl.hints") if func.attrs else None
    return [f"accepted without effect: {', '.join(str(h) for h in hints)}"] if hints else []


_recent: deque = deque(maxlen=4)
"""(artifact, its stages) of kernels built last, where the IR is checked after every pass: whoever does that looks at the stages next."""


def lower_stages(artifact: Artifact, times: dict[str, float] | None = None) -> list[tuple[str, Any]]:
    """(pass name, IR after it) for every pass a compiled kernel goes through; `times` is given the seconds each took."""
    from .. import arch
    from ..transform import pipeline

    kept = next((stages for recent, stages in _recent if recent is artifact), None)
    if kept is not None and times is None:
        return kept
    options = pipeline.Options(**artifact.options)
    return pipeline.lower(
        artifact.tile_ir, arch.get_chip(artifact.chip), options=options, keep_stages=True, times=times, measure=measure.cycles
    ).stages


def _headed(k: int, text: str, launches: int) -> str:
    """The memory map of launch `k`, with its number if there are several."""
    return text if launches == 1 else f"launch {k + 1}:\n{text}"


def written_buffers(ascend_ir) -> frozenset[str]:
    """Names of the parameters in global memory that some instruction of the program writes."""
    from .. import ir, isa

    names: set[str] = set()

    def see(statement) -> None:
        name = ir.op_name(statement)
        if name is None or not name.startswith("ascend."):
            return
        for operand, argument in zip(isa.lookup(name).operands, statement.value.args):
            head = ir.operand_parts(argument)
            if operand.writes and head is not None and head[0].source in params:
                names.add(head[0].source.name)

    for function in ascend_ir.functions.values():
        params = set(p for p in function.params if ir.is_buffer_var(p))
        ir.walk(function.body, see)
    return frozenset(names)
