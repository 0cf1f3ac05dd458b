# Finds CANN by the environment its set_env.sh leaves.
#
#   find_package(CANN 8.0)
#
# CANN_FOUND, CANN_HOME (ASCEND_HOME_PATH), CANN_VERSION, CANN_COMPILER (bisheng),
# CANN_LIBRARIES (libascendcl, libruntime) and the target CANN::ascendcl.
# Where a release states its version has changed; the places here are those of tilelang_ascend/runtime/npu/cann.py.

set(CANN_HOME "$ENV{ASCEND_HOME_PATH}")
if(NOT CANN_HOME)
  set(CANN_HOME "$ENV{ASCEND_TOOLKIT_HOME}")
endif()

set(CANN_VERSION "")
if(CANN_HOME)
  file(GLOB _cann_folders "${CANN_HOME}/*-linux")
  foreach(_cann_name version.cfg version.info compiler/version.info runtime/version.info opp/version.info ascend_toolkit_install.info)
    foreach(_cann_folder "${CANN_HOME}" ${_cann_folders})
      if(NOT CANN_VERSION AND EXISTS "${_cann_folder}/${_cann_name}")
        file(STRINGS "${_cann_folder}/${_cann_name}" _cann_line REGEX "^[ \t]*([A-Za-z_]*_)?[Vv]ersion[ \t]*=" LIMIT_COUNT 1)
        string(REGEX MATCH "=[ \t]*\\[?([A-Za-z0-9_.]*:)?([0-9][A-Za-z0-9_.-]*)" _cann_match "${_cann_line}")
        set(CANN_VERSION "${CMAKE_MATCH_2}")
      endif()
    endforeach()
  endforeach()
  find_program(CANN_COMPILER bisheng HINTS "${CANN_HOME}/bin" "${CANN_HOME}/compiler/ccec_compiler/bin")
  find_library(CANN_ASCENDCL_LIBRARY ascendcl PATHS "${CANN_HOME}/lib64" "${CANN_HOME}/runtime/lib64" NO_DEFAULT_PATH)
  find_library(CANN_RUNTIME_LIBRARY runtime PATHS "${CANN_HOME}/lib64" "${CANN_HOME}/runtime/lib64" NO_DEFAULT_PATH)
endif()
set(CANN_LIBRARIES ${CANN_ASCENDCL_LIBRARY} ${CANN_RUNTIME_LIBRARY})

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(
  CANN
  REQUIRED_VARS CANN_HOME CANN_COMPILER CANN_ASCENDCL_LIBRARY CANN_RUNTIME_LIBRARY
  VERSION_VAR CANN_VERSION
  REASON_FAILURE_MESSAGE "source set_env.sh of the CANN toolkit, which sets ASCEND_HOME_PATH"
)

if(CANN_FOUND AND NOT TARGET CANN::ascendcl)
  add_library(CANN::ascendcl INTERFACE IMPORTED)
  set_target_properties(
    CANN::ascendcl PROPERTIES INTERFACE_INCLUDE_DIRECTORIES "${CANN_HOME}/include" INTERFACE_LINK_LIBRARIES "${CANN_LIBRARIES}"
  )
endif()
mark_as_advanced(CANN_COMPILER CANN_ASCENDCL_LIBRARY CANN_RUNTIME_LIBRARY)
