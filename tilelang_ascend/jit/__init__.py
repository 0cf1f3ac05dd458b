"""Compiling kernels: the `jit` decorator, `compile`, `par_compile`, `lower`. Importing it does not load tvm."""

from ..rpc.executor import RpcExecutor
from ..runtime.executors import register_executor
from .compile import CompiledArtifact, compile, lower, par_compile
from .decorator import JITImpl, JITKernel, jit
from .pass_config import PassConfigKey

register_executor(RpcExecutor())

__all__ = ["CompiledArtifact", "JITImpl", "JITKernel", "PassConfigKey", "compile", "jit", "lower", "par_compile"]
