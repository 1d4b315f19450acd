/* SPDX-License-Identifier: GPL-3.0-or-later */
/* These tests read tables in CSV. */
#include "base/csv_rows.h"

#include "base/check.h"
#include "harness.h"

#include <stdlib.h>
#include <string.h>

/* Print each row's line and fields: "1[id|x]2[]3[5|]". */
static bool print_row(void *context, const struct csv_row *row, struct error *err)
{
    FILE *file = context;
    fprintf(file, "%d[", (int)row->line);
    for (int32_t i = 0; i < row->n_fields; i++)
        fprintf(file, "%s%s", i > 0 ? "|" : "", row->fields[i]);
    fputc(']', file);
    return row->n_fields < 4 || error_set(err, "four fields");
}

static bool read_text(const char *bytes, size_t n, bool comments, char seen[256], struct error *err)
{
    FILE *file = fmemopen((void *)bytes, n, "r"), *out = fmemopen(seen, 256, "w");
    CHECK(file != NULL && out != NULL);
    *err = (struct error){0};
    bool ok = csv_rows_visit(file, "f.csv", comments ? CSV_ROWS_COMMENTS : CSV_ROWS_PLAIN, print_row, out, err);
    fclose(file);
    fclose(out);
    return ok;
}

TEST(csv_rows__know_their_lines)
{
    static const struct {
        const char *text, *rows;
    } cases[] = {
        {"id,x\n1,2", "1[id|x]2[1|2]"},
        {" a , b \r\n\r\n1,\r\n", "1[a|b]2[]3[1|]"},
        {"a\n\"1\n\n2\"\n3\n", "1[a]2[1\n\n2]5[3]"},
        {"\"a \"\"b\"\",c\"\n", "1[a \"b\",c]"},
        {"a\rb\n", "1[a]1[b]"},
        {"\xEF\xBB\xBF"
         "id\n\xEF\xBB\xBF",
         "1[id]2[\xEF\xBB\xBF]"}, /* a byte order mark counts at the start only */
        {"# \"one\n\n#\na\n#b\n", "2[]4[a]5[#b]"},
    };
    char seen[256];
    struct error err;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        CHECK_TRUE(read_text(cases[i].text, strlen(cases[i].text), true, seen, &err));
        CHECK_TEXT(seen, cases[i].rows);
    }
    CHECK_TRUE(read_text("#a\n1\n", 5, false, seen, &err));
    CHECK_TEXT(seen, "1[#a]2[1]");
}

TEST(csv_rows__name_the_line_that_is_no_csv)
{
    static const struct {
        const char *text, *message;
    } cases[] = {
        {"a,b\n1,\"2\n3,4\n", "f.csv:2: a quote is not closed"},
        {"a,b\n1,2\n1,\"2\"3\n", "f.csv:3: a quote is inside a plain field, or text follows a quoted one"},
        {"a\n1,2,3,4\n5\n", "four fields"},
    };
    char seen[256];
    struct error err;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        CHECK_TRUE(!read_text(cases[i].text, strlen(cases[i].text), true, seen, &err));
        CHECK_TEXT(err.text, cases[i].message);
    }
    CHECK_TRUE(!read_text("a\n1\0002\n", 6, true, seen, &err));
    CHECK_TEXT(err.text, "f.csv:2: the line holds a NUL byte, so this is no text");
}

TEST(csv_rows__limit_a_line_to_a_mebibyte)
{
    char *text = check_malloc(2 + CSV_LINE_BYTES + 1), seen[256];
    struct error err;
    memset(text, ' ', 2 + CSV_LINE_BYTES + 1);
    text[0] = 'a';
    text[1] = '\n';
    text[2 + CSV_LINE_BYTES - 1] = '\n';
    CHECK_TRUE(read_text(text, 2 + CSV_LINE_BYTES, false, seen, &err));
    CHECK_TEXT(seen, "1[a]2[]");
    text[2 + CSV_LINE_BYTES - 1] = ' ';
    CHECK_TRUE(!read_text(text, 2 + CSV_LINE_BYTES + 1, false, seen, &err));
    CHECK_TEXT(err.text, "f.csv:2: the line has more than 1048576 bytes, so this is no table");
    free(text);
}
