/* SPDX-License-Identifier: GPL-3.0-or-later */
/** A choice among the candidates of ranks that choose together (slimpack_choose says which there are and who wins). */
#ifndef SLIMSIM_SYSTEM_SLIMPACK_CANDIDATES_H
#define SLIMSIM_SYSTEM_SLIMPACK_CANDIDATES_H

#include "packing/memory_fit.h"
#include "system/slimpack.h"

enum { SLIMPACK_N_FACTORS = 14, SLIMPACK_N_POLICIES = SLIMPACK_NONE };

/* Asymmetric or not; sliced, sliced and even, or not. */
enum { SLIMPACK_MAX_CANDIDATES = SLIMPACK_N_FACTORS * 2 * 3 * SLIMPACK_N_POLICIES };

/** One way to run a part, and the least it can take. */
struct slimpack_candidate {
    struct slimpack_shape shape;
    enum slimpack_injection policy;
    double bound_s, bound_bytes;
    double alone_s; /* lower_bound_s; 0: not known */
    int32_t index;  /* as listed */
};

/** What a candidate comes to. */
struct slimpack_outcome {
    struct memory_fit_outcome is;
    int32_t index; /* of the candidate */
    bool refined;  /* by packer milp */
};

/** A part that takes longer or needs more is of no use. INFINITY: none is. */
struct slimpack_limit {
    double makespan_s, peak_bytes;
};

/** A part's candidates and the choice among them so far. */
struct slimpack_choice {
    struct slimpack_part part;
    const struct slimpack_part *heaviest; /* of the part, what a candidate is tried on first; NULL: nothing */
    struct memory_fit_outcome enough;     /* another part comes to it: to be better is of no use */
    struct slimpack_limit limit;
    bool even_host;                   /* as memory_fit_rule's */
    double hint_s;                    /* while a hint is tried: it waits if its steps alone end later; else 0 */
    bool hint_waits;                  /* it does */
    struct plan ready;                /* of the candidate that is tried next; or none */
    struct memory_fit_arrays *arrays; /* kept from candidate to candidate */
    int32_t n_candidates;
    struct slimpack_candidate candidates[SLIMPACK_MAX_CANDIDATES];
    int64_t n_resolved;
    struct slimpack_outcome best;        /* of n_resolved > 0 */
    struct slimpack_candidate candidate; /* the best */
    struct plan plan;                    /* of the best: one phase */
};

/** Fits where the other does not; needs less where neither does; is faster; was listed earlier. */
bool slimpack_is_better(const struct slimpack_outcome *a, const struct slimpack_outcome *b, double memory_bytes);

/** The best is enough. */
bool slimpack_is_enough(const struct slimpack_choice *choice);

/**
 * The best of all candidates, or the first that is enough. Nothing is resolved if all bounds exceed the limit.
 *
 * @param hint  what another part chose, tried first; NULL: nothing
 */
bool slimpack_find(struct slimpack_choice *choice, const struct slimpack_candidate *hint, struct error *err);

/** Of the candidates with all parts that the knobs allow, no more units than `own` and less uneven ones, the least
 * uneven one that is enough; none: the best is not enough, or nothing was resolved. */
bool slimpack_find_even(struct slimpack_choice *choice, const struct slimpack_candidate *own, struct error *err);

/** With packer milp, cut the best anew, and keep that where it is better. */
bool slimpack_refine(struct slimpack_choice *choice, struct fill_search *search, struct error *err);

#endif
