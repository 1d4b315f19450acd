/* SPDX-License-Identifier: GPL-3.0-or-later */
/** Live bytes of every place over time (SlimPack section 4.3.3). */
#ifndef SLIMSIM_BOUNDS_MEMORY_H
#define SLIMSIM_BOUNDS_MEMORY_H

#include "bounds/critical_path.h"

enum memory_class {
    MEMORY_STATES,       /* weights, gradients, optimizer */
    MEMORY_ACTIVATIONS,  /* from forward to backward, without keys and values of sliced samples under full recompute */
    MEMORY_KV,           /* keys and values kept for later slices (full recompute; else part of activations) */
    MEMORY_KV_GRADIENTS, /* of the prefix, while a sliced sample's backward is open */
    MEMORY_WORKSPACE,    /* of the layer in work, logits */
    MEMORY_N_CLASSES
};

extern const char *const memory_class_name[MEMORY_N_CLASSES];

/** Live bytes by class from `time_s` on. */
struct memory_event {
    double time_s;
    int32_t place;
    double bytes[MEMORY_N_CLASSES];
};

struct memory {
    int32_t n_places;
    double *peak_bytes;                  /* [n_places] largest sum over classes */
    double (*at_peak)[MEMORY_N_CLASSES]; /* the classes at that moment */
    int32_t worst_place;                 /* of the largest peak; ties: lowest index */
    int64_t n_events;                    /* only with want_events */
    struct memory_event *events;
};

/**
 * Activations of a unit are allocated when its forward starts and freed when the backward that consumes their tokens
 * ends (asymmetric cuts: token by token). Key and value gradients of a sample's prefix are allocated when its first
 * backward slice starts.
 */
void memory_of(const struct plan *plan, const struct dag *dag, const struct timeline *timeline,
               const struct cost_setting *setting, bool want_events, struct memory *memory);

void memory_free(struct memory *memory);

#endif
