/* SPDX-License-Identifier: GPL-3.0-or-later */
/**
 * This module writes an answer: NAME.capacity.h5 with the tables candidates, changes and dates, and NAME.capacity.csv
 * with the candidates. NAME is that of the scenario.
 */
#ifndef SLIMSIM_CAPACITY_ANSWER_FILES_H
#define SLIMSIM_CAPACITY_ANSWER_FILES_H

#include "capacity/answer.h"
#include "trace/table.h"

/** Return whether both files may be replaced: they are absent, empty, or written by slimsim. @return false with err */
bool answer_may_be_written(const char *directory, const char *name, struct error *err);

/** Return the name of an offer or a system of the candidates, for rows that are printed. `context` is the answer. */
const char *answer_name(const void *context, const struct trace_column *column, int64_t value);

/** @param verdict  the answer in words, for readers of the trace */
bool answer_write(const struct answer *answer, const char *verdict, const char *directory, struct error *err);

#endif
