/* SPDX-License-Identifier: GPL-3.0-or-later */
/* These tests read, change and write YAML documents. */
#include "document/document.h"
#include "document/document_read.h"
#include "document/document_set.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "harness.h"
#include "scenario_fixture.h"

static const char sample[] = "name: main # of the run\n"
                             "data: {context: 256Ki, lengths: 'git hub'}\n"
                             "systems:\n"
                             "  - name: best-fit\n"
                             "    plan: {tp: 8, pp: 4}\n"
                             "  - name: slimpack\n"
                             "    knobs:\n"
                             "text: \"5\"\n"
                             "block: |\n"
                             "  two\n"
                             "  lines\n";

static bool parse(const char *text, struct document *document, struct error *err)
{
    return document_parse(text, strlen(text), "file.yaml", document, err);
}

static const char *value_at(const struct document *document, const char *path)
{
    int32_t node = document_find(document, 0, path);
    return node >= 0 && document->node[node].kind == DOCUMENT_SCALAR ? document->node[node].value : "(none)";
}

TEST(document__finds_keys_values_and_their_places)
{
    struct document document;
    struct error err = {0};
    CHECK_TRUE(parse(sample, &document, &err));
    CHECK_TEXT(value_at(&document, "name"), "main");
    CHECK_TEXT(value_at(&document, "data.context"), "256Ki");
    CHECK_TEXT(value_at(&document, "data.lengths"), "git hub");
    CHECK_TEXT(value_at(&document, "block"), "two\nlines\n");
    CHECK_TEXT(value_at(&document, "data.nothing"), "(none)");
    CHECK_TEXT(value_at(&document, "name.below"), "(none)");
    const struct document_node *context = &document.node[document_find(&document, 0, "data.context")];
    CHECK_EQUAL(context->line, 2);
    CHECK_EQUAL(context->column, 17);
    CHECK_EQUAL(context->key_column, 8);
    CHECK_TRUE(!context->quoted);
    CHECK_TRUE(document.node[document_find(&document, 0, "text")].quoted);
    CHECK_TEXT(context->file, "file.yaml");
    document_free(&document);
    document_free(&document);
}

static const struct {
    const char *text, *message;
} refused[] = {
    {"", "file.yaml:1:1: the file has no content"},
    {"# only a comment\n", "file.yaml:1:1: the file has no content"},
    {"just text", "file.yaml:1:1: expected keys with values (key: value), found a single value"},
    {"- a\n- b\n", "file.yaml:1:1: expected keys with values (key: value), found a list"},
    {"a: 1\nb: 2\na: 3\n", "file.yaml:3:1: a: this key appears twice here, first on line 1"},
    {"a: {x: 1, x: 2}\n", "file.yaml:1:11: x: this key appears twice here, first on line 1"},
    {"a: &x 1\n", "file.yaml:1:4: anchors (&x) are not allowed"},
    {"a: *x\n", "file.yaml:1:4: aliases (*x) are not allowed"},
    {"a: &x [1]\nb: [*x, *x]\n", "file.yaml:1:4: anchors (&x) are not allowed"},
    {"&x a: 1\n", "file.yaml:1:1: anchors (&x) are not allowed"},
    {"a: !!str 5\n", "file.yaml:1:4: tags (tag:yaml.org,2002:str) are not allowed"},
    {"a: 1\n---\nb: 2\n", "file.yaml:2:1: a second document starts here"},
    {"[a]: 1\n", "file.yaml:1:1: a key is a list or mapping; allowed: a word"},
    {"a: b: c\n", "file.yaml:1:5: not valid YAML: mapping values are not allowed in this context"},
    {"a: [1, 2\n", "not valid YAML: did not find expected ',' or ']'"},
    {"ok: 1\na: \xff\n", "file.yaml:2:4: not valid YAML: invalid leading UTF-8 octet"},
    {"a: \"\\0\"\n", "file.yaml:1:4: a text cannot hold the character NUL"},
    {"a: \x01\n", "file.yaml:1:4: not valid YAML: control characters are not allowed"},
};

TEST(document__refuses_unneeded_yaml_with_its_place)
{
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        struct document document;
        struct error err = {0};
        CHECK_TRUE(!parse(refused[i].text, &document, &err));
        CHECK_CONTAINS(err.text, refused[i].message);
        CHECK_EQUAL(err.status, ERROR_INVALID);
        CHECK_TRUE(document.node == NULL);
    }
}

/* In "a: [[...]]" the mapping is level 1, so 63 lists are allowed and 64 are not. */
TEST(document__limits_nesting_to_64_levels)
{
    for (int lists = 63; lists <= 64; lists++) {
        char text[256] = "a: ";
        struct document document;
        struct error err = {0};
        memset(text + 3, '[', (size_t)lists);
        memset(text + 3 + lists, ']', (size_t)lists);
        CHECK_TRUE(parse(text, &document, &err) == (lists == 63));
        if (lists == 64)
            CHECK_CONTAINS(err.text, "file.yaml:1:67: more than 64 levels of nesting");
        document_free(&document);
    }
}

TEST(document__refuses_a_file_over_one_megabyte)
{
    size_t n = (1 << 20) + 1;
    char *text = check_malloc(n + 1);
    memset(text, '#', n);
    text[n] = '\0';
    memcpy(text, "a: 1\n", 5);
    const char *path = fixture_write("large.yaml", text);
    struct document document;
    struct error err = {0};
    CHECK_TRUE(!document_read(path, &document, &err));
    CHECK_CONTAINS(err.text, "larger than the limit of 1048576 bytes");
    text[n - 1] = '\0';
    err = (struct error){0};
    CHECK_TRUE(document_read(fixture_write("large.yaml", text), &document, &err));
    document_free(&document);
    free(text);
}

TEST(document__names_a_file_that_cannot_be_read)
{
    struct document document;
    struct error err = {0};
    CHECK_TRUE(!document_read(harness_path("absent.yaml"), &document, &err));
    CHECK_CONTAINS(err.text, "absent.yaml: cannot be read: No such file or directory");
    err = (struct error){0};
    CHECK_TRUE(!document_read(harness_path(""), &document, &err));
    CHECK_CONTAINS(err.text, "cannot be read: Is a directory");
}

TEST(document_set__replaces_adds_and_selects)
{
    static const char *const sets[] = {
        "name=other",
        "data.context=64Ki",
        "communication.tp_overlap=0.5",
        "systems.1.plan={tp: 4, pp: 2}",
        "systems.0.plan.tp=2",
        "systems.1.knobs.lead=[just, persistent]",
        "text=a=b",
        "data.lengths=x.txt",
    };
    struct document document;
    struct error err = {0};
    CHECK_TRUE(parse(sample, &document, &err));
    for (size_t i = 0; i < sizeof sets / sizeof *sets; i++)
        CHECK_TRUE(document_set(&document, sets[i], &err));
    char *text = document_text(&document, 0);
    CHECK_TEXT(text,
               "{name: other, data: {context: 64Ki, lengths: x.txt}, systems: [{name: best-fit, plan: {tp: 2, pp: 4}}, "
               "{name: slimpack, knobs: {lead: [just, persistent]}, plan: {tp: 4, pp: 2}}], text: \"a=b\", "
               "block: \"two\\U0000000Alines\\U0000000A\", communication: {tp_overlap: 0.5}}");
    const struct document_node *tp = &document.node[document_find(&document, 0, "communication.tp_overlap")];
    CHECK_TEXT(tp->file, "--set 'communication.tp_overlap=0.5'");
    CHECK_EQUAL(tp->line, 0);
    CHECK_TEXT(err.text, "");
    free(text);
    document_free(&document);
}

static const struct {
    const char *assignment, *message;
} refused_sets[] = {
    {"seed", "--set 'seed': expected KEY=VALUE, such as data.context=64Ki"},
    {"=5", "--set '=5': expected KEY=VALUE"},
    {"seed=", "--set 'seed=': there is no value after '='"},
    {"seed=[1", "--set 'seed=[1': not valid YAML"},
    {"seed=*x", "--set 'seed=*x': aliases (*x) are not allowed"},
    {".seed=1", "a key is missing before or after a dot"},
    {"data..context=1", "a key is missing before or after a dot"},
    {"name.x=1", "--set 'name.x=1': 'name' has the value 'main', so it has no keys below it"},
    {"systems.2.name=x", "--set 'systems.2.name=x': '2' selects nothing from the list 'systems'; allowed: 0 to 1"},
    {"systems.slimpack.name=x", "'slimpack' selects nothing from the list 'systems'"},
    {"systems.-1.name=x", "'-1' selects nothing from the list 'systems'"},
    {"systems.00.name=x", "'00' selects nothing from the list 'systems'"},
    {"a={b: 1, b: 2}", "--set 'a={b: 1, b: 2}': b: this key appears twice here"},
    {"a=1\n---\nb: 2", "a second document starts here"},
};

TEST(document_set__refuses_a_bad_assignment_in_one_sentence)
{
    for (size_t i = 0; i < sizeof refused_sets / sizeof *refused_sets; i++) {
        struct document document;
        struct error err = {0};
        CHECK_TRUE(parse(sample, &document, &err));
        CHECK_TRUE(!document_set(&document, refused_sets[i].assignment, &err));
        CHECK_CONTAINS(err.text, refused_sets[i].message);
        CHECK_EQUAL(err.status, ERROR_INVALID);
        document_free(&document);
    }
}

TEST(document_set__sets_nothing_below_a_searched_plan)
{
    struct document document;
    struct error err = {0};
    CHECK_TRUE(parse("plan: auto\n", &document, &err));
    CHECK_TRUE(!document_set(&document, "plan.tp=8", &err));
    CHECK_TEXT(err.text, "--set 'plan.tp=8': 'plan' has the value 'auto', so it has no keys below it; "
                         "set the whole key: plan={tp: 4, pp: 2}");
    document_free(&document);
}

TEST(document_set__refuses_assignments_deeper_than_the_limit)
{
    char assignment[400] = "a";
    struct document document;
    struct error err = {0};
    for (int i = 1; i < 65; i++)
        strcat(assignment, ".a");
    strcat(assignment, "=1");
    CHECK_TRUE(parse(sample, &document, &err));
    CHECK_TRUE(!document_set(&document, assignment, &err));
    CHECK_CONTAINS(err.text, "more than 64 levels");
    document_free(&document);
}

TEST(document_write__reads_back_the_same)
{
    static const char awkward[] =
        "a: {'': x, 'b c': [~, null, \"~\", 'null', \"\"], \"t\\tn\\n\": \"\\u00e9\\u2028\\U0001F600\\\\\\\"\"}\n"
        "b: plain, with comma\nc: -5\nd: \"#x: [\"\ne: 80 GiB\nf:\ng: '- 5'\nh: '-'\n";
    struct document first, second;
    struct error err = {0};
    CHECK_TRUE(parse(awkward, &first, &err));
    char *once = document_text(&first, 0);
    CHECK_TRUE(parse(once, &second, &err));
    CHECK_TEXT(err.text, "");
    char *twice = document_text(&second, 0);
    CHECK_TEXT(twice, once);
    CHECK_TEXT(value_at(&second, "b"), "plain, with comma");
    CHECK_TEXT(value_at(&second, "e"), "80 GiB");
    CHECK_TRUE(!second.node[document_find(&second, 0, "e")].quoted);
    CHECK_TEXT(value_at(&second, "d"), "#x: [");
    CHECK_TEXT(value_at(&second, "a.t\tn\n"), "\xc3\xa9\xe2\x80\xa8\xf0\x9f\x98\x80\\\"");
    free(once);
    free(twice);
    document_free(&first);
    document_free(&second);
}

static uint32_t next_random(uint64_t *state)
{
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(*state >> 33);
}

/** Change, insert, remove or double a few bytes. Signs of YAML are more frequent than chance. */
static size_t mutate(char *text, size_t n, uint64_t *state)
{
    static const char signs[] = "{}[]:,-&*!|>'\"%@#?~\n\t \\\xff\x80";
    for (uint32_t i = 0; i < 1 + next_random(state) % 6; i++) {
        size_t at = next_random(state) % (n + 1);
        char byte = (char)(next_random(state) % 256);
        if (next_random(state) % 2 != 0)
            byte = signs[next_random(state) % (sizeof signs - 1)];
        size_t length = next_random(state) % 20;
        length = at + length > n ? n - at : length;
        switch (next_random(state) % 4) {
        case 0:
            text[at < n ? at : 0] = byte;
            break;
        case 1:
            memmove(text + at + 1, text + at, n++ - at);
            text[at] = byte;
            break;
        case 2:
            memmove(text + at, text + at + length, n - at - length);
            n -= length;
            break;
        default:
            memmove(text + at + length, text + at, n - at);
            n += length;
        }
    }
    return n;
}

/* Whatever the bytes are, the result is a tree that can be written and set, or a message. The seed is 7. */
TEST(document__gives_a_tree_or_a_message_for_random_mutations)
{
    int n_trees = 0, n_messages = 0;
    uint64_t state = 7;
    for (int i = 0; i < 6000; i++) {
        char text[sizeof sample + 256];
        struct document document;
        struct error err = {0};
        memcpy(text, sample, sizeof sample);
        size_t n = mutate(text, sizeof sample - 1, &state);
        if (document_parse(text, n, "file.yaml", &document, &err)) {
            char *flow = document_text(&document, 0);
            document_set(&document, "systems.0.plan.tp=3", &err);
            free(flow);
            n_trees++;
        } else {
            if (*err.text == '\0' || err.status != ERROR_INVALID || document.node != NULL)
                printf("    case %d\n", i);
            CHECK_TRUE(*err.text != '\0' && err.status == ERROR_INVALID && document.node == NULL);
            n_messages++;
        }
        document_free(&document);
    }
    CHECK_TRUE(n_trees > 500 && n_messages > 500);
}
