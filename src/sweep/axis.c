/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "sweep/axis.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "document/document_set.h"
#include "document/quantity.h"

bool sweep_present(const struct document *document)
{
    return document_find(document, 0, "sweep") >= 0;
}

/** Count the children of a node; a negative node has none. */
static int32_t n_children(const struct document *document, int32_t node)
{
    int32_t n = 0;
    for (int32_t child = node >= 0 ? document->node[node].child : -1; child >= 0; child = document->node[child].next)
        n++;
    return n;
}

/** Add an axis of one or several keys. The caller fills in its values. */
static struct axis *add_axis(struct sweep *sweep, int32_t n_keys, int32_t n_values)
{
    sweep->axes = check_grow(sweep->axes, (size_t)sweep->n_axes, &sweep->axis_capacity, sizeof *sweep->axes);
    struct axis *axis = &sweep->axes[sweep->n_axes++];
    *axis = (struct axis){.n_keys = n_keys, .n_values = n_values};
    axis->key = check_calloc((size_t)n_keys, sizeof *axis->key);
    axis->node = check_calloc((size_t)n_keys * (size_t)n_values, sizeof *axis->node);
    return axis;
}

static void axis_free(struct axis *axis)
{
    free(axis->key);
    free(axis->node);
}

static bool too_many(const struct document *document, int32_t node, double n, const char *what, struct error *err)
{
    return document_error(document, node, err,
                          "%s: %.15g points; a sweep has at most %d, before `exclude`. Give it fewer values (--sweep "
                          "KEY=V1,V2 replaces a key's), in several runs with different names (--set name=NAME)",
                          what, n, AXIS_MAX_POINTS);
}

/** Read the numbers of `range: [from, to, step]` or `log2: [from, to]`. @return number of values; 0 with err */
static int32_t read_bounds(const struct document *document, int32_t node, bool log2, double bound[3], struct error *err)
{
    static const char expected[] = "expected [from, to] or [from, to, step] with from <= to, step > 0";
    int32_t n = 0, list = document->node[node].child;
    bound[0] = bound[1] = 0;
    bound[2] = 1;
    if (n_children(document, node) != 1 || document->node[list].kind != DOCUMENT_SEQUENCE) {
        document_error(document, node, err, "%s: %s", log2 ? "log2" : "range", expected);
        return 0;
    }
    for (int32_t child = document->node[list].child; child >= 0; child = document->node[child].next, n++)
        if (n == 3 || document->node[child].kind != DOCUMENT_SCALAR || document->node[child].quoted ||
            !quantity_parse(document->node[child].value, "-", &bound[n]))
            n = INT16_MIN;
    bool ok = (n == 2 || (n == 3 && !log2)) && bound[0] <= bound[1] && bound[2] > 0 && (!log2 || bound[0] > 0);
    double count = log2 ? floor(log(bound[1] / bound[0]) / log(2) + 1e-9) + 1
                        : floor((bound[1] - bound[0]) / bound[2] * (1 + 1e-12) + 1e-9) + 1;
    if (!ok)
        document_error(document, list, err, "%s: %s%s", log2 ? "log2" : "range", expected,
                       log2 ? "; log2 doubles from a number above 0 and takes no step" : "");
    else if (count > AXIS_MAX_POINTS)
        too_many(document, list, count, log2 ? "log2" : "range", err);
    else
        return (int32_t)count;
    return 0;
}

/** Add an axis {range: ...} or {log2: ...}. */
static bool add_range(struct sweep *sweep, int32_t node, const char *key, struct error *err)
{
    struct document *document = &sweep->document;
    int32_t inside = document->node[node].child;
    bool log2 = inside >= 0 && strcmp(document->node[inside].key, "log2") == 0;
    double bound[3];
    if (!log2 && (inside < 0 || strcmp(document->node[inside].key, "range") != 0))
        return document_error(document, node, err,
                              "%s: expected a list of values, {range: [from, to, step]} or {log2: [from, to]}", key);
    int32_t n = read_bounds(document, node, log2, bound, err);
    if (n == 0)
        return false;
    struct axis *axis = add_axis(sweep, 1, n);
    axis->key[0] = key;
    for (int32_t i = 0; i < n; i++) {
        double value = log2 ? ldexp(bound[0], i) : bound[0] + i * bound[2];
        char text[32];
        snprintf(text, sizeof text, fabs(value) < 1e15 && value == floor(value) ? "%.0f" : "%.12g", value);
        axis->node[i] = document_add_scalar(document, text, node);
    }
    return true;
}

static bool add_list(struct sweep *sweep, int32_t node, const char *key, struct error *err)
{
    struct document *document = &sweep->document;
    if (document->node[node].kind == DOCUMENT_MAPPING)
        return add_range(sweep, node, key, err);
    if (document->node[node].kind != DOCUMENT_SEQUENCE || document->node[node].child < 0)
        return document_error(document, node, err, "%s: expected a list of at least one value, such as [1, 2]", key);
    struct axis *axis = add_axis(sweep, 1, n_children(document, node));
    int32_t i = 0;
    axis->key[0] = key;
    for (int32_t child = document->node[node].child; child >= 0; child = document->node[child].next)
        axis->node[i++] = child;
    return true;
}

/** Add a group of zip that is a mapping, key: [values] each. */
static bool zip_lists(struct sweep *sweep, int32_t group, struct error *err)
{
    const struct document *document = &sweep->document;
    int32_t first = document->node[group].child, n_values = first >= 0 ? n_children(document, first) : 0, column = 0;
    for (int32_t list = first; list >= 0; list = document->node[list].next)
        if (document->node[list].kind != DOCUMENT_SEQUENCE || n_children(document, list) != n_values || n_values == 0)
            return document_error(document, list, err,
                                  "zip: %s has %d values, %s has %d; expected lists of the same length, at least one",
                                  document->node[list].key, n_children(document, list), document->node[first].key,
                                  n_values);
    struct axis *axis = add_axis(sweep, n_children(document, group), n_values);
    for (int32_t list = first; list >= 0; list = document->node[list].next, column++) {
        int32_t i = 0;
        axis->key[column] = document->node[list].key;
        for (int32_t child = document->node[list].child; child >= 0; child = document->node[child].next)
            axis->node[i++ * axis->n_keys + column] = child;
    }
    return true;
}

/** Add a group of zip that is a list of mappings with the same keys. */
static bool zip_mappings(struct sweep *sweep, int32_t group, struct error *err)
{
    const struct document *document = &sweep->document;
    int32_t first = document->node[group].child, n_keys = n_children(document, first), i = 0;
    struct axis *axis = add_axis(sweep, n_keys, n_children(document, group));
    for (int32_t child = n_keys > 0 ? document->node[first].child : -1; child >= 0; child = document->node[child].next)
        axis->key[i++] = document->node[child].key;
    i = 0;
    for (int32_t entry = first; entry >= 0; entry = document->node[entry].next, i++) {
        bool same = document->node[entry].kind == DOCUMENT_MAPPING && n_children(document, entry) == n_keys;
        for (int32_t column = 0; same && column < n_keys; column++) {
            int32_t value = document->node[entry].child;
            while (value >= 0 && strcmp(document->node[value].key, axis->key[column]) != 0)
                value = document->node[value].next;
            axis->node[i * n_keys + column] = value;
            same = value >= 0;
        }
        if (!same || n_keys == 0)
            return document_error(document, entry, err,
                                  "zip: expected mappings of the same keys in all entries of a group");
    }
    return true;
}

static bool read_zip(struct sweep *sweep, int32_t zip, struct error *err)
{
    const struct document *document = &sweep->document;
    bool ok = true;
    if (document->node[zip].kind != DOCUMENT_SEQUENCE || document->node[zip].child < 0)
        return document_error(document, zip, err,
                              "zip: expected a list of groups, such as [{model: [a, b], platform: [c, d]}]");
    for (int32_t group = document->node[zip].child; group >= 0; group = document->node[group].next) {
        bool empty = document->node[group].child < 0;
        if (document->node[group].kind == DOCUMENT_SCALAR || empty)
            ok = document_error(document, group, err, "zip: expected {key: [values], ...} or [{key: value, ...}, ...]");
        else
            ok &= document->node[group].kind == DOCUMENT_MAPPING ? zip_lists(sweep, group, err)
                                                                 : zip_mappings(sweep, group, err);
    }
    return ok;
}

/** Join the axes of `each:` into one: the scenario itself, then each value of each key alone. */
static void join_each(struct sweep *sweep, int32_t first, int32_t n_values)
{
    int32_t n_keys = sweep->n_axes - first, row = 1;
    struct axis joined = *add_axis(sweep, n_keys, 1 + n_values);
    for (int32_t i = 0; i < n_keys * joined.n_values; i++)
        joined.node[i] = -1;
    for (int32_t k = 0; k < n_keys; k++) {
        struct axis *axis = &sweep->axes[first + k];
        joined.key[k] = axis->key[0];
        for (int32_t i = 0; i < axis->n_values; i++)
            joined.node[row++ * n_keys + k] = axis->node[i];
        axis_free(axis);
    }
    sweep->axes[first] = joined;
    sweep->n_axes = first + 1;
}

static bool read_each(struct sweep *sweep, int32_t each, struct error *err)
{
    const struct document *document = &sweep->document;
    int32_t first = sweep->n_axes;
    double n_values = 0;
    bool ok = true;
    if (document->node[each].kind != DOCUMENT_MAPPING || document->node[each].child < 0)
        return document_error(document, each, err,
                              "each: expected keys of the scenario, each with a list of its values");
    for (int32_t child = document->node[each].child; child >= 0; child = sweep->document.node[child].next)
        ok &= add_list(sweep, child, sweep->document.node[child].key, err);
    for (int32_t a = first; a < sweep->n_axes; a++)
        n_values += sweep->axes[a].n_values;
    if (n_values >= AXIS_MAX_POINTS)
        return too_many(document, each, 1 + n_values, "each", err);
    if (ok)
        join_each(sweep, first, (int32_t)n_values);
    return ok;
}

static bool read_exclude(struct sweep *sweep, int32_t exclude, struct error *err)
{
    const struct document *document = &sweep->document;
    bool ok = true;
    if (document->node[exclude].kind != DOCUMENT_SEQUENCE)
        return document_error(document, exclude, err, "exclude: expected a list of {where: {...}, reason: ...}");
    for (int32_t entry = document->node[exclude].child; entry >= 0; entry = document->node[entry].next) {
        int32_t where = document_find(document, entry, "where"), reason = document_find(document, entry, "reason");
        bool good = where >= 0 && reason >= 0 && n_children(document, entry) == 2 &&
                    document->node[where].kind == DOCUMENT_MAPPING && document->node[where].child >= 0 &&
                    document->node[reason].kind == DOCUMENT_SCALAR && *document->node[reason].value != '\0';
        if (!good) {
            ok = document_error(document, entry, err, "exclude: expected {where: {key: value, ...}, reason: text}");
            continue;
        }
        sweep->exclusions = check_grow(sweep->exclusions, (size_t)sweep->n_exclusions, &sweep->exclusion_capacity,
                                       sizeof *sweep->exclusions);
        sweep->exclusions[sweep->n_exclusions++] =
            (struct exclusion){.where = where, .reason = document->node[reason].value};
    }
    return ok;
}

/** Add the seeds s, s + 1, ... after the scenario's seed s. */
static bool read_replicates(struct sweep *sweep, int32_t node, struct error *err)
{
    struct document *document = &sweep->document;
    int32_t seed = document_find(document, 0, "seed");
    double n = 0, first = 1;
    if (document->node[node].kind != DOCUMENT_SCALAR || document->node[node].quoted ||
        !quantity_parse(document->node[node].value, "-", &n) || n != floor(n) || n < 1)
        return document_error(document, node, err, "replicates: expected a whole number from 1 to %d", AXIS_MAX_POINTS);
    if (n > AXIS_MAX_POINTS)
        return too_many(document, node, n, "replicates", err);
    if (seed >= 0 && (document->node[seed].kind != DOCUMENT_SCALAR || document->node[seed].quoted ||
                      !quantity_parse(document->node[seed].value, "-", &first) || fabs(first) > 0x1p52))
        return document_error(document, seed, err, "seed: expected a whole number up to 2^52 with replicates");
    struct axis *axis = add_axis(sweep, 1, (int32_t)n);
    axis->key[0] = "seed";
    for (int32_t i = 0; i < axis->n_values; i++) {
        char text[32];
        snprintf(text, sizeof text, "%.0f", first + i);
        axis->node[i] = document_add_scalar(document, text, node);
    }
    return true;
}

/** Refuse a key that two axes vary, that --set also sets, or that may not vary. */
static bool check_column(const struct sweep *sweep, int32_t column, int32_t at, struct error *err)
{
    const struct document *document = &sweep->document;
    const char *key = sweep->column[column];
    int32_t base = document_find(document, 0, key);
    if (strcmp(key, "name") == 0 || strncmp(key, "sweep", 5) == 0)
        return document_error(document, at, err, "sweep: '%s' cannot vary: it names the files of all points", key);
    for (int32_t i = 0; i < column; i++)
        if (strcmp(sweep->column[i], key) == 0)
            return document_error(document, at, err, "sweep: '%s' varies twice; a key may vary in one place", key);
    if (base >= 0 && strncmp(document->node[base].file, "--set '", 7) == 0)
        return document_error(document, at, err, "sweep: %s sets a key that is swept here; use one of them",
                              document->node[base].file);
    return true;
}

/** Return the first value of an axis's key, for messages. */
static int32_t place_of(const struct axis *axis, int32_t key)
{
    int32_t row = 0;
    while (axis->node[row * axis->n_keys + key] < 0)
        row++;
    return axis->node[row * axis->n_keys + key];
}

static bool read_columns(struct sweep *sweep, struct error *err)
{
    bool ok = true;
    double n = 1;
    for (int32_t a = 0; a < sweep->n_axes; a++) {
        sweep->n_columns += sweep->axes[a].n_keys;
        n *= sweep->axes[a].n_values;
    }
    sweep->column = check_calloc((size_t)sweep->n_columns, sizeof *sweep->column);
    for (int32_t a = 0, column = 0; a < sweep->n_axes; a++)
        for (int32_t k = 0; k < sweep->axes[a].n_keys; k++, column++) {
            sweep->column[column] = sweep->axes[a].key[k];
            ok &= check_column(sweep, column, place_of(&sweep->axes[a], k), err);
        }
    if (n > AXIS_MAX_POINTS)
        return too_many(&sweep->document, document_find(&sweep->document, 0, "sweep"), n, "sweep", err);
    return ok;
}

/** Return the node that holds the value of an axis's key at a combination of the grid. @return -1: left as it is */
static int32_t value_node(const struct sweep *sweep, int64_t combination, int32_t axis, int32_t key)
{
    for (int32_t a = sweep->n_axes - 1; a > axis; a--)
        combination /= sweep->axes[a].n_values;
    const struct axis *at = &sweep->axes[axis];
    return at->node[combination % at->n_values * at->n_keys + key];
}

/** Return whether a path is that of a key or lies below it. */
static bool is_at_or_below(const char *path, const char *key)
{
    size_t length = strlen(key);
    return strncmp(key, path, length) == 0 && (path[length] == '.' || path[length] == '\0');
}

/** Find the value at a path in a combination. The last axis that has it decides, otherwise the scenario; -1: none. */
static int32_t find_value(const struct sweep *sweep, int32_t combination, const char *path)
{
    for (int32_t a = sweep->n_axes - 1; a >= 0; a--)
        for (int32_t k = sweep->axes[a].n_keys - 1; k >= 0; k--) {
            const char *key = sweep->axes[a].key[k];
            int32_t value = is_at_or_below(path, key) ? value_node(sweep, combination, a, k) : -1;
            size_t length = strlen(key);
            if (value >= 0)
                return document_find(&sweep->document, value, path + length + (path[length] == '.'));
        }
    return document_find(&sweep->document, 0, path);
}

static bool compares(double value, double bound, char sign, bool equal)
{
    if (sign == '<')
        return equal ? value <= bound : value < bound;
    return equal ? value >= bound : value > bound;
}

/** Compare a value with one condition: equal, or "<n", "<=n", ">n", ">=n", "!=x". Two numbers compare as numbers. */
static bool satisfies(const struct document *document, int32_t value, int32_t condition)
{
    const struct document_node *at = &document->node[condition];
    char *text = document_text(document, value);
    char *wanted = at->kind == DOCUMENT_SCALAR ? check_strdup(at->value) : document_text(document, condition);
    const char *rest = wanted + strspn(wanted, "<>!="), *plain = document->node[value].value;
    rest += strspn(rest, " ");
    bool equal = strchr(wanted, '=') != NULL && strchr(wanted, '=') < rest, negated = *wanted == '!';
    double number, bound;
    bool both = plain != NULL && quantity_parse(plain, "-", &number) && quantity_parse(rest, "-", &bound), ok;
    if (*wanted == '<' || *wanted == '>')
        ok = both && compares(number, bound, *wanted, equal);
    else
        ok = (both ? number == bound : strcmp(plain != NULL ? plain : text, rest) == 0) != negated;
    free(text);
    free(wanted);
    return ok;
}

/** Return whether a path is set by `each:`, so that some points may lack it. */
static bool is_of_each(const struct sweep *sweep, const char *path)
{
    for (int32_t a = 0; a < sweep->n_axes; a++)
        for (int32_t k = 0; k < sweep->axes[a].n_keys; k++)
            if (sweep->axes[a].node[k] < 0 && is_at_or_below(path, sweep->axes[a].key[k]))
                return true;
    return false;
}

/** Refuse a condition on a missing key. It would silently exclude nothing. */
static bool check_conditions(const struct sweep *sweep, const struct exclusion *exclusion, struct error *err)
{
    const struct document *document = &sweep->document;
    bool ok = true;
    for (int32_t child = document->node[exclusion->where].child; child >= 0; child = document->node[child].next)
        if (find_value(sweep, 0, document->node[child].key) < 0 && !is_of_each(sweep, document->node[child].key))
            ok = document_key_error(document, child, err,
                                    "exclude: '%s' is neither a key of the scenario nor a swept key",
                                    document->node[child].key);
    return ok;
}

/** Return whether all conditions of an exclusion hold. The conditions in a list are alternatives. */
static bool excludes(const struct sweep *sweep, const struct exclusion *exclusion, int32_t combination)
{
    const struct document *document = &sweep->document;
    for (int32_t child = document->node[exclusion->where].child; child >= 0; child = document->node[child].next) {
        int32_t value = find_value(sweep, combination, document->node[child].key);
        bool any = false, list = document->node[child].kind == DOCUMENT_SEQUENCE;
        for (int32_t entry = list ? document->node[child].child : child; entry >= 0 && value >= 0 && !any;
             entry = list ? document->node[entry].next : -1)
            any = satisfies(document, value, entry);
        if (!any)
            return false;
    }
    return true;
}

/** Number the combinations that no exclusion leaves out. */
static bool number_points(struct sweep *sweep, struct error *err)
{
    int32_t n = 1;
    bool ok = true;
    for (int32_t a = 0; a < sweep->n_axes; a++)
        n *= sweep->axes[a].n_values;
    for (int32_t e = 0; e < sweep->n_exclusions; e++)
        ok &= check_conditions(sweep, &sweep->exclusions[e], err);
    sweep->combination = check_calloc((size_t)n, sizeof *sweep->combination);
    for (int32_t i = 0; i < n && ok; i++) {
        bool excluded = false;
        for (int32_t e = 0; e < sweep->n_exclusions && !excluded; e++)
            if (excludes(sweep, &sweep->exclusions[e], i)) {
                sweep->exclusions[e].n_points++;
                excluded = true;
            }
        if (!excluded)
            sweep->combination[sweep->n_points++] = i;
    }
    if (ok && sweep->n_points == 0)
        return document_error(&sweep->document, document_find(&sweep->document, 0, "sweep"), err,
                              "sweep: `exclude` leaves no point");
    return ok;
}

bool sweep_read(struct document *document, struct sweep *sweep, struct error *err)
{
    *sweep = (struct sweep){.document = *document};
    *document = (struct document){0};
    struct document *taken = &sweep->document;
    int32_t node = document_find(taken, 0, "sweep");
    bool ok = true;
    if (node >= 0 && taken->node[node].kind != DOCUMENT_MAPPING && !document_is_null(&taken->node[node]))
        return document_error(taken, node, err, "sweep: expected keys of the scenario, each with a list of its values");
    for (int32_t child = node >= 0 ? taken->node[node].child : -1; child >= 0; child = taken->node[child].next)
        if (strcmp(taken->node[child].key, "zip") == 0)
            ok &= read_zip(sweep, child, err);
        else if (strcmp(taken->node[child].key, "each") == 0)
            ok &= read_each(sweep, child, err);
        else if (strcmp(taken->node[child].key, "exclude") == 0)
            ok &= read_exclude(sweep, child, err);
        else if (strcmp(taken->node[child].key, "replicates") != 0) /* replicates are read last, so they vary fastest */
            ok &= add_list(sweep, child, taken->node[child].key, err);
    int32_t replicates = document_find(taken, node, "replicates");
    if (replicates >= 0)
        ok &= read_replicates(sweep, replicates, err);
    return ok && read_columns(sweep, err) && number_points(sweep, err);
}

bool sweep_point(const struct sweep *sweep, int32_t point, struct document *document, struct error *err)
{
    bool ok = true;
    document_copy(&sweep->document, "sweep", document);
    for (int32_t a = 0; a < sweep->n_axes; a++)
        for (int32_t k = 0; k < sweep->axes[a].n_keys; k++) {
            int32_t value = value_node(sweep, sweep->combination[point], a, k);
            ok &= value < 0 || document_put(document, sweep->axes[a].key[k], &sweep->document, value, err);
        }
    return ok;
}

/** Return the value that a key has if its axis leaves it as it is; -1: none. `{name: W}` is W. */
static int32_t value_as_is(const struct sweep *sweep, int32_t combination, const char *key)
{
    const struct document *document = &sweep->document;
    int32_t node = find_value(sweep, combination, key);
    int32_t child = node >= 0 && document->node[node].kind == DOCUMENT_MAPPING ? document->node[node].child : -1;
    bool named = child >= 0 && document->node[child].next < 0 && strcmp(document->node[child].key, "name") == 0;
    return named ? child : node;
}

char *sweep_value(const struct sweep *sweep, int32_t point, int32_t column)
{
    int32_t axis = 0, key = column;
    for (; key >= sweep->axes[axis].n_keys; axis++)
        key -= sweep->axes[axis].n_keys;
    int32_t node = value_node(sweep, sweep->combination[point], axis, key);
    if (node < 0)
        node = value_as_is(sweep, sweep->combination[point], sweep->column[column]);
    if (node < 0)
        return check_strdup("default");
    const char *plain = sweep->document.node[node].value;
    return plain != NULL ? check_strdup(plain) : document_text(&sweep->document, node);
}

void sweep_free(struct sweep *sweep)
{
    for (int32_t a = 0; a < sweep->n_axes; a++)
        axis_free(&sweep->axes[a]);
    free(sweep->axes);
    free(sweep->exclusions);
    free(sweep->combination);
    free(sweep->column);
    document_free(&sweep->document);
    *sweep = (struct sweep){0};
}
