/* SPDX-License-Identifier: GPL-3.0-or-later */
/* These tests fit devices and training constants to rows that are written from known ones. */
#include "hand_cost.h"
#include "validate/calibrate.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "harness.h"
#include "scenario_fixture.h"
#include "validate/families.h"
#include "validate/training.h"

/** Make a device with known curves. Rows are written from it, and a calibration on them must give it back. */
static struct device known_device(void)
{
    struct device device = {.name = "known",
                            .peak_flop_per_s = {1e15},
                            .hbm_bytes_per_s = 3e12,
                            .multiprocessors = 132,
                            .rows = "KNOWN OTHER@6e12",
                            .nvls = true,
                            .measured_nvlink_bytes_per_s = 450e9,
                            .measured_nic_bytes_per_s = 50e9,
                            .measured_pcie_bytes_per_s = 64e9,
                            .launch_s = 2e-6,
                            .memory_share = {0.8, 0.8, 0.8, 0.8, 0.7, 0.6},
                            .gemm = {{0.75, 0.1, 0.3, 5e-6, 0.4, 0.5, .m = {0, 0}}}};
    device.forward[DEVICE_FLASH2] = (struct device_flash){0.4, 90, 300, 25, 0.8, 0.8, 5e-6, .keys = {0}};
    device.backward[DEVICE_FLASH2] = (struct device_flash){0.35, 200, 300, 20, 0.3, 0.9, 2e-5, .keys = {0}};
    device.collective[DEVICE_ALL_GATHER] = (struct device_collective){1.5e-5, 3e-6, 0.8, 4e6, 0.2, {0, 0}};
    device.nvlink = (struct device_link){8e-6, 0.8, 1e6, {0, 0}};
    return device;
}

static const char kernel_header[] =
    "id,kind,split,gpu,dtype,library,op,pass,m,n,k,batch,seq_len,keys,heads,head_dim,causal,"
    "shape_note,time_ms,tflops,gbps,source\n";

static void write_gemms(FILE *file, const struct device *device, int *id)
{
    for (double m = 512; m <= 8192; m *= 2)
        for (double n = 1000; n < 30000; n *= 2.7)
            for (double k = 512; k < 30000; k *= 5) {
                for (int sum = 0; sum < 3; sum++) {
                    static const char *const op[] = {"gemm", "wgrad to bf16", "wgrad to fp32"};
                    const struct cost_gemm gemm = {1, m, floor(n), k, 4.0 * sum, PRECISION_BF16, DEVICE_SEQUENTIAL};
                    double ms = 1e3 * cost_kernel_gemm_s(device, &gemm) * (sum > 0 ? 0.9 : 1);
                    fprintf(file, "K%03d,gemm,calib,KNOWN,bf16,lib,%s,fwd,%g,%g,%g,,,,,,,,%.17g,,,%s\n", (*id)++,
                            op[sum], m, floor(n), k, ms, sum > 0 ? "analysis/measure_kernels.py" : "");
                }
            }
}

static void write_attention(FILE *file, const struct device *device, enum pass pass, int *id)
{
    bool forward = pass == PASS_FORWARD;
    for (double tokens = 512; tokens <= 65536; tokens *= 2)
        for (double prefix = 0; prefix <= 65536; prefix += 16384)
            for (double heads = 8; heads <= 64; heads *= 2)
                for (double width = 64; width <= 128; width *= 2) {
                    double keys = prefix + tokens, tile = COST_ATTENTION_TILE * width;
                    double flop = 4 * heads * tokens * (keys - tokens / 2) * width * (forward ? 1 : 2.5);
                    struct cost_attention work = {.flop = flop,
                                                  .queries = tokens * (2 * keys - tokens) / keys,
                                                  .keys = 2 * keys - tokens,
                                                  .head_dim = width,
                                                  .tile_flop = forward ? 4 * tile * keys : 10 * tile * tokens,
                                                  .tiles = heads * (forward ? tokens : keys) / COST_ATTENTION_TILE};
                    double ms = 1e3 * cost_attention_s(device, DEVICE_FLASH2, pass, &work);
                    fprintf(file, "K%03d,attention,calib,KNOWN,bf16,FA2,attention,%s,,,,1,%g,%g,%g,%g,1,,%.17g,,,\n",
                            (*id)++, forward ? "fwd" : "bwd", tokens, keys, heads, width, ms);
                }
}

/** Write norms on the other memory, and norms on the device's memory that events around the call time (50 us). */
static void write_norms(FILE *file, const struct device *device, int *id)
{
    struct device other = *device;
    other.hbm_bytes_per_s = 6e12;
    for (double n = 1024; n <= 32768; n *= 2) {
        double bytes = 4 * 4096 * n, own_s = 5e-5 + cost_memory_bound_s(device, DEVICE_NORM, bytes);
        double other_s = cost_memory_bound_s(&other, DEVICE_NORM, bytes);
        fprintf(file, "K%03d,memory-bound,calib,KNOWN,bf16,liger,megatron_rms_norm,fwd,4096,%g,,,,,,,,,%.17g,,,\n",
                (*id)++, n, 1e3 * own_s);
        fprintf(file, "K%03d,memory-bound,calib,OTHER,bf16,cudnn,rms_norm,fwd,4096,%g,,,,,,,,,%.17g,,,\n", (*id)++, n,
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
    fputs("K000,gemm,open,KNOWN,bf16,lib,gemm,fwd,512,512,512,,,,,,,,1000,,,\n", file); /* this row is never fitted */
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
            struct platform machine = {.gpus_per_node = ranks, .nvlink_domain = ranks, .nvlink_bytes_per_s = 450e9};
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
    CHECK_CLOSE(fitted->alone, known->alone, 1e-2);
    CHECK_CLOSE(fitted->launch_s, known->launch_s, 2e-2);
    CHECK_TRUE(fitted->keys.min == 512 && fitted->keys.max == 196608 && fitted->head_dim.min == 64);
}

/** Check that the curves with rows in the files come back, and that the others are those of `like`. */
static void check_calibration(const struct calibration *calibration, const struct device *known,
                              const struct device *like)
{
    const struct device *device = &calibration->device;
    CHECK_CLOSE(device->gemm[PRECISION_BF16].efficiency, known->gemm[PRECISION_BF16].efficiency, 1e-3);
    CHECK_CLOSE(device->gemm[PRECISION_BF16].wave, known->gemm[PRECISION_BF16].wave, 1e-2);
    CHECK_CLOSE(device->gemm[PRECISION_BF16].launch_s, known->gemm[PRECISION_BF16].launch_s, 1e-2);
    CHECK_TRUE(device->gemm[PRECISION_BF16].m.min == 512 && device->gemm[PRECISION_BF16].m.max == 8192 &&
               device->gemm[PRECISION_BF16].n.min == 1000);
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

TEST(calibrate__gives_back_the_curves_that_its_rows_were_written_with)
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
    struct sample_source source = {.kernels = &kernels, .collectives = &collectives, .device = &sheet};
    CHECK_TRUE(calibrate(&source, &like, &calibration, &err));
    CHECK_TEXT(err.text, "");
    check_calibration(&calibration, &known, &like);
    calibration_free(&calibration);
    CHECK_TRUE(!calibrate(&source, NULL, &calibration, &err));
    CHECK_CONTAINS(err.text, "memory.layer_norm: 0 rows of split calib are of this device");
    calibration_free(&calibration);
    sheet.measured_nic_bytes_per_s = 0;
    CHECK_TRUE(!calibrate(&source, &like, &calibration, &err));
    CHECK_CONTAINS(err.text, "known: collectives need the bandwidths of the links they ran on: measured.nvlink");
    calibration_free(&calibration);
    measured_free(&collectives);
    measured_free(&kernels);
}

/* A backward pass was timed only with its forward pass: 3.5 x 10 GFLOP at 7 TFLOP/s less 10 GFLOP at 10. */
TEST(samples_attention__take_a_backward_as_the_difference_of_two_rows)
{
    struct device device = known_device();
    struct measured kernels = {0};
    struct samples samples = {0};
    struct error err = {0};
    char text[1024];
    snprintf(text, sizeof text, "%s%s%s", kernel_header,
             "K1,attention,calib,KNOWN,bf16,FA2,attention,fwd+bwd,,,,2,1000,,5,128,1,,,7,,\n",
             "K2,attention,calib,KNOWN,bf16,FA2,attention,fwd,,,,2,1000,,5,128,1,,,10,,\n");
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

/* Columns of runs of a device without like, in layers' times. */
static const char run_header[] =
    "id,split,device,attention,kernels,model.name,model.hidden,model.layers,model.heads,model.kv_heads,model.ffn,"
    "model.vocabulary,model.activation,model.tied_embeddings,data.context,platform.nodes,platform.gpus_per_node,"
    "platform.nvlink,platform.nic,platform.pcie,platform.host_memory,plan.tp,plan.pp,micro_batch,data.global_batch,"
    "metric,value_ms\n";

/** Write a row of a layer whose time is the device's own. If its split is open, its time is wrong by far. */
static void write_layer(FILE *file, const struct device *device, bool flash1, int tokens, int id)
{
    const struct model model = {
        .hidden = 4096, .layers = 1, .vocabulary = 50000, .kinds = {{.heads = 32, .kv_heads = 32, .ffn = 16384}}};
    const struct platform machine = {.gpus_per_node = 1, .nvlink_domain = 1, .n_nodes = 1};
    const struct slice slice = {0, 0, tokens};
    const struct cost_micro_batch micro_batch = {.slices = &slice, .n_slices = 1, .context = 1};
    struct cost_setting setting = hand_with(
        (struct cost_setting){.model = &model, .device = device, .platform = &machine, .tensor = 1, HAND_LAYERS(1)},
        &(struct scenario_plan){0});
    struct model gelu = model;
    gelu.kinds[0].activation = MODEL_GELU;
    setting.model = &gelu;
    setting.attention = flash1 ? DEVICE_FLASH1 : DEVICE_FLASH2;
    setting.kernels = flash1 ? SCENARIO_EAGER : SCENARIO_FUSED;
    struct cost_pass pass = cost_of_pass(&setting, PASS_FORWARD, &micro_batch);
    for (int open = 0; open < 2; open++)
        fprintf(file,
                "T%d,%s,known,%s,tiny,4096,1,32,32,16384,50000,gelu,false,%d,1,1,450GBps,400Gbps,64GBps,2TB,1,1,1,1,"
                "layer-forward,%.17g\n",
                id + 100 * open, open ? "open" : "calib", flash1 ? "flash1,eager" : "flash2,fused", tokens,
                1e3 * (pass.kernels_s + pass.attention_s) * (open ? 9 : 1));
}

/** Read a library that has only the device "known". */
static void read_library(struct device *device)
{
    struct error err = {0};
    char *text = fixture_replace(fixture_device, "name: h800", "name: known");
    setenv("SLIMSIM_DATA", fixture_data("training"), 1);
    const char *path = fixture_write("training/model/gpu/known.yaml", text);
    CHECK_TRUE(device_read("/nowhere", path, device, &err));
    CHECK_TEXT(err.text, "");
    free(text);
}

/* Times written with planted constants give the constants back, up to the effect of the weak priors. Rows of split open
 * are nine times as slow, but they change no bit of the result. */
TEST(training_fit__gives_back_the_constants_that_its_runs_were_written_with)
{
    struct device device, planted;
    struct measured runs = {0};
    struct error err = {0};
    char *text;
    size_t bytes;
    read_library(&device);
    planted = device;
    planted.training = (struct device_training){.products = 0.12, .flash1 = 0.8};
    FILE *file = open_memstream(&text, &bytes);
    fputs(run_header, file);
    for (int i = 0; i < 8; i++) {
        write_layer(file, &planted, false, 1024 << i % 4, i);
        write_layer(file, &planted, true, 2048 << i % 4, 10 + i);
    }
    fclose(file);
    CHECK_TRUE(measured_read(fixture_write("runs.csv", text), &runs, &err));
    struct training_source source = {1, &runs};
    struct calibration calibration = {.device = device, .n_fits = 1, .fit = {{.name = "gemm", .n_rows = 5}}};
    CHECK_TRUE(training_fit(&source, NULL, &calibration, &err));
    CHECK_TEXT(err.text, "");
    CHECK_CLOSE(calibration.device.training.products, 0.12, 0.05);
    CHECK_CLOSE(calibration.device.training.flash1, 0.8, 0.05);
    const struct calibration_fit *fit = fit_named(&calibration, "training");
    CHECK_EQUAL(fit->n_rows, 16);
    CHECK_TRUE(fit->quality.max < 0.005);
    CHECK_TRUE(strstr(fit->rows, "T1 ") != NULL && strstr(fit->rows, "T100") == NULL);
    calibration_free(&calibration);
    measured_free(&runs);
    free(text);
}

/* A device with the same chip has the same constants. Another device takes them too, and fits to rows of its own only
 * what they determine, GEMMs. Without such rows its curves stay, if it is like another device. */
TEST(training_fit__takes_the_constants_of_the_device_under_like)
{
    struct device device, like;
    struct error err = {0};
    read_library(&device);
    like = device;
    like.training = (struct device_training){.products = 0.12, .flash1 = 0.8};
    struct training_source source = {0, NULL};
    struct calibration calibration = {.device = device};
    CHECK_TRUE(training_fit(&source, &like, &calibration, &err));
    CHECK_CLOSE(calibration.device.training.products, 0.12, 0);
    CHECK_CLOSE(calibration.device.training.flash1, 0.8, 0);
    CHECK_EQUAL(fit_named(&calibration, "training")->n_rows, 0);
    calibration_free(&calibration);
    calibration = (struct calibration){.device = device};
    calibration.device.multiprocessors = 108;
    calibration.device.gemm[PRECISION_BF16].efficiency = 0.5;
    CHECK_TRUE(training_fit(&source, &like, &calibration, &err));
    CHECK_CLOSE(calibration.device.gemm[PRECISION_BF16].efficiency, 0.5, 0);
    CHECK_CLOSE(calibration.device.training.products, 0.12, 0);
    calibration_free(&calibration);
    calibration = (struct calibration){.device = device};
    CHECK_TRUE(!training_fit(&source, NULL, &calibration, &err));
    CHECK_CONTAINS(err.text, "training: no row of split calib ran on known");
    calibration_free(&calibration);
}

/* Write the kernels of the known device, of which the sheet has only the data sheet, and read the h800. */
static void open_sheet(struct measured *kernels, struct device *like, struct device *sheet)
{
    struct error err = {0};
    *sheet = known_device();
    CHECK_TRUE(device_read(fixture_data("calibrate"), "h800", like, &err));
    CHECK_TRUE(measured_read(write_kernels(sheet), kernels, &err));
    memset(&sheet->launch_s, 0, sizeof *sheet - offsetof(struct device, launch_s));
}

/* The kernel's instructions do the same work per clock on both. Half the peak per clock gives twice the share, and
 * never more than all of it. */
TEST(calibrate__takes_the_peak_of_flash2s_instructions)
{
    struct device like, sheet;
    struct measured kernels = {0};
    struct calibration calibration;
    struct error err = {0};
    open_sheet(&kernels, &like, &sheet);
    snprintf(sheet.rows, sizeof sheet.rows, "NONE");
    like.tensor_flop_per_clock = 4096;
    like.forward[DEVICE_FLASH2].efficiency = 0.3;
    like.backward[DEVICE_FLASH2].efficiency = 0.6;
    struct sample_source source = {.kernels = &kernels, .device = &sheet};
    for (int slow = 0; slow < 2; slow++) {
        sheet.tensor_flop_per_clock = slow ? 2048 : 4096;
        CHECK_TRUE(calibrate(&source, &like, &calibration, &err));
        CHECK_CLOSE(calibration.device.forward[DEVICE_FLASH2].efficiency, slow ? 0.6 : 0.3, 1e-14);
        CHECK_CLOSE(calibration.device.backward[DEVICE_FLASH2].efficiency, slow ? 1 : 0.6, 1e-14);
        CHECK_CLOSE(calibration.device.forward[DEVICE_CUDNN].efficiency, like.forward[DEVICE_CUDNN].efficiency, 0);
        calibration_free(&calibration);
    }
    measured_free(&kernels);
}

/* Rows of a machine that the column `machine` names are 1.4 times as slow. The curve is that of the others. */
TEST(calibrate__takes_out_what_a_slower_machine_loses)
{
    struct device known = known_device(), like, sheet = known;
    struct measured kernels = {0};
    struct calibration calibration;
    struct error err = {0};
    char *text;
    size_t bytes;
    FILE *file = open_memstream(&text, &bytes);
    fputs("kind,split,gpu,m,n,k,machine,time_ms\n", file);
    for (double m = 512; m <= 8192; m *= 2)
        for (double n = 1000; n < 30000; n *= 3)
            for (double k = 512; k < 30000; k *= 5) {
                const struct cost_gemm gemm = {1, m, n, k, 0, PRECISION_BF16, DEVICE_SEQUENTIAL};
                double ms = 1e3 * cost_kernel_gemm_s(&known, &gemm);
                fprintf(file, "gemm,calib,KNOWN,%g,%g,%g,,%.17g\n", m, n, k, ms);
                fprintf(file, "gemm,calib,KNOWN,%g,%g,%g,an old box,%.17g\n", m, n, k, 1.4 * ms);
            }
    fclose(file);
    CHECK_TRUE(device_read(fixture_data("calibrate"), "h800", &like, &err));
    CHECK_TRUE(measured_read(fixture_write("slow.csv", text), &kernels, &err));
    struct sample_source source = {.kernels = &kernels, .device = &sheet};
    CHECK_TRUE(calibrate(&source, &like, &calibration, &err));
    CHECK_TEXT(err.text, "");
    CHECK_CLOSE(calibration.device.gemm[PRECISION_BF16].efficiency, 0.75, 1e-3);
    CHECK_TEXT(fit_named(&calibration, "gemm")->extra, "rows of an old box x 1.4");
    calibration_free(&calibration);
    measured_free(&kernels);
    free(text);
}

/* Twelve rows of large products are half as fast as the law of `like`. A fit of five unknowns to them is arbitrary for
 * small products, so the curve keeps the law's shape. Twenty rows determine a shape of their own. */
TEST(calibrate__scales_the_shape_of_like_for_few_rows_of_gemms)
{
    struct device known = known_device(), like, sheet = known;
    struct error err = {0};
    const enum precision precision = PRECISION_BF16;
    CHECK_TRUE(device_read(fixture_data("calibrate"), "h800", &like, &err));
    struct device half = like;
    half.gemm[precision].efficiency /= 2;
    for (int many = 0; many < 2; many++) {
        struct measured kernels = {0};
        struct calibration calibration;
        char *text;
        size_t bytes;
        FILE *file = open_memstream(&text, &bytes);
        fputs("kind,split,gpu,m,n,k,time_ms\n", file);
        for (int i = 0; i < (many ? 20 : 12); i++) {
            const struct cost_gemm gemm = {1, 4096 << i % 3, 4000 + 900 * i,   4096 << i % 2,
                                           0, precision,     DEVICE_SEQUENTIAL};
            fprintf(file, "gemm,calib,KNOWN,%g,%g,%g,%.17g\n", gemm.m, gemm.n, gemm.k,
                    1e3 * cost_kernel_gemm_s(&half, &gemm));
        }
        fclose(file);
        CHECK_TRUE(measured_read(fixture_write("few.csv", text), &kernels, &err));
        struct sample_source source = {.kernels = &kernels, .device = &sheet};
        CHECK_TRUE(calibrate(&source, &like, &calibration, &err));
        CHECK_TEXT(err.text, "");
        const struct device_gemm *found = &calibration.device.gemm[precision];
        CHECK_EQUAL(fit_named(&calibration, "gemm")->is_scaled, !many);
        if (!many) {
            CHECK_CLOSE(found->wave, like.gemm[precision].wave, 1e-4);
            CHECK_CLOSE(found->launch_s, like.gemm[precision].launch_s, 1e-4);
            CHECK_CLOSE(found->efficiency * sheet.peak_flop_per_s[precision],
                        half.gemm[precision].efficiency * half.peak_flop_per_s[precision], 1e-2);
        }
        calibration_free(&calibration);
        measured_free(&kernels);
        free(text);
    }
}

/* A curve that another device lends keeps the share of adding to a sum that the device's own GEMMs in bf16 have. */
TEST(calibrate__copied_curves_of_fp8_keep_the_devices_own_sum)
{
    struct device like, sheet;
    struct measured kernels = {0};
    struct calibration calibration;
    struct error err = {0};
    open_sheet(&kernels, &like, &sheet);
    sheet.peak_flop_per_s[PRECISION_FP8_TENSOR] = 2 * sheet.peak_flop_per_s[PRECISION_BF16];
    like.gemm[PRECISION_FP8_TENSOR] = like.gemm[PRECISION_BF16];
    like.gemm[PRECISION_FP8_TENSOR].sum = 0.9;
    struct sample_source source = {.kernels = &kernels, .device = &sheet};
    CHECK_TRUE(calibrate(&source, &like, &calibration, &err));
    const struct device_gemm *found = calibration.device.gemm;
    CHECK_EQUAL(fit_named(&calibration, "gemm_fp8_tensor")->n_rows, 0);
    CHECK_CLOSE(found[PRECISION_FP8_TENSOR].efficiency, like.gemm[PRECISION_FP8_TENSOR].efficiency, 0);
    CHECK_CLOSE(found[PRECISION_FP8_TENSOR].sum, found[PRECISION_BF16].sum, 0);
    CHECK_TRUE(found[PRECISION_BF16].sum < 0.89);
    calibration_free(&calibration);
    measured_free(&kernels);
}
