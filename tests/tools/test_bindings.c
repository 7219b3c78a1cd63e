/*
 * The bindings of driver, NVML and cuBLAS where there is none of them: the reason is told, nothing is held. And the places
 * where cuBLAS is looked for.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "tools/cublas.h"
#include "tools/gpu.h"
#include "tools/nvml.h"

static void a_missing_driver_is_named(void **state)
{
    (void)state;
    struct gpu gpu;
    assert_false(gpu_open(&gpu, "/no/such/libcuda.so.1", 0));
    assert_non_null(strstr(gpu.why, "no CUDA driver: /no/such/libcuda.so.1"));
    assert_non_null(strstr(gpu.why, "GDPAJIT_LIBCUDA"));
    gpu_close(&gpu);
    setenv("GDPAJIT_LIBCUDA", "/nor/this/libcuda.so.1", 1);
    assert_false(gpu_open(&gpu, NULL, 0));
    assert_non_null(strstr(gpu.why, "/nor/this/libcuda.so.1"));
    unsetenv("GDPAJIT_LIBCUDA");
}

static void a_library_that_is_no_driver_is_named(void **state)
{
    (void)state;
    struct gpu gpu;
    assert_false(gpu_open(&gpu, "libm.so.6", 0));
    assert_string_equal(gpu.why, "libm.so.6 has no cuInit: the driver is too old");
}

static void names_of_gpus_become_names_of_files(void **state)
{
    (void)state;
    static const struct {
        const char *name, *slug;
    } cases[] = {
        {"NVIDIA H200", "h200"},
        {"NVIDIA A100-SXM4-80GB", "a100_sxm4_80gb"},
        {"NVIDIA GeForce RTX 4090", "geforce_rtx_4090"},
        {"Tesla T4", "tesla_t4"},
        {"NVIDIA ../x (rev 2) ", "x_rev_2"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char slug[64];
        gpu_slug(cases[i].name, slug, sizeof slug);
        assert_string_equal(slug, cases[i].slug);
    }
    char narrow[5];
    gpu_slug("NVIDIA GeForce", narrow, sizeof narrow);
    assert_string_equal(narrow, "gefo");
}

static void without_nvml_there_are_no_figures(void **state)
{
    (void)state;
    struct nvml nvml;
    double mhz = 0;
    double watts = 0;
    assert_false(nvml_open(&nvml, "/no/such/libnvidia-ml.so.1", "0000:00:00.0"));
    assert_non_null(strstr(nvml.why, "/no/such/libnvidia-ml.so.1"));
    assert_false(nvml_read(&nvml, &mhz, &watts));
    struct nvml_sampler sampler;
    assert_false(nvml_sampler_start(&sampler, &nvml));
    assert_false(nvml_sampler_stop(&sampler, 0, &mhz, &watts));
    nvml_close(&nvml);
    assert_false(nvml_open(&nvml, "libm.so.6", "0000:00:00.0"));
    assert_string_equal(nvml.why, "libm.so.6 lacks a function that is needed");
}

static bool keep_last(const char *path, void *user)
{
    char *last = user;
    snprintf(last, 256, "%s", path);
    return strncmp(path, "/tmp/", 5) == 0;
}

/* Makes folder/relative, and the folders on the way. */
static void make_file(const char *folder, const char *relative)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s", folder, relative);
    for (char *at = path + 1; (at = strchr(at, '/')) != NULL; at++) {
        *at = 0;
        mkdir(path, 0700);
        *at = '/';
    }
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fclose(file);
}

static void cublas_is_found_in_toolkits_and_wheels(void **state)
{
    (void)state;
    static const struct {
        const char *variable, *file;
    } cases[] = {
        {"CUDA_HOME", "lib64/libcublas.so.13"},
        {"CUDA_PATH", "targets/x86_64-linux/lib/libcublas.so.12"},
        {"VIRTUAL_ENV", "lib/python3.11/site-packages/nvidia/cublas/lib/libcublas.so.12"},
        {"CONDA_PREFIX", "lib/python3.12/site-packages/nvidia/cu13/lib/libcublas.so.13"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char folder[64] = "/tmp/gdpa-cublas-XXXXXX";
        char expected[256];
        char last[256] = "";
        char command[128];
        assert_non_null(mkdtemp(folder));
        make_file(folder, cases[i].file);
        snprintf(expected, sizeof expected, "%s/%s", folder, cases[i].file);
        setenv(cases[i].variable, folder, 1);
        assert_true(cublas_candidates(keep_last, last));
        assert_string_equal(last, expected);
        unsetenv(cases[i].variable);
        snprintf(command, sizeof command, "rm -r %s", folder);
        assert_int_equal(system(command), 0);
    }
}

static void a_named_cublas_is_the_only_one_tried(void **state)
{
    (void)state;
    static const char *const bad[] = {"/no/such/libcublas.so", "libm.so.6"}; /* the second loads, but is none */
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct cublas cublas;
        char expected[128];
        assert_false(cublas_open(&cublas, bad[i], NULL));
        snprintf(expected, sizeof expected, "%s is no cuBLAS that can be loaded here", bad[i]);
        assert_string_equal(cublas.why, expected);
        cublas_close(&cublas);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_missing_driver_is_named),
        cmocka_unit_test(a_library_that_is_no_driver_is_named),
        cmocka_unit_test(names_of_gpus_become_names_of_files),
        cmocka_unit_test(without_nvml_there_are_no_figures),
        cmocka_unit_test(cublas_is_found_in_toolkits_and_wheels),
        cmocka_unit_test(a_named_cublas_is_the_only_one_tried),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
