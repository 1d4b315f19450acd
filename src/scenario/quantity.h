/* SPDX-License-Identifier: GPL-3.0-or-later */
/** This module parses numbers with units as users write them: 80GiB, 400Gbps, 2us, 256Ki, 989.4TFLOPS. */
#ifndef SLIMSIM_SCENARIO_QUANTITY_H
#define SLIMSIM_SCENARIO_QUANTITY_H

#include <stdbool.h>

/**
 * Parse a number with an optional SI or IEC prefix and a unit that fits `unit`:
 * - "bytes": B
 * - "bytes/s": B/s, bps = bits/s
 * - "s": s, ms, us, ns
 * - "tokens" and "-": prefixes only
 * - "flop/s": FLOPS
 *
 * The whole text must be used. NaN and infinity are refused.
 */
bool quantity_parse(const char *text, const char *unit, double *value);

#endif
