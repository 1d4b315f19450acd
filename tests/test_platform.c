/* SPDX-License-Identifier: GPL-3.0-or-later */
/* These tests check which GPUs of a platform share a node, an NVLink domain and a server. */
#include "scenario/platform.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "hand_plan.h"
#include "harness.h"

/* GPUs 0 to 3 are node 0 and GPUs 4 to 7 are node 1. Both nodes are domain 0. */
TEST(nvlink_domain__joins_two_nodes)
{
    const struct platform *rack = hand_rack_setting()->platform;
    CHECK_EQUAL(platform_nvlink_domain(rack), 8);
    CHECK_EQUAL(platform_node_of(rack, 3), 0);
    CHECK_EQUAL(platform_node_of(rack, 4), 1);
    CHECK_EQUAL(platform_node_of(rack, 9), 2);
    CHECK_EQUAL(platform_gpu_in_node(rack, 7), 3);
    CHECK_EQUAL(platform_gpu_in_node(rack, 9), 1);
    CHECK_EQUAL(platform_domain_of(rack, 7), 0);
    CHECK_EQUAL(platform_domain_of(rack, 8), 1);
    CHECK_TRUE(platform_same_domain(rack, 3, 4) && platform_same_domain(rack, 0, 7));
    CHECK_TRUE(!platform_same_domain(rack, 7, 8) && !platform_same_domain(rack, 8, 0));
}

/* Six GPUs train: four on node 0 and two on node 1. A server has the GPUs of a node, although NVLink joins two. */
TEST(servers__and_hosts_are_nodes_and_no_domains)
{
    const struct platform *rack = hand_rack_setting()->platform;
    CHECK_EQUAL(platform_gpus_in_use(rack, 0, 6), 4);
    CHECK_EQUAL(platform_gpus_in_use(rack, 1, 6), 2);
    CHECK_EQUAL(platform_gpus_in_use(rack, 0, 3), 3);
    CHECK_EQUAL(platform_gpus_per_server(rack), 4);
}

TEST(nvlink_domain__must_not_be_missing)
{
    const struct platform missing = {.n_nodes = 2, .gpus_per_node = 8};
    int status = 0;
    pid_t child = fork();
    if (child == 0) {
        (void)!freopen("/dev/null", "w", stderr); /* CHECK says there why it aborts */
        _exit(platform_same_domain(&missing, 0, 1));
    }
    CHECK_TRUE(child > 0 && waitpid(child, &status, 0) == child);
    CHECK_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
}
