/* SPDX-License-Identifier: GPL-3.0-or-later */
/** This file checks inputs that are read more than once, or from any position. The second reader of a pipe would get
 * nothing, and opening a pipe waits until somebody writes. */
#ifndef SLIMSIM_BASE_REGULAR_H
#define SLIMSIM_BASE_REGULAR_H

#include "base/error.h"

/**
 * Refuse pipes, devices and sockets. A missing path or a folder is accepted, because the function that opens it gives a
 * better message.
 *
 * @return false with err, which names the path
 */
bool regular_check(const char *path, struct error *err);

#endif
