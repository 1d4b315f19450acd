/* SPDX-License-Identifier: GPL-3.0-or-later */
/* These tests read and write mappings by tables of keys. */
#include "document/schema.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "document/document_read.h"
#include "document/schema_text.h"
#include "harness.h"

struct object {
    bool flag;
    int64_t count;
    double share, time_s;
    int32_t choice;
    char word[64], text[512];
};

#define FIELD(field) offsetof(struct object, field)
static const struct schema_key keys[] = {
    {"flag", SCHEMA_BOOL, "-", 0, 0, "false", NULL, "a switch", FIELD(flag)},
    {"group.count", SCHEMA_INT, "tokens", 1, 1 << 20, NULL, NULL, "how many", FIELD(count)},
    {"group.share", SCHEMA_REAL, "-", 0, 1, "0.25", NULL, "of something", FIELD(share)},
    {"group.inner.time", SCHEMA_REAL, "s", 0, INFINITY, "2us", NULL, "it takes", FIELD(time_s)},
    {"choice", SCHEMA_CHOICE, "-", 0, 0, "selective", "none|selective|full", "what to keep", FIELD(choice)},
    {"word", SCHEMA_WORD, "-", 0, 0, "", NULL, "a name", FIELD(word)},
    {"text", SCHEMA_TEXT, "-", 0, 0, "none given", NULL, "a sentence", FIELD(text)},
};
enum { N = sizeof keys / sizeof *keys };
static const char *const others[] = {"knobs", NULL};

static bool read_text(const char *text, struct object *object, struct error *err)
{
    struct document document;
    *err = (struct error){0};
    *object = (struct object){0};
    if (!document_parse(text, strlen(text), "f.yaml", &document, err))
        return false;
    bool ok = schema_read(&document, 0, keys, N, others, object, err);
    document_free(&document);
    return ok;
}

TEST(schema_read__reads_values_and_fills_in_defaults)
{
    struct object object;
    struct error err;
    CHECK_TRUE(read_text("group: {count: 25Ki}\nknobs: {any: thing}", &object, &err));
    CHECK_TEXT(err.text, "");
    CHECK_EQUAL(object.count, 25600);
    CHECK_TRUE(!object.flag && object.share == 0.25 && object.time_s == 2e-6);
    CHECK_EQUAL(object.choice, 1);
    CHECK_TEXT(object.text, "none given");
    CHECK_TRUE(
        read_text("group:\n  count: 1e3\n  inner: {time: 5ms}\n  share: 1\nflag: true\nchoice: 'full'\nword: 7B\n"
                  "text: >\n  folded\n  text\n",
                  &object, &err));
    CHECK_EQUAL(object.count, 1000);
    CHECK_TRUE(object.flag && object.share == 1 && object.time_s == 5e-3);
    CHECK_EQUAL(object.choice, 2);
    CHECK_TEXT(object.word, "7B");
    CHECK_TEXT(object.text, "folded text");
}

static const struct {
    const char *text, *message;
} refused[] = {
    {"group: {count: 2.5}",
     "f.yaml:1:16: group.count: '2.5' is not a whole number; allowed: a whole number [tokens], 1 to 1048576"},
    {"group: {count: 0}", "group.count: '0' is out of range; allowed: a whole number [tokens], 1 to 1048576"},
    {"group: {count: 2Mi}", "group.count: '2Mi' is out of range"},
    {"group: {count: '5'}", "group.count: '5' is text, because it is in quotes"},
    {"group: {count: nan}", "group.count: 'nan' is not a number"},
    {"group: {count: .inf}", "group.count: '.inf' is not a number"},
    {"group: {count: 64K}", "group.count: '64K' may mean 1000 or 1024: k is 1000, Ki 1024"},
    {"group: {count: many}", "group.count: 'many' is not a number"},
    {"group: {count: }", "group.count: has no value"},
    {"group: {count: [1]}", "group.count: is a list instead of one value"},
    {"group: {count: {a: 1}}", "group.count: is a mapping of keys instead of one value"},
    {"group: {share: 0.5}", "f.yaml:1:8: group.count: is required"},
    {"flag: true", "f.yaml:1:1: group.count: is required"},
    {"group:\n", "f.yaml:1:7: group.count: is required"},
    {"group: 5", "f.yaml:1:8: group: expected a mapping of keys, found a single value; allowed: "},
    {"group: [5]", "f.yaml:1:8: group: expected a mapping of keys, found a list; allowed: "},
    {"group: {count: 1, share: 1.01}", "group.share: '1.01' is out of range; allowed: a number, 0 to 1"},
    {"group: {count: 1, share: -0.1}", "group.share: '-0.1' is out of range"},
    {"group: {count: 1, inner: {time: -1us}}", "allowed: a number [s] (90s, 30min, 2h, 5us), at least 0"},
    {"group: {count: 1, inner: {time: 1GB}}", "group.inner.time: '1GB' is not a number"},
    {"group: {count: 1}\nflag: yes", "f.yaml:2:7: flag: 'yes' is not a truth value; allowed: true or false"},
    {"group: {count: 1}\nchoice: selctive",
     "choice: 'selctive' is not known; did you mean 'selective'? allowed: none, selective, full"},
    {"group: {count: 1}\nchoice: x", "choice: 'x' is not known; allowed: none, selective, full"},
    {"group: {count: 1}\nword: 0123456789012345678901234567890123456789012345678901234567890123",
     "is too long; allowed: text of at most 63 bytes"},
    {"group: {count: 1}\nword: \"a\\nb\"", "word: 'a?b' contains a line end or control character"},
    {"group: {count: 1}\nword: \"a\\x9bb\"", "contains a line end or control character"}, /* U+009B, CSI of terminals */
    {"group: {cuont: 1}", "f.yaml:1:9: group.cuont: unknown key; did you mean 'count'? allowed: count, share, inner"},
    {"group: {count: 1, zzz: 1}", "group.zzz: unknown key; allowed: count, share, inner"},
    {"group: {count: 1}\nknob: 1", "f.yaml:2:1: knob: unknown key; did you mean 'knobs'?"},
    {"count: 1", "count: unknown key; did you mean 'group.count' (a dot means a level of nesting)?"},
    {"group.count: 1", "group.count: unknown key; did you mean 'group.count' (a dot means a level of nesting)?"},
};

TEST(schema_read__names_wrong_values_with_what_is_allowed)
{
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        struct object object;
        struct error err;
        CHECK_TRUE(!read_text(refused[i].text, &object, &err));
        CHECK_CONTAINS(err.text, refused[i].message);
        CHECK_EQUAL(err.status, ERROR_INVALID);
    }
}

TEST(schema_read__names_all_errors_in_one_pass)
{
    struct object object;
    struct error err;
    CHECK_TRUE(!read_text("flag: 1\nfalg: 2\ngroup: {share: x, inner: {tme: 1}}\n", &object, &err));
    CHECK_TEXT(err.text,
               "f.yaml:2:1: falg: unknown key; did you mean 'flag'? allowed: flag, group, choice, word, text, knobs\n"
               "f.yaml:3:27: group.inner.tme: unknown key; did you mean 'time'? allowed: time\n"
               "f.yaml:1:7: flag: '1' is not a truth value; allowed: true or false\n"
               "f.yaml:3:8: group.count: is required (how many); allowed: a whole number [tokens], 1 to 1048576\n"
               "f.yaml:3:16: group.share: 'x' is not a number; allowed: a number, 0 to 1");
}

TEST(schema_read__misses_required_keys_of_an_absent_mapping)
{
    struct document document;
    struct error err = {0};
    struct object object = {0};
    CHECK_TRUE(document_parse("a: 5", 4, "f.yaml", &document, &err));
    CHECK_TRUE(schema_read(&document, -1, &keys[2], N - 2, NULL, &object, &err));
    CHECK_TRUE(object.share == 0.25);
    CHECK_TRUE(!schema_read(&document, -1, keys, N, NULL, &object, &err));
    CHECK_CONTAINS(err.text, "f.yaml: group.count: is required");
    err = (struct error){0};
    CHECK_TRUE(!schema_read(&document, document_find(&document, 0, "a"), keys, N, NULL, &object, &err));
    CHECK_TEXT(err.text, "f.yaml:1:4: a: expected a mapping of keys, found a single value");
    document_free(&document);
}

/* Keys have the form that a user of --set writes, whatever mapping the table is of. */
TEST(schema_read__names_nested_keys_in_full)
{
    static const char text[] = "knobs: {flag: 5, group: {cont: 1}}";
    struct document document;
    struct error err = {0};
    struct object object = {0};
    CHECK_TRUE(document_parse(text, sizeof text - 1, "f.yaml", &document, &err));
    CHECK_TRUE(!schema_read(&document, document_find(&document, 0, "knobs"), keys, N, NULL, &object, &err));
    CHECK_CONTAINS(err.text, "f.yaml:1:26: knobs.group.cont: unknown key; did you mean 'count'?");
    CHECK_CONTAINS(err.text, "f.yaml:1:15: knobs.flag: '5' is not a truth value; allowed: true or false");
    CHECK_CONTAINS(err.text, "f.yaml:1:25: knobs.group.count: is required");
    document_free(&document);
}

static char *written(const struct object *object)
{
    char *text = NULL;
    size_t n;
    FILE *file = open_memstream(&text, &n);
    schema_write(file, keys, N, object, 0);
    fclose(file);
    return text;
}

TEST(schema_write__reads_back_to_the_same_bits)
{
    struct object object, again;
    struct error err;
    CHECK_TRUE(read_text("group: {count: 77, share: 0.1, inner: {time: 3.3us}}\nflag: true\nword: 'null'\n"
                         "text: \"a: #b, \\\"c\\\" \\u00e9\"\n",
                         &object, &err));
    char *text = written(&object);
    CHECK_TEXT(text, "flag: true\ngroup:\n  count: 77\n  share: 0.1\n  inner:\n"
                     "    time: 3.3e-06\nchoice: selective\nword: \"null\"\n"
                     "text: \"a: #b, \\\"c\\\" \\U000000E9\"\n");
    CHECK_TRUE(read_text(text, &again, &err));
    CHECK_TRUE(again.flag == object.flag && again.count == object.count && again.share == object.share &&
               again.time_s == object.time_s && again.choice == object.choice);
    CHECK_TEXT(again.word, "null");
    CHECK_TEXT(again.text, object.text);
    free(text);
}

struct options {
    struct schema_option first;
    struct schema_counts each;
};

static bool read_options(const char *text, struct options *options, struct error *err)
{
    static const struct schema_key table[] = {
        {"first", SCHEMA_OPTION, "layers", 0, 99, "unset", "unset", "of the first", offsetof(struct options, first)},
        {"each", SCHEMA_COUNTS, "layers", 0, 255, "", NULL, "of each", offsetof(struct options, each)},
    };
    struct document document;
    *err = (struct error){0};
    *options = (struct options){0};
    bool ok = document_parse(text, strlen(text), "f.yaml", &document, err) &&
              schema_read(&document, 0, table, 2, others, options, err);
    document_free(&document);
    char *again = NULL;
    size_t n = 0;
    FILE *file = open_memstream(&again, &n);
    schema_write(file, table, 2, options, 0);
    fclose(file);
    if (ok)
        CHECK_TEXT(again, text);
    free(again);
    return ok;
}

/* An option that is 0 is given. Counts are small, and an empty list is left out. */
TEST(schema_read__tells_0_from_unset)
{
    struct options options;
    struct error err;
    CHECK_TRUE(read_options("first: unset\n", &options, &err));
    CHECK_TRUE(!options.first.given && options.each.n == 0);
    CHECK_TRUE(read_options("first: 0\neach: [20, 0, 255]\n", &options, &err));
    CHECK_TRUE(options.first.given == 1 && options.first.value == 0 && options.each.n == 3);
    CHECK_TRUE(options.each.at[0] == 20 && options.each.at[1] == 0 && options.each.at[2] == 255);
    CHECK_TRUE(!read_options("each: [256]\n", &options, &err));
    CHECK_CONTAINS(err.text, "each: '256' is out of range; allowed: a whole number [layers], 0 to 255");
    CHECK_TRUE(!read_options("first: none\n", &options, &err));
    CHECK_CONTAINS(err.text, "first: 'none' is not a number; allowed: a whole number [layers], 0 to 99, or unset");
}

/* 2^53 + 1 is no double, and 2^63 is no int64_t. */
TEST(schema_read__takes_large_integers_exactly_or_refuses)
{
    static const struct schema_key seed[] = {{"seed", SCHEMA_INT, "-", 0, 0, "1", NULL, "any", FIELD(count)}};
    static const char *const texts[] = {"seed: 9007199254740993", "seed: 9223372036854775807",
                                        "seed: -9223372036854775807", "seed: 9223372036854775808", "seed: 1e17"};
    static const int64_t values[] = {INT64_C(9007199254740993), INT64_MAX, -INT64_MAX};
    for (int i = 0; i < 5; i++) {
        struct document document;
        struct error err = {0};
        struct object object = {0};
        CHECK_TRUE(document_parse(texts[i], strlen(texts[i]), "f.yaml", &document, &err));
        CHECK_TRUE(schema_read(&document, 0, seed, 1, NULL, &object, &err) == (i < 3));
        if (i < 3)
            CHECK_TRUE(object.count == values[i]);
        document_free(&document);
    }
}

TEST(schema_list__has_titles_and_one_line_a_key)
{
    char *text = NULL;
    size_t n;
    FILE *file = open_memstream(&text, &n);
    schema_list(&(struct schema_listing){.file = file}, keys, 3, "knobs.");
    fclose(file);
    CHECK_TEXT(text, "key                type     unit    allowed       default   meaning\n"
                     "knobs.flag         bool     -       true|false    false     a switch\n"
                     "knobs.group.count  integer  tokens  1 to 1048576  required  how many\n"
                     "knobs.group.share  real     -       0 to 1        0.25      of something\n");
    free(text);
}

TEST(schema_choice__is_found_by_its_whole_name)
{
    char name[64];
    CHECK_EQUAL(schema_choice("cut|drop|truncate", "cut"), 0);
    CHECK_EQUAL(schema_choice("cut|drop|truncate", "truncate"), 2);
    CHECK_EQUAL(schema_choice("cut|drop|truncate", "cu"), -1);
    CHECK_EQUAL(schema_choice("cut|drop|truncate", "cut|drop"), -1);
    CHECK_EQUAL(schema_choice("cut|drop|truncate", ""), -1);
    schema_choice_name("cut|drop|truncate", 1, name);
    CHECK_TEXT(name, "drop");
}
