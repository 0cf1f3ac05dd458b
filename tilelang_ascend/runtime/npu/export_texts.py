"""Texts of an exported folder, with the fields `export` fills in."""

LOAD = """

op = load(Path(__file__).resolve().parent)
"""
"""End of ``NAME_op.py`` in an exported folder."""

HEADER = """\
/*!
 * \\file {name}_kernel.h
 * \\brief Kernel {title} for {chip}. Made by tilelang_ascend.
 */
#ifndef {guard}
#define {guard}

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {{
#endif

/*! \\brief Bytes of device memory a launch needs as its workspace; where it is 0, the workspace may be NULL. */
uint64_t {name}_workspace_bytes(void);

/*!
 * \\brief Queues the kernel, on {blocks} blocks, and returns before it has finished. Returns 0, or another number when no launch is possible{refusals}.
 *
 * Tensors are addresses of device memory, row-major unless strides are given; those that are written share no memory with others.
{lines}
 *   workspace: device memory nobody else uses before the kernel has finished
 *   stream: an aclrtStream of the device that is set
 */
{launch};

#ifdef __cplusplus
}}
#endif

#endif  // {guard}
"""

REFUSALS = ": {code} where rows of a tensor are 2^31 bytes apart or more, and what says how far is an int32"

CMAKE = """\
# Builds lib{name}_kernel.so: kernel {title} for {chip}, with the C functions of {name}_kernel.h. Made by tilelang_ascend.
#
#   cmake -S . -B build && cmake --build build        (source set_env.sh of CANN first)
#
# In a larger project: add_subdirectory(this folder), then target_link_libraries(... {name}_kernel).
cmake_minimum_required(VERSION 3.18)
project({name}_library NONE)
list(PREPEND CMAKE_MODULE_PATH "${{CMAKE_CURRENT_SOURCE_DIR}}/cmake")
find_package(CANN 8.0 REQUIRED)

string(REGEX MATCH "^[0-9]+" major "${{CANN_VERSION}}")
if(major AND major LESS 9)
  {options_8}
  list(APPEND options {includes})
else()
  {options_9}
endif()
set(folders "")
foreach(path ${{CANN_LIBRARIES}})
  get_filename_component(folder "${{path}}" DIRECTORY)
  list(APPEND folders "-L${{folder}}" "-Wl,-rpath,${{folder}}")
endforeach()
list(REMOVE_DUPLICATES folders)

# One unit: the launcher starts the kernels. -Bsymbolic: other kernels in the process have a function `call`, too.
set(source "${{CMAKE_CURRENT_SOURCE_DIR}}")
set(unit "${{CMAKE_CURRENT_BINARY_DIR}}/{name}_kernel.cpp")
set(library "${{CMAKE_CURRENT_BINARY_DIR}}/lib{name}_kernel.so")
add_custom_command(
  OUTPUT "${{unit}}"
  COMMAND "${{CMAKE_COMMAND}}" -E cat "${{source}}/kernel.cpp" "${{source}}/launcher.cpp" > "${{unit}}"
  DEPENDS kernel.cpp launcher.cpp VERBATIM)
add_custom_command(
  OUTPUT "${{library}}"
  COMMAND "${{CANN_COMPILER}}" ${{options}} "${{unit}}" -o "${{library}}" ${{folders}} -lruntime -lascendcl -Wl,-Bsymbolic "-Wl,-soname,lib{name}_kernel.so"
  DEPENDS "${{unit}}" VERBATIM)
add_custom_target({name}_built ALL DEPENDS "${{library}}")

add_library({name}_kernel SHARED IMPORTED GLOBAL)
set_target_properties({name}_kernel PROPERTIES IMPORTED_LOCATION "${{library}}" INTERFACE_INCLUDE_DIRECTORIES "${{source}}")
add_dependencies({name}_kernel {name}_built)

install(FILES "${{library}}" DESTINATION lib)
install(FILES {name}_kernel.h DESTINATION include)
"""

SILENT = """

The kernel prints nothing: `-DTILELANG_ASCEND_SILENT` takes its output out, because the launcher gives it no memory to print to."""
"""What is said of a kernel that would print."""

README = """\
# {title}

A kernel compiled to Ascend C for {chip} by tilelang_ascend, which is not needed to build or to run it.

| parameter | |
|---|---|
{parameters}

## Build

With `set_env.sh` of CANN sourced:

```sh
cmake -S . -B build && cmake --build build
```

This makes `build/lib{name}_kernel.so`. The chip must have at least as many cores as `{name}_kernel.h` says blocks.{silent}

## Use from C and C++

[{name}_kernel.h](./{name}_kernel.h) declares `{name}_launch`, which queues the kernel on a stream of ACL, and the size of the workspace it takes.
In a CMake project: `add_subdirectory({folder})` and `target_link_libraries(... {name}_kernel)`.

## Use from torch

`{name}_op.py` needs torch, and torch_npu for tensors on the NPU, which are used in place on its current stream; those of the host are copied.

```python
import sys, torch

sys.path.insert(0, "{folder}")
import {name}_op

{name}_op.op({call})  # or torch.ops.{path}, also under torch.compile
```
"""
