/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "scenario/trim.h"

#include <expat.h>
#include <string.h>

#include "base/check.h"

enum { MAX_DEPTH = 32 };

struct trimmer {
    XML_Parser parser;
    trim_needs *needs;
    const void *context;
    FILE *trimmed;
    bool full[MAX_DEPTH]; /* of each open zone: its routing is Full */
    int n_zones, n_left;  /* open zones; open elements that are left out */
    bool ok;
};

static const char *attribute(const char **attributes, const char *name)
{
    for (; *attributes != NULL; attributes += 2)
        if (strcmp(attributes[0], name) == 0)
            return attributes[1];
    return "";
}

static bool needs(const struct trimmer *trimmer, const char **attributes, const char *name)
{
    return trimmer->needs(trimmer->context, attribute(attributes, name));
}

static void open_zone(struct trimmer *trimmer, const char **attributes)
{
    trimmer->ok = trimmer->ok && trimmer->n_zones < MAX_DEPTH;
    if (trimmer->ok)
        trimmer->full[trimmer->n_zones++] = strcmp(attribute(attributes, "routing"), "Full") == 0;
}

/* Whether an element stays. */
static bool stays(struct trimmer *trimmer, const char *element, const char **attributes)
{
    static const char *const others[] = {"platform", "config", "prop", "router", "link", "link_ctn"};
    bool full = trimmer->n_zones > 0 && trimmer->full[trimmer->n_zones - 1];
    if (strcmp(element, "host") == 0)
        return !full || needs(trimmer, attributes, "id");
    if (strcmp(element, "route") == 0)
        return !full || (needs(trimmer, attributes, "src") && needs(trimmer, attributes, "dst"));
    if (strcmp(element, "zone") == 0) {
        open_zone(trimmer, attributes);
        return true;
    }
    bool known = strcmp(element, "zoneRoute") == 0 && needs(trimmer, attributes, "gw_src") &&
                 needs(trimmer, attributes, "gw_dst");
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        known = known || strcmp(element, others[i]) == 0;
    trimmer->ok = trimmer->ok && known;
    return true;
}

static void XMLCALL element_starts(void *context, const char *element, const char **attributes)
{
    struct trimmer *trimmer = context;
    if (trimmer->n_left > 0 || !stays(trimmer, element, attributes))
        trimmer->n_left++;
    XML_DefaultCurrent(trimmer->parser);
}

static void XMLCALL element_ends(void *context, const char *element)
{
    struct trimmer *trimmer = context;
    XML_DefaultCurrent(trimmer->parser);
    if (trimmer->n_left > 0)
        trimmer->n_left--;
    else if (strcmp(element, "zone") == 0)
        trimmer->n_zones--;
}

/* What no other handler takes, and what they hand on; of what is left out its ends of lines. */
static void XMLCALL text(void *context, const char *characters, int n)
{
    struct trimmer *trimmer = context;
    if (trimmer->n_left == 0)
        fwrite(characters, 1, (size_t)n, trimmer->trimmed);
    for (int i = 0; trimmer->n_left > 0 && i < n; i++)
        if (characters[i] == '\n')
            fputc('\n', trimmer->trimmed);
}

static bool parse(struct trimmer *trimmer, FILE *file)
{
    enum { CHUNK = 1 << 16 };
    for (bool more = true; more && trimmer->ok;) {
        void *buffer = XML_GetBuffer(trimmer->parser, CHUNK);
        CHECK(buffer != NULL);
        size_t n = fread(buffer, 1, CHUNK, file);
        more = n == CHUNK;
        if (ferror(file) || XML_ParseBuffer(trimmer->parser, (int)n, !more) != XML_STATUS_OK)
            return false;
    }
    return trimmer->ok;
}

bool trim_platform(const char *path, trim_needs *needed, const void *context, FILE *trimmed)
{
    FILE *file = fopen(path, "r");
    if (file == NULL)
        return false;
    struct trimmer trimmer = {
        .parser = XML_ParserCreate(NULL), .needs = needed, .context = context, .trimmed = trimmed, .ok = true};
    CHECK(trimmer.parser != NULL);
    XML_SetUserData(trimmer.parser, &trimmer);
    XML_SetElementHandler(trimmer.parser, element_starts, element_ends);
    XML_SetDefaultHandler(trimmer.parser, text);
    bool ok = parse(&trimmer, file);
    XML_ParserFree(trimmer.parser);
    fclose(file);
    return ok && fflush(trimmed) == 0 && !ferror(trimmed);
}
