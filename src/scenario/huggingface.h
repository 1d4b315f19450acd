/* SPDX-License-Identifier: GPL-3.0-or-later */
/**
 * This module reads a model from a configuration of Hugging Face's transformers (config.json).
 *
 * 1. model/huggingface.yaml says what types of models have, and what names their keys have in configurations. A
 *    configuration without a type has that of its architecture.
 * 2. The configuration is `text_config:` if there is one. A key that it lacks is taken from around it.
 * 3. The keys of model/llm are those of the type, then those of the configuration, then those of the type's rules that
 *    hold. If only a multiple of the model's width is known of the feed-forward block, the type says which.
 * 4. Layers have a window if the configuration says so: those of `layer_types`, otherwise those from
 *    `max_window_layers` on, of which every `sliding_window_pattern`-th has none.
 * 5. A type says which layers have experts, by their places or by lists. Layers that differ in window or experts become
 *    kinds, with the least pattern that repeats.
 * 6. A key that would change times or memory by over a percent is an error. Others that are left out are said, as are
 *    keys that are not known.
 */
#ifndef SLIMSIM_SCENARIO_HUGGINGFACE_H
#define SLIMSIM_SCENARIO_HUGGINGFACE_H

#include "base/error.h"

/** A translated configuration. */
struct huggingface {
    char *text; /* of a model's file, as model/llm has them */
    char *said; /* what is left out, a sentence a line; "": nothing is */
};

/**
 * Translate a configuration. @return false with errors that name the file and the key; the caller frees in any case
 */
bool huggingface_read(const char *data_dir, const char *path, struct huggingface *model, struct error *err);

void huggingface_free(struct huggingface *model);

#endif
