/*
 * What a context says about its surroundings, also where there are none.
 */
#include "runtime/env.h"
#include "tests/support/runtime_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static char *described(gdpa_ctx *ctx)
{
    size_t length = 0, again = 0;
    expect_failure(gdpa_ctx_describe(ctx, NULL, 0, &length), GDPA_E_BUFFER, "description");
    char *text = malloc(length + 1);
    assert_non_null(text);
    expect_failure(gdpa_ctx_describe(ctx, text, length, &again), GDPA_E_BUFFER, "description"); /* no room for the 0 */
    expect_ok(gdpa_ctx_describe(ctx, text, length + 1, &again));
    assert_int_equal(again, length);
    assert_int_equal(strlen(text), length);
    return text;
}

/* Every line is "name: value", or more of the value above. */
static void expect_lines(const char *text)
{
    for (const char *line = text; *line != '\0'; line = strchr(line, '\n') + 1) {
        const size_t length = strcspn(line, "\n");
        assert_int_equal(line[length], '\n');
        const char *colon = strstr(line, ": ");
        assert_true(strncmp(line, "    ", 4) == 0 || (colon != NULL && colon < line + length));
    }
}

static void everything_that_was_found_is_listed(void **state)
{
    (void)state;
    static const int capabilities[] = {90, 75};
    char *folder = scratch_make();
    gdpa_ctx_options options = runtime_options(folder);
    fake_driver_control->devices(2, capabilities);
    setenv("GDPAJIT_CACHE_LIMIT", "5M", 1);
    options.packs = "/nowhere.pack";
    options.log_level = GDPA_LOG_NONE;
    gdpa_ctx *ctx = runtime_context(&options);
    unsetenv("GDPAJIT_CACHE_LIMIT");
    char *text = described(ctx);
    expect_lines(text);
    static const char *const parts[] = {"version: 0.1.0\n",
                                        "mode: auto (gdpa_ctx_options.mode)\n",
                                        "nvrtc: 13.0\n",
                                        "nvrtc.path: ",
                                        "nvrtc.archs: 75 80 86",
                                        "libfake_nvrtc.so: version 13.0, taken",
                                        "driver: CUDA 13.0\n",
                                        "devices: 2\n",
                                        "device.0: Fake GPU 90, compute capability 9.0, sm_90a\n",
                                        "device.1: Fake GPU 75, compute capability 7.5, no kernels for it\n",
                                        "cache: read-write\n",
                                        "cache.origin: gdpa_ctx_options.cache_dir\n",
                                        "cache.entries: 0\n",
                                        "cache.limit: 5242880\n",
                                        "pack.0: /nowhere.pack\npack.0.state: cannot open it: No such file",
                                        "GDPAJIT_CACHE_LIMIT: 5M (environment)\n",
                                        "GDPAJIT_MODE: auto (default)\n"};
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        expect_text(text, parts[i]);
    }
    for (int i = 0; i < ENV_OWN_COUNT; i++) {
        expect_text(text, env_rows[i].name);
    }
    free(text);
    gdpa_ctx_destroy(ctx);
    scratch_remove(folder);
}

static void what_is_missing_is_listed_with_where_it_was_looked_for(void **state)
{
    (void)state;
    gdpa_ctx_options options = runtime_options(NULL);
    options.driver_path = "/nonexistent/libcuda.so";
    options.nvrtc_path = "/nonexistent/libnvrtc.so";
    gdpa_ctx *ctx = runtime_context(&options);
    char *text = described(ctx);
    expect_lines(text);
    expect_text(text, "nvrtc: no usable NVRTC library");
    expect_text(text, "/nonexistent/libnvrtc.so: cannot open");
    expect_text(text, "driver: no CUDA driver: /nonexistent/libcuda.so");
    expect_text(text, "cache: the mode is off (gdpa_ctx_options.mode)");
    free(text);
    gdpa_ctx_destroy(ctx);
}

static void a_driver_without_a_gpu_is_listed(void **state)
{
    (void)state;
    const gdpa_ctx_options options = runtime_options(NULL);
    fake_driver_control->fault("cuInit", 100, 0);
    gdpa_ctx *ctx = runtime_context(&options);
    char *text = described(ctx);
    expect_text(text, "driver: CUDA 13.0\n");
    expect_text(text, "CUDA_ERROR_NO_DEVICE (100)");
    free(text);
    gdpa_ctx_destroy(ctx);
    expect_failure(gdpa_ctx_describe(NULL, NULL, 0, NULL), GDPA_E_ARGUMENT, "ctx is NULL");
}

#define TEST(name) cmocka_unit_test_setup(name, fakes_reset)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(everything_that_was_found_is_listed),
        TEST(what_is_missing_is_listed_with_where_it_was_looked_for),
        TEST(a_driver_without_a_gpu_is_listed),
    };
    return cmocka_run_group_tests(tests, fakes_load, NULL);
}
