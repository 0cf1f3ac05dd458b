"""meet_cores: the two vector cores of a block meet before both read what the first one has stored.

Before (AIV): if sub_block == 0: copy_ub_to_gm(place, …)
              data_cache_clean(place); x = get_value(place)
After:        if sub_block == 0: copy_ub_to_gm(place, …)
              pipe_barrier {pipe: ALL}; cross_core_set_flag {mode: 1, pipe: MTE3}; cross_core_wait_flag
              data_cache_clean(place); x = get_value(place)

`insert_sync` knows one vector core. The flag is one it has left alone; each vector core raises it behind its stores and reads, and holds until
both have.

Requires: the module made by split_cores; `ascend.met_places` has the numbers of the places among the workspaces. Ensures: reads of the
places that `split_rows` says both vector cores read are ordered behind the stores.
"""

from __future__ import annotations

from ...ir import Evaluate, IRModule, StmtMutator, imm, intrin, op_name, operand_parts
from ...ir.functions import split_params


class _Meet(StmtMutator):
    def __init__(self, places: set, flag: int):
        self.places, self.flag = places, imm(flag)

    def visit_Evaluate(self, s: Evaluate):
        if op_name(s.value) != "ascend.data_cache_clean" or operand_parts(s.value.args[0])[0].source not in self.places:
            return s
        meet = [
            intrin("pipe_barrier", pipe="ALL", span=s.span),
            intrin("cross_core_set_flag", self.flag, mode="1", pipe="MTE3", span=s.span),
            intrin("cross_core_wait_flag", self.flag, span=s.span),
        ]
        return [*meet, s]


def meet_cores(module: IRModule) -> IRModule:
    """Apply to the module made by split_cores."""
    functions = {}
    for gv, func in module.functions.items():
        if "ascend.met_places" in func.attrs:
            workspaces = split_params(func)[2]
            places, flag = {workspaces[int(n)] for n in func.attrs["ascend.met_places"]}, int(func.attrs["ascend.meeting_flag"])
            body = _Meet(places, flag)(func.body) if str(func.attrs["ascend.core"]) == "aiv" else func.body
            func = func.with_body(body).without_attr("ascend.met_places").without_attr("ascend.meeting_flag")
        functions[gv] = func
    return IRModule(functions)


__all__ = ["meet_cores"]
