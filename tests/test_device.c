/* SPDX-License-Identifier: GPL-3.0-or-later */
/* These tests read and write devices. */
#include "scenario/device.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "harness.h"
#include "scenario_fixture.h"

TEST(device_read__fills_every_field_from_its_key)
{
    struct device device;
    struct error err = {0};
    CHECK_TRUE(device_read(fixture_data("device"), "h800", &device, &err));
    CHECK_TEXT(err.text, "");
    CHECK_TEXT(device.name, "h800");
    CHECK_TRUE(device.peak_flop_per_s[PRECISION_BF16] == 989.4e12);
    CHECK_TRUE(device.hbm_bytes_per_s == 3.35e12);
    CHECK_TRUE(device.memory_bytes == 78 * 0x1p30 && device.context_bytes == 0x1p30);
    CHECK_TRUE(device.launch_s == 2e-6 && device.memory_share[DEVICE_NORM] == 0.9 &&
               device.memory_share[DEVICE_COPY] == 0.6);
    CHECK_TRUE(device.multiprocessors == 132 && device.nvls && device.rows[0] == '\0' && device.like[0] == '\0');
    CHECK_TRUE(device.gemm[PRECISION_BF16].efficiency == 0.8 && device.gemm[PRECISION_BF16].small_tile == 0.1 &&
               device.gemm[PRECISION_BF16].wave == 0.25 && device.gemm[PRECISION_BF16].launch_s == 7e-6 &&
               device.gemm[PRECISION_BF16].epilogue == 0 && device.gemm[PRECISION_BF16].sum == 0.5 &&
               device.gemm[PRECISION_BF16].m.max == 8192 && device.gemm[PRECISION_BF16].n.max == 0);
    const struct device_collective *all = &device.collective[DEVICE_ALL_TO_ALL];
    CHECK_TRUE(all->latency_s == 1e-6 && all->step_s == 2e-6 && all->efficiency == 0.7 && all->ramp_bytes == 3 &&
               all->pair == 4 && all->bytes.min == 5 && all->bytes.max == 6);
    CHECK_TRUE(device.fabric.hop_s == 6e-5 && device.fabric.ramp_hop == 2);
    CHECK_TRUE(device.forward[DEVICE_FLASH2].efficiency == 0.5 && device.backward[DEVICE_CUDNN].q_half == 100);
    const struct device_flash *flash3 = &device.forward[DEVICE_FLASH3];
    CHECK_TRUE(flash3->efficiency == 0.7 && flash3->q_half == 1 && flash3->k_half == 2 && flash3->d_half == 3 &&
               flash3->tail == 1 && flash3->alone == 0.8 && flash3->launch_s == 2e-6);
    CHECK_TRUE(device.backward[DEVICE_FLASH3].efficiency == 0.5);
    CHECK_TRUE(device.nvlink.latency_s == 1e-5 && device.nvlink.efficiency == 0.8 &&
               device.nvlink.ramp_bytes == 0x1p22);
    CHECK_TRUE(device.nic.latency_s == 5e-6 && device.nic.efficiency == 0.95 && device.nic.ramp_bytes == 1e6);
    CHECK_TRUE(device.pcie.latency_s == 0 && device.pcie.efficiency == 0.85 && device.pcie.ramp_bytes == 0);
}

static const struct {
    const char *old, *new, *message;
} refused[] = {
    {"launch_s: 2us\n", "",
     "launch_s: is required (launch of a kernel, except GEMMs and attention); allowed: a number [s] (90s, 30min, 2h, "
     "5us), 0 to 1"},
    {"launch_s: 2us", "launch_s: .nan", "launch_s: '.nan' is not a number"},
    {"efficiency: 0.8, small", "efficiency: 0, small", "gemm.efficiency: '0' is out of range"},
    {"efficiency: 0.8, small", "efficiency: 1.1, small", "gemm.efficiency: '1.1' is out of range"},
    {"flash3:", "flash4:", "attention.flash4: unknown key; did you mean 'flash2'?"},
    {"flash3:", "flash4:", "attention.flash3.forward.efficiency: is required"},
    {"k_half: 2, d_half: 3,", "k_half: 2,", "attention.flash3.forward.d_half: is required"},
    {"nic:", "nci:", "nci: unknown key; did you mean 'nic'?"},
};

TEST(device_read__refuses_missing_and_impossible_numbers)
{
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        struct device device;
        struct error err = {0};
        char *text = fixture_replace(fixture_device, refused[i].old, refused[i].new);
        CHECK_TRUE(!device_read("/nowhere", fixture_write("device.yaml", text), &device, &err));
        CHECK_CONTAINS(err.text, refused[i].message);
        free(text);
    }
}

/* Written curves read back the same. The data sheet alone needs none of them. */
TEST(device_write_curves__gives_the_curves_that_were_read)
{
    struct device device, again;
    struct error err = {0};
    char path[1024], *text = NULL;
    size_t bytes;
    CHECK_TRUE(device_read(fixture_data("device"), "h800", &device, &err));
    FILE *file = open_memstream(&text, &bytes);
    fputs("name: again\nsource: test\npeak_flop_per_s: 1e12\nhbm_bytes_per_s: 1e12\nmemory_bytes: 1e10\n"
          "context_bytes: 0\nmultiprocessors: 4\nnvls: false\ntraining: {collective_multiprocessors: 1, "
          "node_multiprocessors: 2, persistent_gemms: true}\n"
          "rings: {simple: {start_s: 0.1, nvlink_s: 0.2, nic_s: 0.3, share: 1, share_alone: 0.5},\n"
          "        ll128: {start_s: 0.4, nvlink_s: 0.5, nic_s: 0.6, share: 0.9, share_alone: 0.7}}\n",
          file);
    CHECK_TRUE(fflush(file) == 0);
    CHECK_TRUE(device_read_sheet("/nowhere", fixture_write("again.yaml", text), &again, path, &err));
    CHECK_TRUE(again.ring[DEVICE_LL128].nic_s == 0.6 && again.ring[DEVICE_SIMPLE].share_alone == 0.5);
    CHECK_TRUE(again.training.persistent_gemms);
    CHECK_TRUE(again.multiprocessors == 4 && !again.nvls && again.gemm[PRECISION_BF16].efficiency == 0);
    device_write_curves(file, &device);
    CHECK_TRUE(fclose(file) == 0);
    CHECK_TRUE(device_read("/nowhere", fixture_write("again.yaml", text), &again, &err));
    CHECK_TEXT(err.text, "");
    CHECK_TRUE(memcmp(&again.launch_s, &device.launch_s, sizeof device - offsetof(struct device, launch_s)) == 0);
    free(text);
}

/* It has no default whether GEMMs are persistent, as this changes the cost of collectives beside them. */
TEST(device_read__knows_whether_gemms_are_persistent)
{
    struct device device;
    struct error err = {0};
    char path[1024];
    const char *text = "name: bare\nsource: test\npeak_flop_per_s: 1e12\nhbm_bytes_per_s: 1e12\nmemory_bytes: 1e10\n"
                       "context_bytes: 0\nmultiprocessors: 4\ntraining: {collective_multiprocessors: 1, "
                       "node_multiprocessors: 2}\n"
                       "rings: {simple: {start_s: 0.1, nvlink_s: 0.2, nic_s: 0.3, share: 1, share_alone: 0.5},\n"
                       "        ll128: {start_s: 0.4, nvlink_s: 0.5, nic_s: 0.6, share: 0.9, share_alone: 0.7}}\n";
    CHECK_TRUE(!device_read_sheet("/nowhere", fixture_write("bare.yaml", text), &device, path, &err));
    CHECK_CONTAINS(err.text, "training.persistent_gemms");
}

TEST(device_read__lists_the_names_there_are)
{
    struct device device;
    struct error err = {0};
    CHECK_TRUE(!device_read(fixture_data("device"), "h80", &device, &err));
    CHECK_TEXT(err.text, "there is no device 'h80'; available: h800, or the path of a file that ends in .yaml");
}
