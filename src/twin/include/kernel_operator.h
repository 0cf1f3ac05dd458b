/*!
 * \file kernel_operator.h
 * \brief Host twin of the Ascend C kernel header: the same names, issuing into the machine model.
 *
 * These headers restate names and signatures of the public Ascend C API so that kernels compile with a host compiler.
 * They contain none of its code. Every API call becomes one record of the instruction stream (docs/ir.md section 4).
 */
#ifndef TILELANG_ASCEND_TWIN_KERNEL_OPERATOR_H_
#define TILELANG_ASCEND_TWIN_KERNEL_OPERATOR_H_

#include "twin/convert.h"
#include "twin/cube.h"
#include "twin/launch.h"
#include "twin/output.h"
#include "twin/shuffle.h"
#include "twin/vector.h"

#endif  // TILELANG_ASCEND_TWIN_KERNEL_OPERATOR_H_
