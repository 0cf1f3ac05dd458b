"""The smaller statements: `break`, `continue`, `with`, `try`, `assert`, `match`, `return`, and Python's short-circuit
operators.
"""

from __future__ import annotations

from typing import Callable

from ..errors import UnsupportedConstruct
from ..ir import Bind, Break, Continue, IfThenElse, dtype_of, substitute_expr, tirx
from . import operators
from .builder import Builder, Region, constant
from .containers import consume
from .operators import plain
from .output import emit_assert
from .values import LoopSpec, Restart, element, is_buffer, is_expr, is_region, reads_memory


def break_() -> bool:
    """``break``: True when the Python loop of the generated code has to be left."""
    return _leave("break", Break)


def continue_() -> int:
    """``continue``: 1 = Python ``continue``, 2 = leave the generated loop (the rest of the body is dead), 0 =
    neither.
    """
    left = _leave("continue", Continue)
    if not left:
        return 0
    return 2 if Builder.current().loops[-1].runtime else 1


def _leave(word: str, node) -> bool:
    builder = Builder.current(word)
    loop = builder.loops[-1]
    here = builder.region is loop.region
    if not loop.runtime:
        if not here and loop.runtime_key is not None:
            builder.facts[loop.runtime_key] = True  # trace again with a run-time loop, which can be left at run time
            raise Restart
        if not here:
            raise UnsupportedConstruct(
                f"`{word}` under a run-time condition inside a loop that is unrolled at compile time",
                notes=[("the loop is here", loop.where)],
                hint="loop with T.serial(n), or guard the rest of the body with `if`",
            )
        return True
    if loop.kind == "parallel":
        raise UnsupportedConstruct(f"`{word}` inside T.Parallel", hint="guard the body with `if`, or use T.serial")
    if builder.cleanups and builder.cleanups[-1] >= len(builder.loops):
        raise UnsupportedConstruct(f"`{word}` out of a `try` with a `finally`", hint="write what `finally` does in front of it")
    if word == "break":
        check_break(loop)
    builder.emit(node(span=builder.span()))
    return here


def check_break(loop) -> None:
    """Refuse to leave one `for` statement that is several loops: Python would leave all of them, GPUs leave the innermost one."""
    if loop.runtime and loop.kind == "serial" and len(loop.vars) > 1:
        raise UnsupportedConstruct(
            f"`break` in a loop over {len(loop.vars)} dimensions: it may mean the innermost of them, or all",
            notes=[("the loop is here", loop.where)],
            hint="write one `for` statement for each dimension",
        )


def with_(context, names: tuple, kind: str):
    """``with context as target``: a launch learns the names of its block indices."""
    enter = getattr(context, "named", None)
    if enter is not None:
        return enter(names, kind)
    if not hasattr(context, "__enter__"):
        raise UnsupportedConstruct(f"`with` on {context!r}", hint="T.Kernel(...) is the only block of a kernel")
    return context


def depth(cleanup: bool):
    """Where the builder is, for `unwind` and `finally_`: in front of a `try`, which has a `finally` if `cleanup`."""
    builder = Builder.active()
    if builder is None:
        return None
    mark = (builder.region, len(builder.loops), len(builder.pending), len(builder.function_regions), len(builder.cleanups))
    if cleanup:
        builder.cleanups.append(len(builder.loops))
    return mark


def finally_(mark) -> None:
    """The statements of a `finally` follow."""
    if mark is not None:
        del Builder.current().cleanups[mark[4] :]


def unwind(mark) -> None:
    """Drop the regions an exception caught by the user's `try` left open."""
    if mark is not None:
        builder = Builder.current()
        builder.region = mark[0]
        del builder.loops[mark[1] :], builder.pending[mark[2] :], builder.function_regions[mark[3] :]


def assert_(condition, message: Callable) -> None:
    """``assert``: immediate for Python values, checked on the device otherwise."""
    condition = operators.as_bool(condition)
    known = constant(condition) if is_expr(condition) else bool(condition)
    if known is None:
        builder = Builder.current("assert")
        emit_assert(builder, condition, str(message() or ""))
    elif not known:
        raise AssertionError(*(() if (text := message()) is None else (text,)))


def match_subject(value):
    """``match value:`` works on values known at compile time."""
    value = plain(value)
    if is_expr(value):
        known = constant(value)
        if known is None:
            raise UnsupportedConstruct("`match` on a value known only when the kernel runs", hint="write if / elif / else")
        return known
    return value


def ret(value):
    """``return value``."""
    builder = Builder.active()
    if builder is not None and builder.function_regions and builder.region is not builder.function_regions[-1]:
        _unroll_loop_around(builder, builder.function_regions[-1])
        raise UnsupportedConstruct(
            "`return` inside run-time control flow",
            notes=[("the enclosing block starts here", builder.region.where)],
            hint="assign the result to a name and return it at the end of the function",
        )
    return plain(value)


def _unroll_loop_around(builder: Builder, outer: Region) -> None:
    """Trace again with the innermost loop over a constant range inside of `outer` unrolled: conditions on its variable are Python's then."""
    region = builder.region
    while region is not None and region is not outer:
        for loop in builder.loops:
            if loop.region is region and loop.unroll_key is not None and loop.unroll_key not in builder.facts:
                builder.facts[loop.unroll_key] = True
                raise Restart
        region = region.parent


def boolop(op: str, first, *rest: Callable):
    """``a and b`` / ``a or b``, which is one of both; the right sides are evaluated only if Python would."""
    return _short_circuit(op, first, rest, _one_of)


def conditions(op: str, first, *rest: Callable):
    """The same where only the truth of the result counts."""
    return _short_circuit(op, first, rest, _logical)


def _short_circuit(op: str, first, rest, second: Callable):
    """`second` combines a value known only when the kernel runs with what follows it."""
    result = plain(first)
    for thunk in rest:
        if not is_expr(result) or constant(result) is not None:
            value = constant(result) if is_expr(result) else result
            if bool(value) == (op == "Or"):
                return value
            result = plain(thunk())
        else:
            result = second(op, result, *_part(thunk))
    return result


def _one_of(op: str, first, second, part: Region):
    """``first and second`` / ``first or second`` for a `first` known only when the kernel runs: conditions, or the number Python would take."""
    if _is_condition(first) and _is_condition(second):
        return _logical(op, first, second, part)
    sides = [(second, part), (first, _nothing(part))]
    return _selected(operators.as_bool(first), *(sides if op == "And" else reversed(sides)))


def _is_condition(value) -> bool:
    return isinstance(value, bool) or is_expr(value) and dtype_of(value) == "bool"


def _logical(op: str, first, second, part: Region):
    """The condition that both hold, or one of them."""
    if _has_no_effects(part):
        return (operators.logical_and if op == "And" else operators.logical_or)(first, _without_names(second, part))
    known = (tirx.const(op == "Or", "bool"), _nothing(part))
    sides = ((second, part), known) if op == "And" else (known, (second, part))
    return _chosen(operators.as_bool(first), *((operators.as_bool(v), p) for v, p in sides))


def _nothing(part: Region) -> Region:
    """A part without statements in the place of `part`."""
    return Region("branch", part.parent, part.where)


def _part(thunk: Callable) -> tuple:
    """(value, region) of a part of an expression that may not be evaluated: its statements are not emitted yet."""
    builder = Builder.current()
    region = builder.push("branch")
    region.is_part = True
    value = plain(thunk())
    builder.pop(region)
    return value, region


def _has_no_effects(part: Region) -> bool:
    return all(isinstance(s, Bind) for s in part.stmts)


def _without_names(value, part: Region):
    """`value` of a part without effects. Names in it that read memory, which the part may have to guard, are replaced by what they
    hold; the others are bound in front of the expression.
    """
    held: dict = {}
    for s in part.stmts:
        e = substitute_expr(s.value, held)
        if reads_memory(e):
            held[s.var] = e
        else:
            Builder.current().emit(s if e.same_as(s.value) else Bind(s.var, e, span=s.span))
    return substitute_expr(value, held) if held and is_expr(value) else value


def _chosen(condition, then: tuple, other: tuple):
    """The value of one of two parts of which at least one has effects, as an `if` statement that sets a variable."""
    builder = Builder.current()
    values = operators.match(then[0], other[0])
    buffer = builder.alloc((1,), dtype_of(values[0]), "local.var", builder.unique("chosen"))
    builder.evaluations.use(condition)
    bodies = []
    for value, (_, part) in zip(values, (then, other)):
        region = builder.push("branch", part.where)
        region.stmts += part.stmts
        builder.store(buffer, value, [0])
        bodies.append(builder.pop(region))
    builder.emit(IfThenElse(condition, *bodies, span=builder.span()))
    return element(buffer, [0])


def ifexp(condition, then: Callable, other: Callable):
    """``then if condition else other``."""
    condition = operators.as_bool(condition)
    known = constant(condition) if is_expr(condition) else bool(condition)
    if known is not None:
        return then() if known else other()
    return _selected(condition, _part(then), _part(other))


def _selected(condition, *sides: tuple):
    """The value of one of two parts."""
    if all(_has_no_effects(part) for _, part in sides):
        return operators.select(condition, *(_without_names(value, part) for value, part in sides))
    return _chosen(condition, *sides)


def truth(condition):
    """The filter of a comprehension."""
    condition = operators.as_bool(condition)
    if is_expr(condition):
        known = constant(condition)
        if known is None:
            raise UnsupportedConstruct("a comprehension filtered by a value known only when the kernel runs")
        return known
    return condition


def iterable(value):
    """What a comprehension or an unpacking iterates over: Python objects only."""
    value = plain(value)
    if isinstance(value, LoopSpec) or is_expr(value) or is_buffer(value) or is_region(value):
        raise UnsupportedConstruct(
            "a comprehension over values known only when the kernel runs"
            if isinstance(value, LoopSpec)
            else f"'{value}' cannot be iterated over",
            hint="use a `for` statement with T.serial(n) or T.Parallel(n)",
        )
    consume(value)
    return value
