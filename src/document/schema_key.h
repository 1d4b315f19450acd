/* SPDX-License-Identifier: GPL-3.0-or-later */
/** A key of a YAML mapping has a type, unit, range, default and meaning, and the field that it fills. */
#ifndef SLIMSIM_DOCUMENT_SCHEMA_KEY_H
#define SLIMSIM_DOCUMENT_SCHEMA_KEY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum schema_type {
    SCHEMA_BOOL,   /* bool:    true, false */
    SCHEMA_INT,    /* int64_t: 512, 256Ki, 4e6 when integral */
    SCHEMA_COUNT,  /* uint8_t: the same, up to 255 */
    SCHEMA_OPTION, /* struct schema_option: a SCHEMA_INT, or the word `choices` */
    SCHEMA_REAL,   /* double:  0.5, 80GiB, 400Gbps, 2us; never NaN or infinite */
    SCHEMA_CHOICE, /* int32_t: index into choices */
    SCHEMA_SET,    /* int32_t: bit i for the i-th of choices; one of them, [a list], a+b, or none */
    SCHEMA_WORD,   /* char[SCHEMA_WORD_BYTES] */
    SCHEMA_TEXT,   /* char[SCHEMA_TEXT_BYTES] */
    /* Lists of these: one value or a sequence of up to SCHEMA_LIST_MOST values. An empty list means "not restricted"
       and is the only default. The unit, range and choices are those of an element. */
    SCHEMA_INTS,    /* struct schema_ints */
    SCHEMA_REALS,   /* struct schema_reals */
    SCHEMA_CHOICES, /* struct schema_choices */
    SCHEMA_COUNTS,  /* struct schema_counts, up to SCHEMA_COUNTS_MOST values */
};

enum { SCHEMA_LIST_MOST = 32, SCHEMA_COUNTS_MOST = 252, SCHEMA_WORD_BYTES = 64, SCHEMA_TEXT_BYTES = 512 };

/** A whole number that may be left open; {0}: it is. */
struct schema_option {
    int64_t given, value; /* given: 0 or 1 */
};

struct schema_ints {
    int32_t n;
    int64_t at[SCHEMA_LIST_MOST];
};

struct schema_reals {
    int32_t n;
    double at[SCHEMA_LIST_MOST];
};

struct schema_choices {
    int32_t n;
    int32_t at[SCHEMA_LIST_MOST];
};

struct schema_counts {
    int32_t n;
    uint8_t at[SCHEMA_COUNTS_MOST];
};

struct schema_key {
    const char *name; /* below the mapping, dotted: "data.context" */
    enum schema_type type;
    const char *unit;     /* "tokens", "bytes", "s", "-" */
    double min, max;      /* inclusive, for numbers only; both 0: no limit */
    const char *fallback; /* the default as a user would write it; NULL: the key is required */
    const char *choices;  /* "cut|drop|truncate" for SCHEMA_CHOICE, its list and SCHEMA_SET; for SCHEMA_REAL and
                             SCHEMA_OPTION a word that may replace the number, and a real is then NAN: "auto" */
    const char *meaning;
    size_t offset; /* offset of the field in the object that is filled */
};

#endif
