/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "capacity/notes.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "document/library.h"

struct notes {
    int32_t n;
    char (*lines)[ASSUMPTIONS_SIZE];
};

/** Add a sentence unless another offer has added it. */
static void add(struct notes *notes, const char *line)
{
    for (int32_t i = 0; i < notes->n; i++)
        if (strcmp(notes->lines[i], line) == 0)
            return;
    if (notes->n < NOTES_MOST)
        strcpy(notes->lines[notes->n++], line);
}

/** Return the node of an offer's platform, -1 if it is written nowhere. */
static int32_t platform_node(const struct question *question, const struct offer *offer)
{
    int32_t own = document_find(&question->document, offer->node, "platform");
    return own >= 0 ? own : document_find(&question->document, 0, "platform");
}

/** Return whether an offer's platform is written with this key. */
static bool has_key(const struct question *question, const struct offer *offer, const char *key)
{
    return document_find(&question->document, platform_node(question, offer), key) >= 0;
}

/** Add a sentence if the platform's name has a number of nodes, as hopper-16x8. */
static void add_size_of_name(const struct question *question, const struct offer *offer, struct notes *notes)
{
    const struct document *document = &question->document;
    int32_t node = platform_node(question, offer), name_node = document_find(document, node, "name");
    char line[ASSUMPTIONS_SIZE];
    if (name_node >= 0)
        node = name_node;
    const char *name = node >= 0 && document->node[node].kind == DOCUMENT_SCALAR ? document->node[node].value : "";
    const char *dash = library_is_path(name, ".yaml") ? NULL : strrchr(name, '-');
    if (dash != NULL && strcmp(dash, "-free") == 0)
        while (dash > name && *--dash != '-')
            ;
    size_t n_digits = dash != NULL ? strspn(dash + 1, "0123456789") : 0;
    if (n_digits == 0 || dash[1 + n_digits] != 'x' || strspn(dash + 2 + n_digits, "0123456789") == 0)
        return;
    snprintf(line, sizeof line, "the number of nodes in platform %s has no effect: each offer has nodes of its own",
             name);
    add(notes, line);
}

/** Add what `run` says about oversubscription, here at the offer's largest size. */
static void add_oversubscription(const struct offer *offer, struct notes *notes)
{
    char line[ASSUMPTIONS_SIZE];
    struct scenario *largest = check_malloc(sizeof *largest);
    *largest = offer->scenario; /* it borrows everything */
    largest->platform.keys.nodes = offer->to;
    largest->platform.n_nodes = (int32_t)offer->to;
    if (assumptions_oversubscription(largest, line))
        add(notes, line);
    free(largest);
}

int32_t notes_of(const struct question *question, char lines[NOTES_MOST][ASSUMPTIONS_SIZE])
{
    struct notes notes = {0, lines};
    for (int32_t i = 0; i < question->n_offers; i++) {
        const struct offer *offer = &question->offers[i];
        const struct reliability *reliability = &offer->scenario.reliability;
        bool critical_path = offer->scenario.engine == SCENARIO_CRITICAL_PATH;
        if (has_key(question, offer, "nodes"))
            add(&notes, "platform.nodes has no effect: each offer has nodes of its own");
        add_size_of_name(question, offer, &notes);
        if (critical_path && has_key(question, offer, "leaf"))
            add(&notes, "platform.leaf has no effect on the critical path, which has no contention: use SimGrid");
        if (critical_path && has_key(question, offer, "topology"))
            add(&notes, "platform.topology has no effect on the critical path, which has no contention: use SimGrid");
        add_oversubscription(offer, &notes);
        if (offer->scenario.n_faults > 0)
            add(&notes, "faults: each size has them, and plans do not know of them");
        if (reliability->slow_factor > 1 && reliability->slow_share == 0)
            add(&notes, "reliability.slow.factor has no effect: reliability.slow.share is 0");
        if (reliability->slow_share > 0 && reliability->slow_factor == 1)
            add(&notes, "reliability.slow.share has no effect: reliability.slow.factor is 1");
    }
    return notes.n;
}
