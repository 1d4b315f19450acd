/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "harness.h"

#include <CUnit/Basic.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static struct harness_test *first, **end = &first;

void harness_add(struct harness_test *test)
{
    *end = test;
    end = &test->next;
}

/* It runs before the constructors of tests, which may read shipped files. */
__attribute__((constructor(101))) static void use_sources(void)
{
    setenv("SLIMSIM_DATA", SLIMSIM_SOURCE_DIR, 0);
}

int main(int argc, char **argv)
{
    if (argc != 1 || CU_initialize_registry() != CUE_SUCCESS)
        return EXIT_FAILURE;
    unsigned n_tests = 0;
    CU_pSuite suite = CU_add_suite(argv[0], NULL, NULL);
    for (const struct harness_test *test = first; test != NULL; test = test->next, n_tests++)
        if (suite == NULL || CU_add_test(suite, test->name, test->run) == NULL)
            return EXIT_FAILURE;
    CU_basic_set_mode(CU_BRM_VERBOSE);
    CU_basic_run_tests();
    bool passed = n_tests > 0 && CU_get_number_of_tests_run() == n_tests && CU_get_number_of_failures() == 0;
    CU_cleanup_registry();
    return passed ? EXIT_SUCCESS : EXIT_FAILURE;
}

static void report(bool holds, const char *text, const char *file, int line)
{
    CU_assertImplementation(holds, (unsigned)line, text, file, "", CU_FALSE);
}

void harness_close(double a, double b, double relative, const char *text, const char *file, int line)
{
    char message[1024];
    double larger = fmax(fabs(a), fabs(b));
    snprintf(message, sizeof message, "%.900s: %.17g and %.17g (%g)", text, a, b, relative);
    report(relative < 0.1 && isfinite(a) && isfinite(b) && fabs(a - b) <= relative * larger, message, file, line);
}

void harness_equal(int64_t a, int64_t b, const char *a_text, const char *b_text, const char *file, int line)
{
    char text[512];
    snprintf(text, sizeof text, "%s = %lld equals %s = %lld", a_text, (long long)a, b_text, (long long)b);
    report(a == b, text, file, line);
}

void harness_text(const char *a, const char *b, const char *a_text, const char *file, int line)
{
    char text[2048];
    snprintf(text, sizeof text, "%s = \"%.900s\" equals \"%.900s\"", a_text, a, b);
    report(strcmp(a, b) == 0, text, file, line);
}

void harness_contains(const char *text, const char *part, const char *file, int line)
{
    char message[2048];
    snprintf(message, sizeof message, "\"%.1200s\" contains \"%.600s\"", text, part);
    report(strstr(text, part) != NULL, message, file, line);
}

bool harness_true(bool holds, const char *text, const char *file, int line)
{
    report(holds, text, file, line);
    return holds;
}

const char *harness_path(const char *name)
{
    static char path[1024];
    mkdir(SLIMSIM_BUILD_DIR "/scratch", 0777);
    snprintf(path, sizeof path, "%s/scratch/%s", SLIMSIM_BUILD_DIR, name);
    return path;
}
