/* SPDX-License-Identifier: GPL-3.0-or-later */
/** This module lists the keys in which two resolved scenarios of one system each differ, and changes one of them. */
#ifndef SLIMSIM_ANSWER_DIFFERENCE_H
#define SLIMSIM_ANSWER_DIFFERENCE_H

#include "document/document.h"

enum { DIFFERENCE_MOST_PATHS = 16, DIFFERENCE_PATH_SIZE = 96 };

/** A key that differs, or several keys that change only together. */
struct difference {
    char name[DIFFERENCE_PATH_SIZE]; /* "data.context"; keys of the system's entry begin with its name: "plan.tp" */
    int32_t n_paths;
    char path[DIFFERENCE_MOST_PATHS][DIFFERENCE_PATH_SIZE];
    char *from, *to; /* values for a person; "-": absent */
};

struct differences {
    int32_t n;
    size_t capacity;
    struct difference *list;
};

/**
 * List what differs, in the order of the keys. The caller frees the list.
 *
 * 1. The names of the run and of its row, and what is written, are no differences.
 * 2. Another training system is one difference, with its whole entry.
 * 3. Another platform file is one difference, with all keys of the platform.
 * 4. The degrees and stages of a plan are one difference, and so are the two sizes of a batch.
 */
void differences_find(const struct document *from, const struct document *to, struct differences *differences);

/** Give the document the values that the keys of a difference have in `to`. */
bool difference_apply(const struct difference *difference, const struct document *to, struct document *document,
                      struct error *err);

void differences_free(struct differences *differences);

#endif
