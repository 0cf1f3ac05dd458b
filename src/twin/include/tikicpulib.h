/*!
 * \file tikicpulib.h
 * \brief What builds for the CPU include to launch kernels; here it comes with the kernel's own header.
 */
#ifndef TILELANG_ASCEND_TWIN_TIKICPULIB_H_
#define TILELANG_ASCEND_TWIN_TIKICPULIB_H_

#include "kernel_operator.h"

#endif  // TILELANG_ASCEND_TWIN_TIKICPULIB_H_
