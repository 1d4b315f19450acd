/* SPDX-License-Identifier: GPL-3.0-or-later */
/** This module states the curves of a device as least-squares problems: their rows, unknowns and formulas. */
#ifndef SLIMSIM_VALIDATE_FAMILIES_H
#define SLIMSIM_VALIDATE_FAMILIES_H

#include "validate/fit.h"
#include "validate/sample.h"

enum { FAMILY_MAX_UNKNOWNS = 10, FAMILY_MAX_RANGES = 3 };

/** Unknowns that belong to the measurement instead of the device. */
enum family_beside {
    FAMILY_HOST_S,   /* time that events around the call add to a kernel [s] */
    FAMILY_UNMASKED, /* attention: a tile's work besides its products without a causal mask, as a share of that work
                        with a mask. A mask leaves half of the tiles on the diagonal unused */
    FAMILY_RELEASE,  /* time of samples with other_release, as a multiple of the others' time */
    FAMILY_PLATEAU,  /* efficiency of messages over a NIC of unknown kind */
    FAMILY_N_BESIDE
};

/** An unknown: a double of struct device, or one of enum family_beside (offset >= FAMILY_BESIDE). With max 0 it is
 * fixed at `start`. */
struct family_unknown {
    size_t offset;
    struct fit_parameter parameter;
};

#define FAMILY_BESIDE (SIZE_MAX - FAMILY_N_BESIDE)

struct family {
    const char *name, *note;
    void (*select)(const struct family *family, const struct sample_source *source, struct samples *samples);
    double (*seconds)(const struct family *family, const struct device *device, const struct sample *sample,
                      const double *beside);
    int32_t kind; /* kind of memory-bound kernels and of collectives; attention: kernel x N_PASSES + pass */
    int32_t n_unknowns, n_ranges;
    struct family_unknown unknowns[FAMILY_MAX_UNKNOWNS];
    size_t ranges[FAMILY_MAX_RANGES]; /* offsets of struct device_range, in the order of a sample's spans */
};

extern const struct family families[];
extern const int32_t n_families;

/** Return whether the family's samples are attention. */
bool family_is_attention(const struct family *family);

/** Return whether the family's samples are GEMMs. */
bool family_is_gemm(const struct family *family);

/** Return whether devices need not have the curve: GEMMs of fewer than 16 bits. */
bool family_is_optional(const struct family *family);

#endif
