# isa_table.h: opcodes and shapes, generated from the Python instruction table (tilelang_ascend/isa). The generator runs as
# a plain script and imports nothing but the standard library.
set(TLA_GENERATED_DIR "${CMAKE_BINARY_DIR}/generated")
set(TLA_ISA_TABLE "${TLA_GENERATED_DIR}/isa_table.h")
file(GLOB TLA_ISA_TABLE_INPUTS CONFIGURE_DEPENDS "${CMAKE_SOURCE_DIR}/tilelang_ascend/isa/*.py")

# The generator keeps the header's time stamp when the text is the same; the stamp file is what tracks the inputs.
add_custom_command(
  OUTPUT "${TLA_ISA_TABLE}.stamp"
  BYPRODUCTS "${TLA_ISA_TABLE}"
  COMMAND "${CMAKE_COMMAND}" -E make_directory "${TLA_GENERATED_DIR}"
  COMMAND "${Python_EXECUTABLE}" "${CMAKE_SOURCE_DIR}/tilelang_ascend/isa/gen_cpp.py" "${TLA_ISA_TABLE}"
  COMMAND "${CMAKE_COMMAND}" -E touch "${TLA_ISA_TABLE}.stamp"
  DEPENDS ${TLA_ISA_TABLE_INPUTS}
  COMMENT "Generating isa_table.h")
add_custom_target(tla_isa_table DEPENDS "${TLA_ISA_TABLE}.stamp")
