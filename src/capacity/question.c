/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "capacity/question.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "cost/flop.h"
#include "cost/states.h"
#include "document/document_set.h"
#include "document/schema_text.h"
#include "operation/money.h"
#include "scenario/scenario_read.h"

enum { MOST_OFFERS = 64, MOST_NODES = 1 << 20 };

#define LIMIT(i) (offsetof(struct question, limit) + (i) * sizeof(double))

static const struct schema_key question_keys[] = {
    {"tokens", SCHEMA_REAL, "tokens", 1, 1e15, NULL, NULL, "tokens of the whole training: 2e12",
     offsetof(struct question, tokens)},
    {"days", SCHEMA_REAL, "days", 1e-3, 1e6, "none", "none", "longest time that the training may take",
     LIMIT(LIMIT_DAYS)},
    {"usd", SCHEMA_REAL, "$", 1e-3, 1e15, "none", "none", "most money; every offer then needs a price",
     LIMIT(LIMIT_USD)},
    {"mwh", SCHEMA_REAL, "MWh", 1e-6, 1e12, "none", "none", "most energy; every offer then needs a known power",
     LIMIT(LIMIT_MWH)},
    {"gpus", SCHEMA_REAL, "GPUs", 1, 1e9, "none", "none", "most GPUs, with those of spare nodes", LIMIT(LIMIT_GPUS)},
    {"confidence", SCHEMA_REAL, "-", 0.5, 0.99, "0.9", NULL,
     "share of the drawn trainings that keep the limits with the safe answer", offsetof(struct question, confidence)},
    {"one_plan", SCHEMA_BOOL, "-", 0, 0, "false", NULL, "all phases have one plan",
     offsetof(struct question, one_plan)},
};
enum { N_QUESTION_KEYS = sizeof question_keys / sizeof *question_keys };

static const struct schema_key offer_keys[] = {
    {"name", SCHEMA_WORD, "-", 0, 0, NULL, NULL, "name of the offer in results", offsetof(struct offer, name)},
    {"nodes.from", SCHEMA_INT, "nodes", 1, MOST_NODES, NULL, NULL, "least number of nodes, without spares",
     offsetof(struct offer, from)},
    {"nodes.to", SCHEMA_INT, "nodes", 1, MOST_NODES, NULL, NULL, "largest number of nodes, without spares",
     offsetof(struct offer, to)},
};
enum { N_OFFER_KEYS = sizeof offer_keys / sizeof *offer_keys };

#define PHASE(field) offsetof(struct phase, field)
static const struct schema_key phase_keys[] = {
    {"tokens", SCHEMA_REAL, "tokens", 1, 1e15, NULL, NULL, "tokens of the phase", PHASE(tokens)},
    {"context", SCHEMA_TEXT, "-", 0, 0, "", NULL, "its data.context; without it that of the scenario", PHASE(context)},
    {"lengths", SCHEMA_TEXT, "-", 0, 0, "", NULL, "its data.lengths, likewise", PHASE(lengths)},
    {"batch", SCHEMA_TEXT, "-", 0, 0, "", NULL, "its data.global_batch_tokens, likewise", PHASE(batch)},
};
enum { N_PHASE_KEYS = sizeof phase_keys / sizeof *phase_keys };

static const char *const of_scenario[] = {"device", "platform", "precision", "power", "price", "reliability", NULL};
static const char *const question_others[] = {"offers", "phases", NULL};

const char *const capacity_limit_name[CAPACITY_N_LIMITS] = {"days", "usd", "mwh", "gpus"};

bool question_is_limited(const struct question *question)
{
    const double *limit = question->limit;
    return !isnan(limit[LIMIT_DAYS]) || !isnan(limit[LIMIT_USD]) || !isnan(limit[LIMIT_MWH]);
}

bool question_asks_for_fastest(const struct question *question)
{
    bool other_limits = false;
    for (enum capacity_limit i = LIMIT_USD; i < CAPACITY_N_LIMITS; i++)
        other_limits = other_limits || !isnan(question->limit[i]);
    return other_limits && isnan(question->limit[LIMIT_DAYS]);
}

int64_t offer_gpus(const struct offer *offer, int64_t nodes)
{
    return nodes * platform_gpus_per_server(&offer->scenario.platform);
}

struct goodput_setting offer_setting(const struct offer *offer, int64_t nodes)
{
    const struct scenario *scenario = &offer->scenario;
    return (struct goodput_setting){
        .reliability = &scenario->reliability,
        .n_servers = nodes,
        .gpus_per_server = platform_gpus_per_server(&scenario->platform),
        .parameters = cost_model_parameters(&scenario->model) + cost_mtp_parameters(&scenario->model),
        .pcie_bytes_per_s = scenario->platform.pcie_bytes_per_s,
    };
}

int64_t offer_least_spares(const struct offer *offer)
{
    const struct reliability *reliability = &offer->scenario.reliability;
    return reliability->present && !isnan(reliability->spares) ? (int64_t)reliability->spares : 0;
}

int64_t offer_most_spares(const struct offer *offer, int64_t nodes)
{
    struct goodput_setting setting = offer_setting(offer, nodes);
    return offer->scenario.reliability.present ? goodput_spares(&setting) : 0;
}

double question_least_days(const struct question *question, const struct offer *offer, int64_t nodes)
{
    const struct scenario *scenario = &offer->scenario;
    const int32_t token = 1;
    double flop = question->tokens * flop_model_of_samples(&scenario->model, &token, 1);
    return flop / ((double)offer_gpus(offer, nodes) * scenario->device.peak_flop_per_s[PRECISION_BF16]) / 86400;
}

/** Copy a document without some keys of its root. */
static void copy_without(const struct document *from, const char *const *keys, struct document *to)
{
    document_copy(from, *keys, to);
    for (keys++; *keys != NULL; keys++) {
        struct document copy;
        document_copy(to, *keys, &copy);
        document_free(to);
        *to = copy;
    }
}

/** A key of `data:` that a phase replaces; NULL: it does not. */
struct replaced {
    const char *key, *value;
};
enum { N_REPLACED = 4 };

/** List the keys that a phase replaces. Its batch counts tokens, so that the scenario's documents no longer count. */
static void replaced_by(const struct phase *phase, struct replaced replaced[N_REPLACED])
{
    const bool batch = *phase->batch != '\0';
    replaced[0] = (struct replaced){"data.context", *phase->context != '\0' ? phase->context : NULL};
    replaced[1] = (struct replaced){"data.lengths", *phase->lengths != '\0' ? phase->lengths : NULL};
    replaced[2] = (struct replaced){"data.global_batch", batch ? "0" : NULL};
    replaced[3] = (struct replaced){"data.global_batch_tokens", batch ? phase->batch : NULL};
}

/** Make the scenario of an offer and a phase with its smallest size, or with the largest one if `faults:` may name a
 * later node. */
static bool resolve_phase(const struct question *question, struct offer *offer, int32_t phase,
                          struct scenario_cache *cache, struct scenario *scenario, struct error *err)
{
    static const char *const left_out[] = {"capacity", "sweep", NULL};
    struct document copy;
    char nodes[32];
    bool ok = true;
    copy_without(&question->document, left_out, &copy);
    for (int i = 0; of_scenario[i] != NULL && ok; i++) {
        int32_t value = document_find(&question->document, offer->node, of_scenario[i]);
        ok = value < 0 || document_put(&copy, of_scenario[i], &question->document, value, err);
    }
    struct replaced replaced[N_REPLACED];
    replaced_by(&question->phase[phase], replaced);
    for (int i = 0; i < N_REPLACED && ok; i++)
        ok = replaced[i].value == NULL ||
             document_set_value(&copy, replaced[i].key, replaced[i].value, "capacity.phases", err);
    snprintf(nodes, sizeof nodes, "%" PRId64, document_find(&copy, 0, "faults") >= 0 ? offer->to : offer->from);
    ok = ok && document_set_value(&copy, "platform.nodes", nodes, "capacity.offers", err);
    if (!ok) {
        document_free(&copy);
        return false;
    }
    return scenario_resolve(&copy, cache, scenario, err) &&
           scenario_refuse_replay(scenario, "which are of one cluster", err);
}

/** Return whether the interval of a phase's dates and its error of the model are wider than those of another one. */
static bool is_wider(const struct scenario_data *data, const struct scenario_data *other)
{
    bool fixed = strcmp(data->lengths, "fixed") == 0, other_fixed = strcmp(other->lengths, "fixed") == 0;
    return fixed != other_fixed ? other_fixed : data->context > other->context;
}

/** Resolve all phases of an offer, and keep the scenario of the widest. */
static bool resolve_offer(struct question *question, struct offer *offer, struct scenario_cache *cache,
                          struct error *err)
{
    bool ok = true;
    for (int32_t i = 0; ok && i < question->n_phases; i++) {
        struct scenario scenario = {0};
        ok = resolve_phase(question, offer, i, cache, &scenario, err);
        question->phase[i].data = scenario.data;
        struct scenario *narrower = i == 0 || is_wider(&scenario.data, &offer->scenario.data) ? &offer->scenario : NULL;
        scenario_free(narrower != NULL ? narrower : &scenario);
        if (narrower != NULL)
            offer->scenario = scenario;
    }
    return ok;
}

/** Choose the numbers of nodes of an offer that leaves them out. */
static bool choose_range(struct question *question, struct offer *offer, struct scenario_cache *cache,
                         struct error *err)
{
    const int64_t most_times = 8, most_from = MOST_NODES / most_times, most_without_days = 128;
    double days = question->limit[LIMIT_DAYS];
    offer->from = offer->to = most_without_days; /* plans and faults may need many nodes */
    bool ok = resolve_offer(question, offer, cache, err);
    offer->from = 1;
    if (ok && !isnan(days)) {
        offer->from = (int64_t)fmin(ceil(question_least_days(question, offer, 1) / days), (double)most_from);
        offer->to = most_times * offer->from;
    }
    scenario_free(&offer->scenario);
    return ok;
}

/** Check an offer against the limits and the other offers. */
static bool check_offer(const struct question *question, int32_t index, struct error *err)
{
    const struct document *document = &question->document;
    const struct offer *offer = &question->offers[index];
    const struct scenario *scenario = &offer->scenario;
    for (int32_t i = 0; i < index; i++)
        if (strcmp(question->offers[i].name, offer->name) == 0)
            return document_error(document, offer->node, err,
                                  "capacity.offers: two offers have the name '%s'; give each a name of its own",
                                  offer->name);
    if (offer->from > offer->to)
        return document_error(document, offer->node, err,
                              "nodes: from %" PRId64 " to %" PRId64 " is no size; allowed: from <= to", offer->from,
                              offer->to);
    if (!isnan(question->limit[LIMIT_USD]) &&
        isnan(money_usd_per_gpu_hour(&scenario->price, platform_gpus_per_server(&scenario->platform))))
        return document_error(document, offer->node, err,
                              "capacity.usd: the offer %s has no price, so no limit of money can be held; give it a "
                              "price such as {usd_per_gpu_hour: 2}, or leave usd out",
                              offer->name);
    if (!isnan(question->limit[LIMIT_USD]) && !isnan(scenario->price.usd_per_kwh) && scenario->power.gpus == 0)
        return document_error(document, offer->node, err,
                              "capacity.usd: the offer %s has a tariff, but its power is unknown, so no limit of money "
                              "can be held; give it `power:`, or leave usd or usd_per_kwh out",
                              offer->name);
    if (!isnan(question->limit[LIMIT_MWH]) && scenario->power.gpus == 0)
        return document_error(document, offer->node, err,
                              "capacity.mwh: the power of the offer %s is unknown, so no limit of energy can be held; "
                              "give it `power:`, or leave mwh out",
                              offer->name);
    return true;
}

static bool read_offers(struct question *question, int32_t list, struct error *err)
{
    const struct document *document = &question->document;
    struct scenario_cache cache = {0};
    int32_t n = 0;
    bool ok = true;
    if (list < 0 || document->node[list].kind != DOCUMENT_SEQUENCE || document->node[list].child < 0)
        return document_error(document, list >= 0 ? list : document_find(document, 0, "capacity"), err,
                              "capacity.offers: expected a list of at least one {name: ..., nodes: {from: ..., to: "
                              "...}}");
    for (int32_t child = document->node[list].child; child >= 0; child = document->node[child].next)
        n++;
    if (n > MOST_OFFERS)
        return document_error(document, list, err, "capacity.offers: %d offers; at most %d are allowed", n,
                              MOST_OFFERS);
    question->offers = check_calloc((size_t)n, sizeof *question->offers);
    for (int32_t child = document->node[list].child; child >= 0; child = document->node[child].next) {
        struct offer *offer = &question->offers[question->n_offers++];
        bool sized = document_find(document, child, "nodes") >= 0;
        struct schema_key keys[N_OFFER_KEYS];
        memcpy(keys, offer_keys, sizeof keys);
        for (int i = 1; i < N_OFFER_KEYS && !sized; i++)
            keys[i].fallback = "1"; /* choose_range replaces it */
        bool read = schema_read(document, child, keys, N_OFFER_KEYS, of_scenario, offer, err);
        offer->node = child;
        ok = read && (sized || choose_range(question, offer, &cache, err)) &&
             resolve_offer(question, offer, &cache, err) && check_offer(question, question->n_offers - 1, err) && ok;
    }
    cache_free(&cache);
    return ok;
}

/** Read `phases:`. Without them the training is one phase. */
static bool read_phases(struct question *question, int32_t node, struct error *err)
{
    const struct document *document = &question->document;
    int32_t list = document_find(document, node, "phases"), tokens = document_find(document, node, "tokens");
    bool ok = true;
    question->n_phases = 1;
    question->phase[0].tokens = question->tokens;
    if (list < 0 && question->one_plan)
        return document_error(document, document_find(document, node, "one_plan"), err,
                              "capacity.one_plan: there are no `phases:` that could have one plan; leave it out");
    if (list < 0)
        return true;
    if (tokens >= 0)
        return document_error(document, tokens, err,
                              "capacity.tokens: the phases have tokens of their own, so leave it out");
    if (document->node[list].kind != DOCUMENT_SEQUENCE || document->node[list].child < 0)
        return document_error(document, list, err,
                              "capacity.phases: expected a list such as [{tokens: 1.8e12, context: 4Ki}, {tokens: "
                              "2e11, context: 128Ki}]");
    question->n_phases = 0;
    question->tokens = 0;
    for (int32_t child = document->node[list].child; child >= 0; child = document->node[child].next) {
        if (question->n_phases == QUESTION_MOST_PHASES)
            return document_error(document, child, err, "capacity.phases: at most %d are allowed",
                                  QUESTION_MOST_PHASES);
        struct phase *phase = &question->phase[question->n_phases++];
        ok &= schema_read(document, child, phase_keys, N_PHASE_KEYS, NULL, phase, err);
        question->tokens += phase->tokens;
    }
    question->one_plan &= question->n_phases > 1;
    return ok;
}

/** Check that no fault is of a link which the critical path of sizes has not. */
static bool check_faults(const struct document *document, struct error *err)
{
    int32_t list = document_find(document, 0, "faults");
    for (int32_t child = list >= 0 ? document->node[list].child : -1; child >= 0; child = document->node[child].next) {
        int32_t kind = document_find(document, child, "kind");
        const char *name = kind >= 0 && document->node[kind].kind == DOCUMENT_SCALAR ? document->node[kind].value : "";
        for (int above = FAULT_N_OF_GPUS; above < FAULT_N_ENTRIES; above++)
            if (strcmp(name, fault_kind_name[above]) == 0)
                return document_error(
                    document, kind, err,
                    "faults: kind %s has no meaning here, since all sizes are computed on the critical "
                    "path, which has no links above NICs; allowed: gpu, nvlink, nic, pcie",
                    name);
    }
    return true;
}

bool question_read(const char *path, int32_t n_set, const char *const *set, struct question *question,
                   struct error *err)
{
    struct document document = {0};
    *question = (struct question){0};
    bool ok = scenario_read_document(path, n_set, set, &document, err);
    return document.n_nodes > 0 && question_resolve(&document, question, err) && ok;
}

bool question_resolve(struct document *taken, struct question *question, struct error *err)
{
    *question = (struct question){.document = *taken};
    *taken = (struct document){0};
    const struct document *document = &question->document;
    int32_t node = document_find(document, 0, "capacity"), sweep = document_find(document, 0, "sweep");
    if (node < 0)
        return document_error(document, 0, err,
                              "capacity: is required; allowed: {tokens: 2e12, days: 30, offers: [{name: a, nodes: "
                              "{from: 16, to: 128}}]}");
    if (sweep >= 0)
        return document_key_error(document, sweep, err,
                                  "sweep: is not allowed beside `capacity:`, which chooses the sizes; leave it out");
    struct schema_key keys[N_QUESTION_KEYS];
    memcpy(keys, question_keys, sizeof keys);
    if (document_find(document, node, "phases") >= 0)
        keys[0].fallback = "1"; /* read_phases replaces it */
    bool ok = schema_read(document, node, keys, N_QUESTION_KEYS, question_others, question, err);
    return check_faults(document, err) && read_phases(question, node, err) &&
           read_offers(question, document_find(document, node, "offers"), err) && ok;
}

/** Append a node to the children of a mapping or sequence. */
static void append(struct document *document, int32_t parent, const char *key, int32_t child)
{
    int32_t *link = &document->node[parent].child;
    while (*link >= 0)
        link = &document->node[*link].next;
    *link = child;
    document->node[child].next = -1;
    document->node[child].key = key != NULL ? check_strdup(key) : NULL;
}

static void append_text(struct document *document, int32_t parent, const char *key, const char *value)
{
    append(document, parent, key, document_add_scalar(document, value, parent));
}

/** Append a copy of a key's value: of the offer, otherwise of the scenario, if that has one. */
static void append_key(const struct question *question, const struct offer *offer, const char *key, int32_t parent,
                       struct document *document)
{
    const struct document *from = &question->document;
    int32_t value = document_find(from, offer->node, key);
    if (value < 0)
        value = document_find(from, 0, key);
    if (value < 0)
        return;
    int32_t copy = document_clone(document, from, value, NULL);
    append(document, parent, key, copy);
}

static void append_size(const struct question *question, const struct offer *offer, int64_t nodes, int32_t entry,
                        struct document *document)
{
    char size[32], precision[SCHEMA_WORD_BYTES];
    schema_choice_name(PRECISION_NAMES, offer->scenario.precision, precision);
    snprintf(size, sizeof size, "%" PRId64, nodes);
    append_key(question, offer, "device", entry, document);
    append_text(document, entry, "precision", precision);
    append_key(question, offer, "platform", entry, document);
    append_text(document, entry, "platform.nodes", size);
}

const char *question_phase_key(const struct phase *phase, int i, char value[SCHEMA_TEXT_BYTES])
{
    static const char *const keys[] = {"data.lengths", "data.context", "data.global_batch", "data.global_batch_tokens",
                                       NULL};
    const struct scenario_data *data = &phase->data;
    const int64_t whole[] = {0, data->context, data->global_batch, data->global_batch_tokens};
    if (i == 0)
        snprintf(value, SCHEMA_TEXT_BYTES, "%s", data->lengths);
    else if (keys[i] != NULL)
        snprintf(value, SCHEMA_TEXT_BYTES, "%" PRId64, whole[i]);
    return keys[i];
}

void question_sizes(const struct question *question, int32_t n, const int32_t *offers, const int64_t *nodes,
                    struct document *document)
{
    static const char *const left_out[] = {"capacity", "sweep",       "device", "platform", "precision", "power",
                                           "price",    "reliability", "engine", "trace",    "name",      NULL};
    copy_without(&question->document, left_out, document);
    const char *file = document->node[0].file;
    int32_t sweep = document_add_node(document, DOCUMENT_MAPPING, file);
    int32_t zip = document_add_node(document, DOCUMENT_SEQUENCE, file);
    int32_t group = document_add_node(document, DOCUMENT_SEQUENCE, file);
    char *name = check_asprintf("%s.sizes", question->offers[0].scenario.name);
    append_text(document, 0, "name", name);
    append_text(document, 0, "engine", "critical-path");
    append_text(document, 0, "trace", "none");
    append(document, 0, "sweep", sweep);
    append(document, sweep, "zip", zip);
    append(document, zip, NULL, group);
    bool phased = document_find(&question->document, 0, "capacity.phases") >= 0;
    char value[SCHEMA_TEXT_BYTES];
    const char *key;
    for (int32_t i = 0; i < n * question->n_phases; i++) {
        int32_t size = i / question->n_phases;
        int32_t entry = document_add_node(document, DOCUMENT_MAPPING, file);
        append(document, group, NULL, entry);
        append_size(question, &question->offers[offers[size]], nodes[size], entry, document);
        for (int k = 0;
             phased && (key = question_phase_key(&question->phase[i % question->n_phases], k, value)) != NULL; k++)
            append_text(document, entry, key, value);
    }
    free(name);
}

void question_list_keys(const struct schema_listing *listing)
{
    schema_list(listing, question_keys, N_QUESTION_KEYS, "capacity.");
    schema_list(listing, phase_keys, N_PHASE_KEYS, "capacity.phases.N.");
    schema_list(listing, offer_keys, N_OFFER_KEYS, "capacity.offers.N.");
}

void question_free(struct question *question)
{
    for (int32_t i = 0; i < question->n_offers; i++)
        scenario_free(&question->offers[i].scenario);
    free(question->offers);
    document_free(&question->document);
    *question = (struct question){0};
}
