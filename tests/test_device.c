/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "scenario/device.h"

#include <stdlib.h>

#include "harness.h"
#include "scenario_fixture.h"

static void every_field_is_filled_from_its_key(void)
{
    struct device device;
    struct error err = {0};
    CHECK_TRUE(device_read(fixture_data("device"), "h800", &device, &err));
    CHECK_TEXT(err.text, "");
    CHECK_TEXT(device.name, "h800");
    CHECK_TRUE(device.peak_flop_per_s == 989.4e12);
    CHECK_TRUE(device.hbm_bytes_per_s == 3.35e12);
    CHECK_TRUE(device.memory_bytes == 78 * 0x1p30 && device.context_bytes == 0x1p30);
    CHECK_TRUE(device.launch_s == 2e-6 && device.memory_bound_share == 0.9);
    CHECK_TRUE(device.gemm.efficiency == 0.8 && device.gemm.m_half == 256 && device.gemm.n_half == 128 &&
               device.gemm.k_half == 64);
    CHECK_TRUE(device.forward[DEVICE_FLASH2].efficiency == 0.5 && device.backward[DEVICE_CUDNN].q_half == 100);
    const struct device_flash *flash3 = &device.forward[DEVICE_FLASH3];
    CHECK_TRUE(flash3->efficiency == 0.7 && flash3->q_half == 1 && flash3->k_half == 2 && flash3->d_half == 3);
    CHECK_TRUE(device.backward[DEVICE_FLASH3].efficiency == 0.5);
    CHECK_TRUE(device.nvlink.latency_s == 1e-5 && device.nvlink.efficiency == 0.8 &&
               device.nvlink.ramp_bytes == 0x1p22);
    CHECK_TRUE(device.nic.latency_s == 5e-6 && device.nic.efficiency == 0.95 && device.nic.ramp_bytes == 1e6);
    CHECK_TRUE(device.pcie.latency_s == 0 && device.pcie.efficiency == 0.85 && device.pcie.ramp_bytes == 0);
}

static const struct {
    const char *old, *new, *message;
} refused[] = {
    {"launch_s: 2us\n", "", "launch_s: is required (of a kernel); allowed: a number [s], 0 to 1"},
    {"launch_s: 2us", "launch_s: .nan", "launch_s: '.nan' is not a number"},
    {"efficiency: 0.8, m_half", "efficiency: 0, m_half", "gemm.efficiency: '0' is out of range"},
    {"efficiency: 0.8, m_half", "efficiency: 1.1, m_half", "gemm.efficiency: '1.1' is out of range"},
    {"flash3:", "flash4:", "attention.flash4: unknown key; did you mean 'flash2'?"},
    {"flash3:", "flash4:", "attention.flash3.forward.efficiency: is required"},
    {"k_half: 2, d_half: 3", "k_half: 2", "attention.flash3.forward.d_half: is required"},
    {"nic:", "nci:", "nci: unknown key; did you mean 'nic'?"},
};

static void missing_and_impossible_numbers_are_refused(void)
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

static void an_unknown_name_lists_those_there_are(void)
{
    struct device device;
    struct error err = {0};
    CHECK_TRUE(!device_read(fixture_data("device"), "h80", &device, &err));
    CHECK_TEXT(err.text,
               "no device 'h80'; did you mean 'h800'? available: h800, or the path of a file that ends in .yaml");
}

int main(void)
{
    return HARNESS_MAIN("device", TEST(every_field_is_filled_from_its_key),
                        TEST(missing_and_impossible_numbers_are_refused), TEST(an_unknown_name_lists_those_there_are));
}
