/* SPDX-License-Identifier: GPL-3.0-or-later */
/* This test refuses packed manifests with bad names or values. */
#include "base/check.h"
#include "harness.h"
#include "sweep/manifest.h"

#include <stdlib.h>
#include <string.h>

/* Return whether the packed form of a manifest of these names is accepted. */
static bool is_taken(char *name, char *first, char *second, char *value)
{
    char *bytes = NULL, *columns[] = {first, second}, *values[] = {"7", value}, *notes[] = {"1 points excluded: large"};
    size_t n_bytes;
    struct manifest taken, manifest = {
                               .name = name,
                               .command = "slimsim run small.yaml",
                               .scenario = "name: small\n",
                               .n_points = 1,
                               .n_columns = 2,
                               .n_notes = 1,
                               .column = columns,
                               .note = notes,
                               .value = values,
                               .id = (uint64_t[]){1},
                           };
    FILE *file = check_memstream(&bytes, &n_bytes);
    manifest_pack(file, &manifest);
    CHECK(fclose(file) == 0);
    bool ok = manifest_unpack(bytes, n_bytes, &taken);
    manifest_free(&taken);
    free(bytes);
    return ok;
}

TEST(manifest_unpack__refuses_names_that_are_none)
{
    char *many = check_calloc(1 << 16, 1);
    memset(many, '8', (1 << 16) - 1);
    CHECK_TRUE(is_taken("small", "seed", "data.context", "65536"));
    CHECK_TRUE(!is_taken("../../etc/small", "seed", "data.context", "65536"));
    CHECK_TRUE(!is_taken(".small", "seed", "data.context", "65536"));
    CHECK_TRUE(!is_taken("", "seed", "data.context", "65536"));
    CHECK_TRUE(!is_taken(many, "seed", "data.context", "65536"));
    CHECK_TRUE(!is_taken("small", "seed", "seed", "65536"));
    CHECK_TRUE(!is_taken("small", "seed", "point", "65536"));
    CHECK_TRUE(!is_taken("small", "seed", "mfu", "65536"));
    CHECK_TRUE(!is_taken("small", "seed", "", "65536"));
    CHECK_TRUE(!is_taken("small", "seed", many, "65536"));
    CHECK_TRUE(is_taken("small", "seed", "data.context", many));
    free(many);
}
