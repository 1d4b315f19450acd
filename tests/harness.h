/* SPDX-License-Identifier: GPL-3.0-or-later */
/** CUnit with a failing exit status for failures and for no tests, and checks that print both values. */
#ifndef SLIMSIM_TESTS_HARNESS_H
#define SLIMSIM_TESTS_HARNESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct harness_test {
    const char *name;
    void (*run)(void);
    struct harness_test *next;
};

/** Run this test, too, behind those before it; main() is the harness's. */
void harness_add(struct harness_test *test);

/** TEST(a_sentence_for_a_name) { ... }: the tests of a file run in its order. */
#define TEST(name)                                                                                                     \
    static void name(void);                                                                                            \
    __attribute__((constructor)) static void add_##name(void)                                                          \
    {                                                                                                                  \
        static struct harness_test test = {#name, name, NULL};                                                         \
        harness_add(&test);                                                                                            \
    }                                                                                                                  \
    static void name(void)

/** |a - b| <= relative x max(|a|, |b|); a tolerance of 0.1 or more is refused. */
#define CHECK_CLOSE(a, b, relative) harness_close(a, b, relative, #a " is close to " #b, __FILE__, __LINE__)
#define CHECK_EQUAL(a, b)           harness_equal((int64_t)(a), (int64_t)(b), #a, #b, __FILE__, __LINE__)
#define CHECK_TEXT(a, b)            harness_text(a, b, #a, __FILE__, __LINE__)
/** `part` stands in `text`. */
#define CHECK_CONTAINS(text, part) harness_contains(text, part, __FILE__, __LINE__)
#define CHECK_TRUE(condition)      harness_true(condition, #condition, __FILE__, __LINE__)

void harness_close(double a, double b, double relative, const char *text, const char *file, int line);
void harness_equal(int64_t a, int64_t b, const char *a_text, const char *b_text, const char *file, int line);
void harness_text(const char *a, const char *b, const char *a_text, const char *file, int line);
void harness_contains(const char *text, const char *part, const char *file, int line);
bool harness_true(bool holds, const char *text, const char *file, int line);

/** A path inside the build directory where this test may write; the folder exists. Static storage, one path at a time.
 */
const char *harness_path(const char *name);

#endif
