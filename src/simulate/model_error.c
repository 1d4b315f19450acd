/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "simulate/model_error.h"

#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "document/document_read.h"
#include "document/schema.h"

/** The errors of one group of runs. */
struct group {
    char framework[SCHEMA_WORD_BYTES]; /* "": all */
    char family[SCHEMA_WORD_BYTES];    /* of their devices; "": several */
    char devices[SCHEMA_TEXT_BYTES];   /* devices of scenarios that the group is for, separated by blanks; "": all */
    int64_t rows;
    double bias, deviation;
};

#define FIELD(field) offsetof(struct group, field)

static const struct schema_key keys[] = {
    {"framework", SCHEMA_WORD, "-", 0, 0, "", NULL, "framework of the runs; default: all", FIELD(framework)},
    {"family", SCHEMA_WORD, "-", 0, 0, "", NULL, "family of their devices; default: several", FIELD(family)},
    {"devices", SCHEMA_TEXT, "-", 0, 0, "", NULL,
     "devices of scenarios that the group is for, separated by blanks; default: all", FIELD(devices)},
    {"rows", SCHEMA_INT, "runs", 2, INT32_MAX, NULL, NULL, "number of runs", FIELD(rows)},
    {"bias", SCHEMA_REAL, "-", -1, 10, NULL, NULL, "mean of predicted / measured - 1", FIELD(bias)},
    {"deviation", SCHEMA_REAL, "-", 0, 10, NULL, NULL, "its sample standard deviation", FIELD(deviation)},
};
enum { N_KEYS = sizeof keys / sizeof *keys };
static const char *const others[] = {"source", "groups", NULL};

static bool is_like(const struct group *group, const struct scenario *scenario)
{
    return (*group->framework == '\0' || strcmp(group->framework, scenario->framework_name) == 0) &&
           (*group->devices == '\0' || text_has_word(group->devices, scenario->device.name));
}

/** Fill in an error. A family without devices is that of all runs of the framework, so the scenario's is another one.
 */
static void fill_in(const struct group *group, const char *device, struct model_error *error)
{
    bool other = *group->family != '\0' && *group->devices == '\0';
    *error = (struct model_error){.n_rows = (int32_t)group->rows, .bias = group->bias, .deviation = group->deviation};
    snprintf(error->basis, sizeof error->basis, "%d measured runs of %s on %s%s%s", error->n_rows,
             *group->framework != '\0' ? group->framework : "all frameworks",
             *group->family != '\0' ? group->family : "all devices", other ? ", none on " : "", other ? device : "");
}

bool model_error_read(const char *data_dir, const struct scenario *scenario, struct model_error *error,
                      struct error *err)
{
    char path[1024];
    struct document document = {0};
    struct group group = {0};
    bool found = false;
    snprintf(path, sizeof path, "%s/model/model_error.yaml", data_dir);
    bool ok = document_read(path, &document, err) && schema_read(&document, 0, NULL, 0, others, NULL, err);
    int32_t groups = ok ? document_find(&document, 0, "groups") : -1;
    for (int32_t child = groups >= 0 ? document.node[groups].child : -1; ok && !found && child >= 0;
         child = document.node[child].next) {
        ok = schema_read(&document, child, keys, N_KEYS, NULL, &group, err);
        found = ok && is_like(&group, scenario);
    }
    if (found)
        fill_in(&group, scenario->device.name, error);
    else if (ok)
        ok = document_error(&document, groups, err, "groups: none is for framework %s on device %s",
                            scenario->framework_name, scenario->device.name);
    document_free(&document);
    return ok;
}
