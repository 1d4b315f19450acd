/* SPDX-License-Identifier: GPL-3.0-or-later */
/** Tests of scenario/ write small files here. */
#ifndef SLIMSIM_TESTS_SCENARIO_FIXTURE_H
#define SLIMSIM_TESTS_SCENARIO_FIXTURE_H

/** Write a scratch file and give its path (static storage, as harness_path). Folders in the name are made. */
const char *fixture_write(const char *name, const char *text);

/** Read the whole text of a file. The caller frees it. */
char *fixture_read(const char *path);

/** Copy `text` and replace the first `old`. It is a bug if there is none. The caller frees the copy. */
char *fixture_replace(const char *text, const char *old, const char *new);

/** A model of the sizes of Llama 13B, and a device of round numbers. */
extern const char fixture_model[], fixture_device[];

/** Make a data folder for one test program. It has model llama-13b, device h800, the law github, the plan space free
 * and the shipped framework slimpack-paper, and becomes SLIMSIM_DATA. The storage is static. */
const char *fixture_data(const char *suite);

#endif
