"""Ascend IR -> Ascend C: the text of the kernel and of its host launcher.

>>> source = codegen.emit(ascend_ir)      # AscendSource(kernel, host)
>>> source.text                           # the translation unit bisheng compiles
"""

from .emit import AscendSource, emit

__all__ = ["AscendSource", "emit"]
