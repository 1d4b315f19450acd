/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "scenario/trim.h"

#include <stdlib.h>
#include <string.h>

#include "harness.h"

/* Of all hosts a and c alone are needed, and what is no host. */
static bool needs_a_and_c(const void *context, const char *name)
{
    return context == NULL && strcmp(name, "b") != 0 && strcmp(name, "d") != 0;
}

/* What is left of a file with this text, NULL: it is to be taken as it is. Caller frees. */
static char *trimmed(const char *text)
{
    const char *path = harness_path("trim.xml");
    FILE *file = fopen(path, "w");
    CHECK_TRUE(file != NULL && fputs(text, file) >= 0 && fclose(file) == 0);
    char *result = NULL;
    size_t size;
    FILE *memory = open_memstream(&result, &size);
    bool ok = trim_platform(path, needs_a_and_c, NULL, memory);
    fclose(memory);
    if (!ok) {
        free(result);
        result = NULL;
    }
    return result;
}

static const char whole[] = "<?xml version=\"1.0\"?>\n"
                            "<!DOCTYPE platform SYSTEM \"https://simgrid.org/simgrid.dtd\">\n"
                            "<platform version=\"4.1\"><!-- kept -->\n"
                            " <zone id=\"top\" routing=\"Floyd\">\n"
                            "  <zone id=\"node\" routing=\"Full\">\n"
                            "   <host id=\"a\" speed=\"1f\"/><host id=\"b\" speed=\"1f\"/>\n"
                            "   <host id=\"d\" speed=\"1f\"><prop id=\"x\"\n"
                            "    value=\"1\"/></host><router id=\"r\"/>\n"
                            "   <route src=\"a\" dst=\"b\"><link_ctn id=\"l\"/></route>\n"
                            "   <route src=\"a\" dst=\"r\"><link_ctn id=\"l\"/></route>\n"
                            "  </zone>\n"
                            "  <zoneRoute src=\"node\" dst=\"other\" gw_src=\"r\" gw_dst=\"q\"/>\n"
                            "  <host id=\"d\" speed=\"1f\"/>\n"
                            " </zone>\n"
                            "</platform>\n";

/* By hand: b and d of the Full zone are gone with the route to b; the host outside of it stays, where routes may lead
 * through it. */
TEST(hosts_and_routes_that_are_not_needed_go_and_lines_stay)
{
    char *left = trimmed(whole);
    CHECK_TEXT(left, "<?xml version=\"1.0\"?>\n"
                     "<!DOCTYPE platform SYSTEM \"https://simgrid.org/simgrid.dtd\">\n"
                     "<platform version=\"4.1\"><!-- kept -->\n"
                     " <zone id=\"top\" routing=\"Floyd\">\n"
                     "  <zone id=\"node\" routing=\"Full\">\n"
                     "   <host id=\"a\" speed=\"1f\"/>\n"
                     "   \n"
                     "<router id=\"r\"/>\n"
                     "   \n"
                     "   <route src=\"a\" dst=\"r\"><link_ctn id=\"l\"/></route>\n"
                     "  </zone>\n"
                     "  <zoneRoute src=\"node\" dst=\"other\" gw_src=\"r\" gw_dst=\"q\"/>\n"
                     "  <host id=\"d\" speed=\"1f\"/>\n"
                     " </zone>\n"
                     "</platform>\n");
    free(left);
}

/* A gateway that is not needed, an element that may name hosts, no XML, no file. */
TEST(what_cannot_be_told_stays_whole)
{
    CHECK_TRUE(trimmed("<platform><zoneRoute src=\"x\" dst=\"y\" gw_src=\"b\" gw_dst=\"r\"/></platform>") == NULL);
    CHECK_TRUE(trimmed("<platform><cluster id=\"x\"/></platform>") == NULL);
    CHECK_TRUE(trimmed("<platform><zone></platform>") == NULL);
    CHECK_TRUE(!trim_platform(harness_path("absent.xml"), needs_a_and_c, NULL, stderr));
}
