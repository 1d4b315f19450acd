/* SPDX-License-Identifier: GPL-3.0-or-later */
/** This file names the number formats of training. */
#ifndef SLIMSIM_SCENARIO_PRECISION_H
#define SLIMSIM_SCENARIO_PRECISION_H

/** Number formats. A device has a peak and a GEMM curve for each of the first PRECISION_N_GEMM. */
enum precision { PRECISION_BF16, PRECISION_N_GEMM, PRECISION_FP32 = PRECISION_N_GEMM, N_PRECISIONS };

/** Return the bytes of an element. */
static inline double precision_bytes(enum precision precision)
{
    return precision == PRECISION_BF16 ? 2 : 4;
}

#endif
