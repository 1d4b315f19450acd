/* SPDX-License-Identifier: GPL-3.0-or-later */
/** The harness runs CUnit's tests, fails if one fails or none ran, and prints both values of a check. */
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

/** Run this test behind those before it. The harness has main(). */
void harness_add(struct harness_test *test);

/** TEST(feature__statement) { ... }: the tests of a file run in its order. */
#define TEST(name)                                                                                                     \
    static void name(void);                                                                                            \
    __attribute__((constructor)) static void add_##name(void)                                                          \
    {                                                                                                                  \
        static struct harness_test test = {#name, name, NULL};                                                         \
        harness_add(&test);                                                                                            \
    }                                                                                                                  \
    static void name(void)

/** |a - b| <= relative x max(|a|, |b|). A tolerance of 0.1 or more is refused. */
#define CHECK_CLOSE(a, b, relative) harness_close(a, b, relative, #a " is close to " #b, __FILE__, __LINE__)
#define CHECK_EQUAL(a, b)           harness_equal((int64_t)(a), (int64_t)(b), #a, #b, __FILE__, __LINE__)
#define CHECK_TEXT(a, b)            harness_text(a, b, #a, __FILE__, __LINE__)
/** `text` contains `part`. */
#define CHECK_CONTAINS(text, part) harness_contains(text, part, __FILE__, __LINE__)
#define CHECK_TRUE(condition)      harness_true(condition, #condition, __FILE__, __LINE__)

void harness_close(double a, double b, double relative, const char *text, const char *file, int line);
void harness_equal(int64_t a, int64_t b, const char *a_text, const char *b_text, const char *file, int line);
void harness_text(const char *a, const char *b, const char *a_text, const char *file, int line);
void harness_contains(const char *text, const char *part, const char *file, int line);
bool harness_true(bool holds, const char *text, const char *file, int line);

/** Give a path inside the build directory where this test may write. The folder exists. The storage is static, for one
 * path at a time. */
const char *harness_path(const char *name);

#endif
