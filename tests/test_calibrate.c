/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "validate/calibrate.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "harness.h"
#include "scenario_fixture.h"
#include "validate/families.h"

/** A device whose every curve is known: rows are written from it, and calibrating on them must give it back. */
static struct device known_device(void)
{
    struct device device = {.name = "known",
                            .peak_flop_per_s = 1e15,
                            .hbm_bytes_per_s = 3e12,
                            .multiprocessors = 132,
                            .rows = "KNOWN OTHER@6e12",
                            .nvls = true,
                            .measured_nvlink_bytes_per_s = 450e9,
                            .measured_nic_bytes_per_s = 50e9,
                            .measured_pcie_bytes_per_s = 64e9,
                            .launch_s = 2e-6,
                            .memory_share = {0.8, 0.8, 0.7, 0.6},
                            .gemm = {0.75, 0.1, 0.3, 5e-6, .m = {0, 0}}};
    device.forward[DEVICE_FLASH2] = (struct device_flash){0.4, 64, 300, 25, .tail = 0.8};
    device.backward[DEVICE_FLASH2] = (struct device_flash){0.35, 500, 64, 20, .tail = 0.3};
    device.collective[DEVICE_ALL_GATHER] = (struct device_collective){1.5e-5, 3e-6, 0.8, 4e6, 0.2, {0, 0}};
    device.nvlink = (struct device_link){8e-6, 0.8, 1e6, {0, 0}};
    return device;
}

static const char kernel_header[] = "id,kind,split,gpu,dtype,library,op,pass,m,n,k,batch,seq_len,heads,head_dim,causal,"
                                    "shape_note,time_ms,tflops,gbps\n";

static void write_gemms(FILE *file, const struct device *device, int *id)
{
    for (double m = 512; m <= 8192; m *= 2)
        for (double n = 1000; n < 30000; n *= 2.7)
            for (double k = 512; k < 30000; k *= 5) {
                double n_whole = floor(n), ms = 1e3 * cost_gemm_s(device, m, n_whole, k);
                fprintf(file, "K%03d,gemm,calib,KNOWN,bf16,lib,gemm,fwd,%g,%g,%g,,,,,,,%.17g,,\n", (*id)++, m, n_whole,
                        k, ms);
            }
}

static void write_attention(FILE *file, const struct device *device, enum pass pass, int *id)
{
    bool forward = pass == PASS_FORWARD;
    for (double tokens = 512; tokens <= 65536; tokens *= 2)
        for (double heads = 8; heads <= 64; heads *= 2)
            for (double width = 64; width <= 128; width *= 2) {
                struct cost_attention work = {.flop = 2 * heads * tokens * tokens * width * (forward ? 1 : 2.5),
                                              .queries = tokens,
                                              .keys = tokens,
                                              .head_dim = width,
                                              .tile_flop = (forward ? 4 : 10) * 128 * width * tokens};
                double ms = 1e3 * cost_attention_s(device, DEVICE_FLASH2, pass, &work);
                fprintf(file, "K%03d,attention,calib,KNOWN,bf16,FA2,attention,%s,,,,1,%g,%g,%g,1,,%.17g,,\n", (*id)++,
                        forward ? "fwd" : "bwd", tokens, heads, width, ms);
            }
}

/** Norms on the other memory, and timed by events around the call (50 us) on the device's. */
static void write_norms(FILE *file, const struct device *device, int *id)
{
    struct device other = *device;
    other.hbm_bytes_per_s = 6e12;
    for (double n = 1024; n <= 32768; n *= 2) {
        double bytes = 4 * 4096 * n, own_s = 5e-5 + cost_memory_bound_s(device, DEVICE_NORM, bytes);
        double other_s = cost_memory_bound_s(&other, DEVICE_NORM, bytes);
        fprintf(file, "K%03d,memory-bound,calib,KNOWN,bf16,liger,megatron_rms_norm,fwd,4096,%g,,,,,,,,%.17g,,\n",
                (*id)++, n, 1e3 * own_s);
        fprintf(file, "K%03d,memory-bound,calib,OTHER,bf16,cudnn,rms_norm,fwd,4096,%g,,,,,,,,%.17g,,\n", (*id)++, n,
                1e3 * other_s);
    }
}

static const char *write_kernels(const struct device *device)
{
    char *text;
    size_t bytes;
    FILE *file = open_memstream(&text, &bytes);
    int id = 1;
    fputs(kernel_header, file);
    fputs("K000,gemm,open,KNOWN,bf16,lib,gemm,fwd,512,512,512,,,,,,,1000,,\n", file); /* never fitted */
    write_gemms(file, device, &id);
    write_attention(file, device, PASS_FORWARD, &id);
    write_attention(file, device, PASS_BACKWARD, &id);
    write_norms(file, device, &id);
    fclose(file);
    const char *path = fixture_write("kernels.csv", text);
    free(text);
    return path;
}

static const char *write_collectives(const struct device *device)
{
    char *text;
    size_t bytes_of_text;
    FILE *file = open_memstream(&text, &bytes_of_text);
    int id = 1;
    fputs("id,split,gpu,n_gpus,n_nodes,collective,algo,size_bytes,time_us,algbw_GBps,busbw_GBps\n", file);
    for (int32_t ranks = 2; ranks <= 8; ranks *= 2)
        for (double bytes = 1 << 20; bytes < 1e10; bytes *= 4) {
            struct platform machine = {.gpus_per_node = ranks, .nvlink_bytes_per_s = 450e9};
            struct cost_setting setting = {.device = device, .platform = &machine};
            double us = 1e6 * cost_collective_s(&setting, DEVICE_ALL_GATHER, bytes, ranks);
            fprintf(file, "C%03d,calib,KNOWN,%d,1,all_gather,,%g,%.17g,,\n", id++, (int)ranks, bytes, us);
            us = 1e6 * cost_of_transfer(&setting, COST_NVLINK, bytes, 1).duration_s;
            if (ranks == 2)
                fprintf(file, "C%03d,calib,KNOWN,2,1,send_recv,,%g,%.17g,,\n", id++, bytes, us);
        }
    fprintf(file, "C%03d,calib,KNOWN,,,point-to-point,,,,,46-48\n", id++);
    fclose(file);
    const char *path = fixture_write("collectives.csv", text);
    free(text);
    return path;
}

static const struct calibration_fit *fit_named(const struct calibration *calibration, const char *name)
{
    for (int32_t i = 0; i < calibration->n_fits; i++)
        if (strcmp(calibration->fit[i].name, name) == 0)
            return &calibration->fit[i];
    return NULL;
}

static void check_flash(const struct device_flash *fitted, const struct device_flash *known)
{
    CHECK_CLOSE(fitted->efficiency, known->efficiency, 1e-3);
    CHECK_CLOSE(fitted->q_half, known->q_half, 1e-2);
    CHECK_CLOSE(fitted->k_half, known->k_half, 1e-2);
    CHECK_CLOSE(fitted->d_half, known->d_half, 1e-2);
    CHECK_CLOSE(fitted->tail, known->tail, 1e-2);
    CHECK_TRUE(fitted->keys.min == 512 && fitted->keys.max == 65536 && fitted->head_dim.min == 64);
}

/** The curves that have rows in the files come back; the others are those of `like`. */
static void check_calibration(const struct calibration *calibration, const struct device *known,
                              const struct device *like)
{
    const struct device *device = &calibration->device;
    CHECK_CLOSE(device->gemm.efficiency, known->gemm.efficiency, 1e-3);
    CHECK_CLOSE(device->gemm.wave, known->gemm.wave, 1e-2);
    CHECK_CLOSE(device->gemm.launch_s, known->gemm.launch_s, 1e-2);
    CHECK_TRUE(device->gemm.m.min == 512 && device->gemm.m.max == 8192 && device->gemm.n.min == 1000);
    check_flash(&device->forward[DEVICE_FLASH2], &known->forward[DEVICE_FLASH2]);
    check_flash(&device->backward[DEVICE_FLASH2], &known->backward[DEVICE_FLASH2]);
    CHECK_CLOSE(device->memory_share[DEVICE_NORM], 0.8, 1e-3);
    CHECK_CLOSE(device->launch_s, 2e-6, 1e-2);
    CHECK_CONTAINS(fit_named(calibration, "memory.norm")->extra, "events around the call 5e-05 s");
    CHECK_CLOSE(device->collective[DEVICE_ALL_GATHER].efficiency, 0.8, 1e-2);
    CHECK_CLOSE(device->collective[DEVICE_ALL_GATHER].step_s, 3e-6, 5e-2);
    CHECK_CLOSE(device->nvlink.latency_s, 8e-6, 1e-2);
    CHECK_CLOSE(device->nic.efficiency, 47.0 / 50, 1e-4);
    CHECK_EQUAL(fit_named(calibration, "attention.cudnn.forward")->n_rows, 0);
    CHECK_TRUE(memcmp(&device->forward[DEVICE_CUDNN], &like->forward[DEVICE_CUDNN], sizeof(struct device_flash)) == 0);
    CHECK_TRUE(device->memory_share[DEVICE_LOSS] == like->memory_share[DEVICE_LOSS]);
    CHECK_TRUE(fit_named(calibration, "gemm")->quality.max < 1e-3);
    CHECK_TRUE(strncmp(fit_named(calibration, "gemm")->rows, "K001-K", 6) == 0);
}

static void curves_come_back_from_rows_written_with_them(void)
{
    struct device known = known_device(), like;
    struct measured kernels = {0}, collectives = {0};
    struct calibration calibration;
    struct error err = {0};
    CHECK_TRUE(device_read(fixture_data("calibrate"), "h800", &like, &err));
    snprintf(known.like, sizeof known.like, "h800");
    CHECK_TRUE(measured_read(write_kernels(&known), &kernels, &err));
    CHECK_TRUE(measured_read(write_collectives(&known), &collectives, &err));
    struct device sheet = known;
    memset(&sheet.launch_s, 0, sizeof sheet - offsetof(struct device, launch_s));
    struct sample_source source = {&kernels, &collectives, &sheet};
    CHECK_TRUE(calibrate(&source, &like, &calibration, &err));
    CHECK_TEXT(err.text, "");
    check_calibration(&calibration, &known, &like);
    calibration_free(&calibration);
    CHECK_TRUE(!calibrate(&source, NULL, &calibration, &err));
    CHECK_CONTAINS(err.text, "memory.activation: 0 rows of split calib are of this device");
    calibration_free(&calibration);
    sheet.measured_nic_bytes_per_s = 0;
    CHECK_TRUE(!calibrate(&source, &like, &calibration, &err));
    CHECK_CONTAINS(err.text, "known: collectives need measured.nvlink");
    calibration_free(&calibration);
    measured_free(&collectives);
    measured_free(&kernels);
}

/* A backward that was timed with its forward only: 3.5 x 10 GFLOP at 7 TFLOP/s less 10 GFLOP at 10. */
static void a_backward_is_the_difference_of_two_rows(void)
{
    struct device device = known_device();
    struct measured kernels = {0};
    struct samples samples = {0};
    struct error err = {0};
    char text[1024];
    snprintf(text, sizeof text, "%s%s%s", kernel_header,
             "K1,attention,calib,KNOWN,bf16,FA2,attention,fwd+bwd,,,,2,1000,5,128,1,,,7,\n",
             "K2,attention,calib,KNOWN,bf16,FA2,attention,fwd,,,,2,1000,5,128,1,,,10,\n");
    CHECK_TRUE(measured_read(fixture_write("both.csv", text), &kernels, &err));
    struct sample_source source = {.kernels = &kernels, .device = &device};
    samples_attention(&source, DEVICE_FLASH2, PASS_BACKWARD, &samples);
    double flop = 2.0 * 2 * 5 * 1e6 * 128;
    CHECK_EQUAL(samples.n, 1);
    CHECK_CLOSE(samples.sample[0].seconds, flop * (3.5 / 7 - 1.0 / 10) * 1e-12, 1e-12);
    CHECK_CLOSE(samples.sample[0].attention.flop, 2.5 * flop, 1e-14);
    samples_free(&samples);
    measured_free(&kernels);
}

int main(void)
{
    return HARNESS_MAIN("calibrate", TEST(curves_come_back_from_rows_written_with_them),
                        TEST(a_backward_is_the_difference_of_two_rows));
}
