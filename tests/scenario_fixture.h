/* SPDX-License-Identifier: GPL-3.0-or-later */
/** Small files for tests of scenario/. */
#ifndef SLIMSIM_TESTS_SCENARIO_FIXTURE_H
#define SLIMSIM_TESTS_SCENARIO_FIXTURE_H

/** Write a scratch file and give its path (static storage, as harness_path). Folders in the name are made. */
const char *fixture_write(const char *name, const char *text);

/** The whole text of a file; the caller frees. */
char *fixture_read(const char *path);

/** A copy of `text` with the first `old` replaced; a bug when there is none. The caller frees. */
char *fixture_replace(const char *text, const char *old, const char *new);

/** A model of the sizes of Llama 13B, and a device of round numbers. */
extern const char fixture_model[], fixture_device[];

/** A data folder of its own for one test program; it becomes SLIMSIM_DATA. It has the model llama-13b, the device h800,
 * the law github, the plan space free and the shipped framework slimpack-paper. Static storage. */
const char *fixture_data(const char *suite);

#endif
