/* SPDX-License-Identifier: GPL-3.0-or-later */
/** The curves of a device as least-squares problems: which rows, which unknowns, which form. */
#ifndef SLIMSIM_VALIDATE_FAMILIES_H
#define SLIMSIM_VALIDATE_FAMILIES_H

#include "validate/fit.h"
#include "validate/sample.h"

enum { FAMILY_MAX_UNKNOWNS = 10, FAMILY_MAX_RANGES = 3 };

/** Unknowns that belong to the measurement, not to the device. */
enum family_beside {
    FAMILY_HOST_S,   /* of kernels timed by events around the call: what that adds [s] */
    FAMILY_UNMASKED, /* of attention: a tile's work besides its products without a causal mask, as a share of that with
                      * one, which leaves half of the tiles on the diagonal unused */
    FAMILY_RELEASE,  /* of samples that are other_release: their time as a multiple of the others' */
    FAMILY_PLATEAU,  /* of messages over a NIC of unknown kind: their own efficiency */
    FAMILY_N_BESIDE
};

/** An unknown: a double of struct device, or (offset >= FAMILY_BESIDE) one beside it. max 0: it is `start`. */
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
    int32_t kind; /* of memory-bound kernels and of collectives; of attention: kernel x N_PASSES + pass */
    int32_t n_unknowns, n_ranges;
    struct family_unknown unknowns[FAMILY_MAX_UNKNOWNS];
    size_t ranges[FAMILY_MAX_RANGES]; /* of struct device_range, in the order of a sample's spans */
};

extern const struct family families[];
extern const int32_t n_families;

/** Whether its samples are of attention. */
bool family_is_attention(const struct family *family);

#endif
