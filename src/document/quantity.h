/* SPDX-License-Identifier: GPL-3.0-or-later */
/** This module parses numbers with units as users write them: 80GiB, 400Gbps, 2us, 256Ki, 989.4TFLOPS. */
#ifndef SLIMSIM_DOCUMENT_QUANTITY_H
#define SLIMSIM_DOCUMENT_QUANTITY_H

#include <stdbool.h>

/* The least bandwidth of a key [bytes/s]; 400 usually means Gbit/s. */
#define QUANTITY_LEAST_BANDWIDTH 1e6

/* Forms of a bandwidth, for messages. */
#define QUANTITY_BANDWIDTHS                                                                                            \
    "400Gbps = 400Gb/s = 400Gbit/s, 50GBps = 50GB/s or 46GiB/s, also with k, M or T, or bytes/s such as 5e10"

/**
 * Parse a number with an optional SI or IEC prefix and a unit that fits `unit`:
 * - "bytes": B
 * - "bytes/s": B/s = Bps; bits: bps = b/s = bit/s. A prefix needs one of them, since 400G usually means Gbit/s.
 * - "s": s, ms, us, ns; min, h, d
 * - "tokens" and "-": prefixes only; "-" also has % and :1, so 95% is 0.95 and 4:1 is 4
 * - any unit but "s": its own name, too: 1.5T tokens, 30 days (30d)
 * - "flop/s": FLOPS
 *
 * The whole text must be used. NaN and infinity are refused.
 */
bool quantity_parse(const char *text, const char *unit, double *value);

#endif
