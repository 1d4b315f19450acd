/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "cli/capacity_options.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "document/document_read.h"
#include "document/document_set.h"

static const char assumed[] = "name: question\n"
                              "iterations: {warm_up: 0, measured: 8}\n"
                              "engine: critical-path\n"
                              "plan_space: {name: free}\n"
                              "reliability: llama3\n"
                              "systems: [{name: best-fit, plan: auto}]\n";

static const struct {
    const char *option, *key, *example;
} keys[CAPACITY_N_OPTIONS] = {
    {"--model", "model", "llama3-70b"},     {"--lengths", "data.lengths", "github"},
    {"--context", "data.context", "128Ki"}, {"--batch", "data.global_batch_tokens", "16Mi"},
    {"--tokens", "capacity.tokens", "2T"},  {"--days", "capacity.days", NULL}, /* a limit may be left out */
};

bool capacity_options_any(const struct capacity_options *options)
{
    bool any = options->n_offers > 0;
    for (int i = 0; i < CAPACITY_N_OPTIONS; i++)
        any = any || options->value[i] != NULL;
    return any;
}

/** Write an offer as an entry of `capacity.offers`. */
static bool write_offer(FILE *file, const char *offer, struct error *err)
{
    static const char numbers[] = "0123456789.", ends[] = "@,{}[]'\": \t";
    size_t device = strcspn(offer, ends), precision = 0, price = 0, from = 0, to = 0;
    const char *format = offer + device, *rest = format;
    if (*format == ':') {
        precision = strcspn(++format, ends);
        rest = precision > 0 ? format + precision : "";
    }
    if (*rest == '@')
        price = strspn(++rest, numbers);
    const char *sizes = rest + price;
    if (*sizes == ':') {
        from = strspn(++sizes, numbers);
        to = sizes[from] == '-' ? strspn(sizes + from + 1, numbers) : 0;
    }
    bool sized = sizes > rest + price, ok = device > 0 && price > 0;
    ok = ok && (sized ? from > 0 && to > 0 && sizes[from + 1 + to] == '\0' : *sizes == '\0');
    if (!ok)
        return error_set(err,
                         "--offer '%s': is no offer; allowed: DEVICE@USD_PER_GPU_HOUR, such as h100-sxm@2.5, with a "
                         "precision as b200:fp8-tensor@4, and behind it the numbers of nodes, such as "
                         "h100-sxm@2.5:16-64",
                         offer);
    static const char tensor[] = "-tensor"; /* with it the table of offers exceeds 100 columns */
    bool cut = precision > strlen(tensor) && strncmp(rest - 1 - strlen(tensor), tensor, strlen(tensor)) == 0;
    size_t named = cut ? precision - strlen(tensor) : precision;
    fprintf(file, "{name: %.*s%s%.*s, device: %.*s, price: {usd_per_gpu_hour: %.*s}", (int)device, offer,
            precision > 0 ? "-" : "", (int)named, format, (int)device, offer, (int)price, rest);
    if (precision > 0)
        fprintf(file, ", precision: %.*s", (int)precision, format);
    if (sized)
        fprintf(file, ", nodes: {from: %.*s, to: %.*s}", (int)from, sizes, (int)to, sizes + from + 1);
    fputs("}, ", file);
    return true;
}

/** Return whether two offers have the same device and precision. */
static bool is_same_device(const char *a, const char *b)
{
    size_t n = strcspn(a, "@");
    return n == strcspn(b, "@") && strncmp(a, b, n) == 0;
}

static bool set_offers(const struct capacity_options *options, struct document *document, struct error *err)
{
    char *text = NULL;
    size_t n_bytes;
    FILE *file = check_memstream(&text, &n_bytes);
    bool ok = true;
    fputc('[', file);
    for (int32_t i = 0; i < options->n_offers && ok; i++) {
        ok = write_offer(file, options->offers[i], err);
        for (int32_t k = 0; k < i && ok; k++)
            if (is_same_device(options->offers[i], options->offers[k]))
                ok = error_set(err,
                               "--offer '%s': its device and precision stand in another --offer; allowed: one for each",
                               options->offers[i]);
    }
    fputc(']', file);
    CHECK(fclose(file) == 0);
    ok = ok && document_set_value(document, "capacity.offers", text, "--offer", err);
    free(text);
    return ok;
}

bool capacity_options_document(const struct capacity_options *options, struct document *document, struct error *err)
{
    CHECK(document_parse(assumed, strlen(assumed), "assumed", document, err));
    for (int i = 0; i < CAPACITY_N_OPTIONS; i++)
        if (options->value[i] == NULL && keys[i].example != NULL)
            return error_set(err, "%s is missing: without a file a question needs it, such as %s %s", keys[i].option,
                             keys[i].option, keys[i].example);
    if (options->n_offers == 0)
        return error_set(err, "--offer is missing: without a file a question needs it, such as --offer h100-sxm@2.5");
    bool ok = true;
    for (int i = 0; i < CAPACITY_N_OPTIONS; i++)
        ok = (options->value[i] == NULL ||
              document_set_value(document, keys[i].key, options->value[i], keys[i].option, err)) &&
             ok;
    return set_offers(options, document, err) && ok;
}
