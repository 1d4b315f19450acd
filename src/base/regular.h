/* SPDX-License-Identifier: GPL-3.0-or-later */
/** Inputs that are read more than once, or from any place: of a pipe the second reader would get nothing, and opening
 * one waits until somebody writes. */
#ifndef SLIMSIM_BASE_REGULAR_H
#define SLIMSIM_BASE_REGULAR_H

#include "base/error.h"

/** Refuse pipes, devices and sockets. What is missing or a folder is left to whoever opens it, who knows more to say.
 * @return false with err, which names the path */
bool regular_check(const char *path, struct error *err);

#endif
