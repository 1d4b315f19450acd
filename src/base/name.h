/* SPDX-License-Identifier: GPL-3.0-or-later */
/** This module compares names of models, devices and files as people write them: Qwen/Qwen3-8B for qwen3-8b. */
#ifndef SLIMSIM_BASE_NAME_H
#define SLIMSIM_BASE_NAME_H

#include <stdbool.h>
#include <stdint.h>

#include "base/nearest.h"

enum { NAME_BYTES = 128 };

/**
 * Write a name in one form: small words and numbers, joined by '-'.
 * 1. A maker before a '/' is left out, and the words meta, nvidia, hf, base, chat, instruct, it, pt.
 * 2. Words end where numbers begin: "LLaMA2_7B" and "llama-2-7b-hf" become "llama-2-7-b".
 * 3. A dot stays between digits: "qwen2.5-0.5b" becomes "qwen-2.5-0.5-b".
 */
void name_form(const char *name, char form[NAME_BYTES]);

/** Write a name without its maker, with '-' for blanks and underscores: "NVIDIA GB200" becomes "GB200". */
void name_plain(const char *name, char plain[NAME_BYTES]);

/** Return the index of the only candidate of this form, or -1. */
int32_t name_find(const char *name, const char *const *candidates, int32_t n_candidates);

/**
 * Write a hint like nearest_hint, but never to another size, generation or family: the numbers of both names are the
 * same, and the first words are alike. The beginning of a name also means it. A name without numbers has the hint of
 * nearest_hint.
 */
void name_hint(const char *name, const char *const *candidates, int32_t n_candidates, char hint[NEAREST_HINT_BYTES]);

/** Return whether two names begin with the same word: "gemma-2-9b" and "gemma-7b". */
bool name_same_family(const char *a, const char *b);

#endif
