/* SPDX-License-Identifier: GPL-3.0-or-later */
/** This module makes a question of capacity from options, without a file. */
#ifndef SLIMSIM_CLI_CAPACITY_OPTIONS_H
#define SLIMSIM_CLI_CAPACITY_OPTIONS_H

#include "document/document.h"

/** Keys of a scenario that are options of their own. */
enum capacity_option {
    CAPACITY_MODEL,
    CAPACITY_LENGTHS,
    CAPACITY_CONTEXT,
    CAPACITY_BATCH,
    CAPACITY_TOKENS,
    CAPACITY_DAYS,
    CAPACITY_N_OPTIONS
};

/** The options that were given. {0}: none. */
struct capacity_options {
    const char *value[CAPACITY_N_OPTIONS]; /* NULL: not given */
    int32_t n_offers;
    const char **offers; /* "DEVICE@USD_PER_GPU_HOUR[:FROM-TO]" */
};

bool capacity_options_any(const struct capacity_options *options);

/**
 * Make the document. It assumes the rest: best-fit with a searched plan, eight iterations on the critical path, the
 * failures of Llama 3.
 * @return false with err, which names the options; the caller frees the document in any case
 */
bool capacity_options_document(const struct capacity_options *options, struct document *document, struct error *err);

#endif
