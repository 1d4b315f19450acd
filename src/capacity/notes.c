/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "capacity/notes.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"

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

/** Return whether an offer's platform is written with this key. */
static bool has_key(const struct question *question, const struct offer *offer, const char *key)
{
    const struct document *document = &question->document;
    int32_t own = document_find(document, offer->node, "platform");
    return document_find(document, own >= 0 ? own : document_find(document, 0, "platform"), key) >= 0;
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
        if (critical_path && has_key(question, offer, "leaf"))
            add(&notes, "platform.leaf has no effect on the critical path, which has no contention: use SimGrid");
        if (critical_path && has_key(question, offer, "topology"))
            add(&notes, "platform.topology has no effect on the critical path, which has no contention: use SimGrid");
        add_oversubscription(offer, &notes);
        if (reliability->slow_factor > 1 && reliability->slow_share == 0)
            add(&notes, "reliability.slow.factor has no effect: reliability.slow.share is 0");
        if (reliability->slow_share > 0 && reliability->slow_factor == 1)
            add(&notes, "reliability.slow.share has no effect: reliability.slow.factor is 1");
    }
    return notes.n;
}
