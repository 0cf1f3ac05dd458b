"""Programs that come from a file can say no more than Ascend IR."""

import ascend_ir_samples as samples
import pytest

from tilelang_ascend import ir
from tilelang_ascend.errors import CompileError
from tilelang_ascend.ir import tirx
from tilelang_ascend.sim.lower import host_program

X = ir.Var("x", "int64")
LOCAL = ir.decl_buffer((1,), "int32", "n", scope="local.var")
GM = ir.decl_buffer((4,), "int32", "g")


def extern(name="system"):
    return tirx.call_extern("int32", name, "true")


FOREIGN = {
    "extern": ir.Evaluate(extern()),
    "our own symbol": ir.Evaluate(extern("tla_issue_1")),
    "pure extern": ir.Evaluate(tirx.call_pure_extern("int32", "system", "true")),
    "packed": ir.Evaluate(tirx.call_packed("runtime.ModuleLoadFromFile", "evil.so")),
    "unknown instruction": ir.Evaluate(ir.call("ascend.launch_missiles", [])),
    "in an index": [ir.AllocBuffer(LOCAL), ir.BufferStore(LOCAL, 1, [extern()])],
    "in a condition": ir.if_then(extern() == 0, ir.Evaluate(extern())),
    "in an extent": ir.loop(ir.Var("i", "int32"), extern(), ir.Evaluate(ir.imm(0))),
    "in a let": ir.Bind(ir.Var("y", "int32"), tirx.Let(X, tirx.Cast("int64", extern()), ir.imm(1))),
    "in a vector": ir.Bind(ir.Var("y", "int32x4"), tirx.Ramp(extern(), ir.imm(1), 4)),
    "outside of a variable": [ir.AllocBuffer(LOCAL), ir.BufferStore(LOCAL, 1, [ir.imm(1 << 20)])],
    "memory that is not the machine's": ir.BufferStore(GM, 1, [ir.imm(0)]),
}


@pytest.mark.parametrize("case", FOREIGN)
def test_it_is_refused(case):
    module = samples.collatz().module
    ((name, func),) = module.functions.items()
    host_program(module)
    with pytest.raises(CompileError, match="no instruction(.|\n)*hint: .*clear_cache"):
        host_program(ir.IRModule({name: func.with_body(ir.seq(FOREIGN[case], func.body))}))
