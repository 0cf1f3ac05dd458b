"""Scalar pipe: single elements of memory and the identity of the core."""

from __future__ import annotations

from .base import NO_OPERANDS, Arg, Intrinsic, Operand, Pipe, Space
from .dma import ELEMENT
from .footprints import element


def _query(name: str, api: str, doc: str) -> Intrinsic:
    return Intrinsic(
        name=name, pipe=Pipe.S, api=api, operands=(), args=(), text=f"static_cast<int32_t>(AscendC::{api}())", doc=doc,
        cost_class="scalar", returns="int32", signatures=NO_OPERANDS,
        reference=f"{api} (hardware section 3)",
    )  # fmt: skip


RECORDS = (
    Intrinsic(
        name="get_value",
        pipe=Pipe.S,
        api="GetValue",
        operands=(Operand("s", "in", (Space.GM, Space.UB, Space.L1), align_elements=1),),
        args=(),
        signatures=ELEMENT,
        text="{s}.GetValue(0)",
        cost_class="scalar_load",
        footprint_fn=element,
        returns="element",
        doc="Read one element into a scalar register. GM reads go through the data cache, which knows nothing of transfers.",
        reference="GetValue",
    ),
    Intrinsic(
        name="set_value",
        pipe=Pipe.S,
        api="SetValue",
        operands=(Operand("d", "out", (Space.GM, Space.UB, Space.L1), align_elements=1),),
        args=(Arg("value", "float", ctype="T"),),
        signatures=ELEMENT,
        text="{d}.SetValue(0, {value})",
        cost_class="scalar_store",
        footprint_fn=element,
        doc="Write one element. GM writes stay in the data cache until `data_cache_clean` writes all 64 bytes of the line back, also what others "
        "have written there since: compiled kernels store elements of GM by transfers.",
        reference="SetValue",
    ),
    Intrinsic(
        name="data_cache_clean",
        pipe=Pipe.S,
        api="DataCacheCleanAndInvalid",
        operands=(Operand("d", "in", (Space.GM,), align_elements=1),),
        args=(),
        signatures=ELEMENT,
        text="AscendC::DataCacheCleanAndInvalid<{d.ctype}, AscendC::CacheLine::SINGLE_CACHE_LINE, AscendC::DcciDst::CACHELINE_OUT>({d})",
        cost_class="scalar_store",
        footprint_fn=element,
        doc="Write the 64-byte cache line that holds the element back to GM and drop it from the data cache.",
        reference="DataCacheCleanAndInvalid",
    ),
    _query("get_block_idx", "GetBlockIdx", "Index of the core: 0..n-1; on the vector cores of a mix kernel 0..2n-1."),
    _query("get_sub_block_idx", "GetSubBlockIdx", "Index of a vector core within its block: 0 or 1; 0 on a cube core."),
    _query("get_block_num", "GetBlockNum", "Number of blocks of the launch."),
)
