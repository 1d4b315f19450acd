/* SPDX-License-Identifier: GPL-3.0-or-later */
/** This module says which keys of a question have no effect on its answer, or one that is easy to forget. */
#ifndef SLIMSIM_CAPACITY_NOTES_H
#define SLIMSIM_CAPACITY_NOTES_H

#include "capacity/question.h"
#include "simulate/assumptions.h"

enum { NOTES_MOST = 8 };

/** Write a sentence for each key without effect. @return their number */
int32_t notes_of(const struct question *question, char lines[NOTES_MOST][ASSUMPTIONS_SIZE]);

#endif
