/* SPDX-License-Identifier: GPL-3.0-or-later */
/** This file names the number formats of training. */
#ifndef SLIMSIM_SCENARIO_PRECISION_H
#define SLIMSIM_SCENARIO_PRECISION_H

/**
 * Number formats of GEMMs. A device has a peak and a curve for each of the first PRECISION_N_GEMM.
 * - bf16: both operands have 2 bytes
 * - fp8-tensor: 1 byte, and a scale for a whole tensor
 * - fp8-block: 1 byte, and a scale for 1 x 128 activations and 128 x 128 weights
 * - mxfp8: 1 byte, and a scale for 1 x 32
 */
enum precision {
    PRECISION_BF16,
    PRECISION_FP8_TENSOR,
    PRECISION_FP8_BLOCK,
    PRECISION_MXFP8,
    PRECISION_N_GEMM,
    PRECISION_FP32 = PRECISION_N_GEMM,
    N_PRECISIONS
};
#define PRECISION_NAMES "bf16|fp8-tensor|fp8-block|mxfp8"

/** Return the bytes of an element, without scales. */
static inline double precision_bytes(enum precision precision)
{
    return precision == PRECISION_FP32 ? 4 : precision == PRECISION_BF16 ? 2 : 1;
}

#endif
