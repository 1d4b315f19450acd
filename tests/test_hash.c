/* SPDX-License-Identifier: GPL-3.0-or-later */
/* These tests check hashes of texts and files. */
#include "base/hash.h"

#include "harness.h"
#include "scenario_fixture.h"

/* These are check values of 64-bit FNV-1a: draft-eastlake-fnv, appendix of test vectors. */
TEST(hash__matches_the_published_values)
{
    CHECK_TRUE(hash_bytes(HASH_START, "", 0) == UINT64_C(0xcbf29ce484222325));
    CHECK_TRUE(hash_bytes(HASH_START, "a", 1) == UINT64_C(0xaf63dc4c8601ec8c));
    CHECK_TRUE(hash_bytes(HASH_START, "foobar", 6) == UINT64_C(0x85944171f73967e8));
}

TEST(hash_file__equals_the_hash_of_its_pieces)
{
    struct error err = {0};
    uint64_t hash = 0;
    CHECK_TRUE(hash_file(fixture_write("hash.txt", "foobar"), &hash, &err));
    CHECK_TRUE(hash == hash_bytes(hash_bytes(HASH_START, "foo", 3), "bar", 3));
    CHECK_TRUE(hash == UINT64_C(0x85944171f73967e8));
}

TEST(hash_file__fails_without_the_file)
{
    struct error err = {0};
    uint64_t hash = 0;
    CHECK_TRUE(!hash_file(harness_path("no such file"), &hash, &err));
    CHECK_CONTAINS(err.text, "no such file: cannot be read: No such file or directory");
}
