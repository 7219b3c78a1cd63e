/*
 * Calls of the public header with what no program should pass: NULL for each argument, structs of impossible sizes. Each is
 * refused with a text that names the argument, and nothing happens before that.
 */
#include "tests/support/runtime_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define SPEC "fwd head_dim=64 activation=relu arch=sm_90a family=portable"
#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

static gdpa_ctx *ctx;
static gdpa_kernel *kernel;
static char *folder;

static int begin(void **state)
{
    fakes_reset(state);
    folder = scratch_make();
    const gdpa_ctx_options options = runtime_options(folder);
    const gdpa_spec spec = runtime_spec(SPEC);
    ctx = runtime_context(&options);
    expect_ok(gdpa_kernel_get(ctx, &spec, &kernel));
    return 0;
}

static int end(void **state)
{
    (void)state;
    gdpa_kernel_release(kernel);
    gdpa_ctx_destroy(ctx);
    scratch_remove(folder);
    return 0;
}

static void null_is_refused_wherever_something_is_needed(void **state)
{
    (void)state;
    gdpa_spec spec = runtime_spec(SPEC);
    gdpa_args args = runtime_args();
    gdpa_request *request = NULL;
    size_t size = 0;
    char text[64];
    int32_t number = 0;
    expect_failure(gdpa_spec_parse(NULL, &spec), GDPA_E_ARGUMENT, "NULL");
    expect_failure(gdpa_spec_parse(SPEC, NULL), GDPA_E_ARGUMENT, "NULL");
    expect_failure(gdpa_spec_format(NULL, text, sizeof text, &size), GDPA_E_ARGUMENT, "NULL");
    expect_failure(gdpa_spec_check(NULL), GDPA_E_ARGUMENT, "NULL");
    expect_failure(gdpa_spec_bounds(NULL, &number, &number, &number), GDPA_E_ARGUMENT, "NULL");
    expect_failure(gdpa_ctx_create(NULL, NULL), GDPA_E_ARGUMENT, "ctx is NULL");
    expect_failure(gdpa_ctx_default(NULL), GDPA_E_ARGUMENT, "ctx is NULL");
    expect_failure(gdpa_ctx_trim(NULL, NULL), GDPA_E_ARGUMENT, "ctx is NULL");
    expect_failure(gdpa_ctx_reset(NULL), GDPA_E_ARGUMENT, "ctx is NULL");
    expect_failure(gdpa_ctx_stats(NULL, NULL), GDPA_E_ARGUMENT, "ctx is NULL");
    expect_failure(gdpa_ctx_stats(ctx, NULL), GDPA_E_ARGUMENT, "stats is NULL");
    expect_failure(gdpa_ctx_describe(NULL, text, sizeof text, &size), GDPA_E_ARGUMENT, "ctx is NULL");
    expect_failure(gdpa_ctx_describe(ctx, NULL, 1 << 20, &size), GDPA_E_ARGUMENT, "NULL");
    expect_failure(gdpa_kernel_get(NULL, &spec, &kernel), GDPA_E_ARGUMENT, "ctx is NULL");
    expect_failure(gdpa_kernel_get(ctx, NULL, &kernel), GDPA_E_ARGUMENT, "spec is NULL");
    expect_failure(gdpa_kernel_get(ctx, &spec, NULL), GDPA_E_ARGUMENT, "kernel is NULL");
    expect_failure(gdpa_kernel_get_async(NULL, &spec, &request), GDPA_E_ARGUMENT, "ctx is NULL");
    expect_failure(gdpa_kernel_get_async(ctx, NULL, &request), GDPA_E_ARGUMENT, "spec is NULL");
    expect_failure(gdpa_kernel_get_async(ctx, &spec, NULL), GDPA_E_ARGUMENT, "request is NULL");
    expect_failure(gdpa_request_wait(NULL, 0, &kernel), GDPA_E_ARGUMENT, "request is NULL");
    expect_failure(gdpa_prefetch(NULL, &spec), GDPA_E_ARGUMENT, "ctx is NULL");
    expect_failure(gdpa_prefetch(ctx, NULL), GDPA_E_ARGUMENT, "spec is NULL");
    expect_failure(gdpa_kernel_prepare(NULL), GDPA_E_ARGUMENT, "kernel is NULL");
    expect_failure(gdpa_workspace_size(NULL, &args, &size), GDPA_E_ARGUMENT, "NULL");
    expect_failure(gdpa_workspace_size(kernel, NULL, &size), GDPA_E_ARGUMENT, "NULL");
    expect_failure(gdpa_workspace_size(kernel, &args, NULL), GDPA_E_ARGUMENT, "NULL");
    expect_failure(gdpa_launch(NULL, &args, NULL, 0, NULL), GDPA_E_ARGUMENT, "NULL");
    expect_failure(gdpa_launch(kernel, NULL, NULL, 0, NULL), GDPA_E_ARGUMENT, "NULL");
    expect_failure(gdpa_forward(NULL, &spec, &args, NULL), GDPA_E_ARGUMENT, "NULL");
    expect_failure(gdpa_forward(ctx, NULL, &args, NULL), GDPA_E_ARGUMENT, "NULL");
    expect_failure(gdpa_forward(ctx, &spec, NULL, NULL), GDPA_E_ARGUMENT, "NULL");
    expect_failure(gdpa_backward(NULL, &spec, &args, NULL, 0, NULL), GDPA_E_ARGUMENT, "NULL");
    expect_failure(gdpa_backward(ctx, NULL, &args, NULL, 0, NULL), GDPA_E_ARGUMENT, "NULL");
    expect_failure(gdpa_backward(ctx, &spec, NULL, NULL, 0, NULL), GDPA_E_ARGUMENT, "NULL");
    expect_failure(gdpa_backward_workspace_size(NULL, &spec, &args, &size), GDPA_E_ARGUMENT, "NULL");
    expect_failure(gdpa_backward_workspace_size(ctx, NULL, &args, &size), GDPA_E_ARGUMENT, "NULL");
    expect_failure(gdpa_backward_workspace_size(ctx, &spec, NULL, &size), GDPA_E_ARGUMENT, "NULL");
    expect_failure(gdpa_backward_workspace_size(ctx, &spec, &args, NULL), GDPA_E_ARGUMENT, "NULL");
}

static void null_is_refused_by_what_looks_at_kernels_and_the_cache(void **state)
{
    (void)state;
    const gdpa_spec spec = runtime_spec(SPEC);
    gdpa_kernel_info info = {.size = sizeof info};
    size_t size = 0;
    char text[64];
    expect_failure(gdpa_kernel_info_get(NULL, &info), GDPA_E_ARGUMENT, "kernel is NULL");
    expect_failure(gdpa_kernel_info_get(kernel, NULL), GDPA_E_ARGUMENT, "info is NULL");
    expect_failure(gdpa_kernel_artifact(NULL, GDPA_ARTIFACT_CUBIN, text, sizeof text, &size), GDPA_E_ARGUMENT, "NULL");
    expect_failure(gdpa_kernel_artifact(kernel, GDPA_ARTIFACT_CUBIN, NULL, 1 << 20, &size), GDPA_E_ARGUMENT, "NULL");
    expect_failure(gdpa_kernel_artifact(kernel, (gdpa_artifact)77, text, sizeof text, &size), GDPA_E_ARGUMENT, "77");
    expect_failure(gdpa_generate(NULL, GDPA_ARTIFACT_SOURCE, text, sizeof text, &size), GDPA_E_ARGUMENT, "NULL");
    expect_failure(gdpa_generate(&spec, (gdpa_artifact)-1, text, sizeof text, &size), GDPA_E_ARGUMENT, "-1");
    expect_failure(gdpa_cache_list(NULL, NULL, NULL), GDPA_E_ARGUMENT, "NULL");
    expect_failure(gdpa_cache_list(ctx, NULL, NULL), GDPA_E_ARGUMENT, "visit is NULL");
    expect_failure(gdpa_cache_describe(NULL, NULL), GDPA_E_ARGUMENT, "NULL");
    expect_failure(gdpa_cache_describe(ctx, NULL), GDPA_E_ARGUMENT, "summary is NULL");
    expect_failure(gdpa_cache_verify(NULL, NULL, NULL), GDPA_E_ARGUMENT, "ctx is NULL");
    expect_failure(gdpa_cache_gc(NULL, 0, NULL), GDPA_E_ARGUMENT, "ctx is NULL");
    expect_failure(gdpa_cache_gc(ctx, -1, NULL), GDPA_E_ARGUMENT, "-1");
    expect_failure(gdpa_cache_remove(NULL, NULL, NULL), GDPA_E_ARGUMENT, "ctx is NULL");
    expect_failure(gdpa_cache_artifact(NULL, "0", GDPA_ARTIFACT_CUBIN, text, sizeof text, &size), GDPA_E_ARGUMENT,
                   "NULL");
    expect_failure(gdpa_cache_artifact(ctx, NULL, GDPA_ARTIFACT_CUBIN, text, sizeof text, &size), GDPA_E_ARGUMENT,
                   "NULL");
    expect_failure(gdpa_cache_why(NULL, &spec, text, sizeof text, &size), GDPA_E_ARGUMENT, "NULL");
    expect_failure(gdpa_cache_why(ctx, NULL, text, sizeof text, &size), GDPA_E_ARGUMENT, "NULL");
    expect_failure(gdpa_pack_write(NULL, "x", NULL, 0, 0, NULL), GDPA_E_ARGUMENT, "ctx is NULL");
    expect_failure(gdpa_pack_write(ctx, NULL, NULL, 0, 0, NULL), GDPA_E_ARGUMENT, "path is NULL");
    expect_failure(gdpa_pack_read(NULL, "x", 0, NULL), GDPA_E_ARGUMENT, "ctx is NULL");
    expect_failure(gdpa_pack_read(ctx, NULL, 0, NULL), GDPA_E_ARGUMENT, "path is NULL");
    expect_failure(gdpa_pack_read(ctx, "", 0, NULL), GDPA_E_ARGUMENT, "empty");
}

static void what_may_be_null_is_left_alone(void **state)
{
    (void)state;
    gdpa_ctx_destroy(NULL);
    gdpa_kernel_release(NULL);
    gdpa_request_release(NULL);
    assert_null(gdpa_kernel_retain(NULL));
    expect_ok(gdpa_ctx_trim(ctx, NULL));
    expect_ok(gdpa_cache_gc(ctx, 0, NULL));
    expect_ok(gdpa_cache_verify(ctx, NULL, NULL));
    assert_non_null(gdpa_status_name((gdpa_status)12345));
    assert_non_null(gdpa_status_str((gdpa_status)-12345));
}

static void structs_of_impossible_sizes_are_refused_before_anything_is_done(void **state)
{
    (void)state;
    static const size_t sizes[] = {0, 1, sizeof(size_t), SIZE_MAX, SIZE_MAX / 2, (size_t)1 << 31};
    char pack[4200];
    snprintf(pack, sizeof pack, "%s/x.pack", folder);
    for (size_t i = 0; i < COUNT_OF(sizes); i++) {
        gdpa_stats stats = {.size = sizes[i]};
        gdpa_kernel_info info = {.size = sizes[i]};
        gdpa_cache_summary summary = {.size = sizes[i]};
        gdpa_cache_gc_report report = {.size = sizes[i]};
        gdpa_pack_report packed = {.size = sizes[i]};
        gdpa_ctx_options options = runtime_options(folder);
        gdpa_spec spec = runtime_spec(SPEC);
        gdpa_args args = runtime_args();
        gdpa_ctx *other = NULL;
        options.size = sizes[i];
        spec.size = (uint32_t)sizes[i];
        args.size = sizes[i];
        expect_failure(gdpa_ctx_create(&options, &other), GDPA_E_VERSION, "gdpa_ctx_options.size is");
        expect_failure(gdpa_spec_check(&spec), GDPA_E_VERSION, "size");
        expect_failure(gdpa_launch(kernel, &args, NULL, 0, NULL), GDPA_E_VERSION, "gdpa_args.size is");
        expect_failure(gdpa_ctx_stats(ctx, &stats), GDPA_E_VERSION, "gdpa_stats.size is");
        expect_failure(gdpa_kernel_info_get(kernel, &info), GDPA_E_VERSION, "gdpa_kernel_info.size is");
        expect_failure(gdpa_cache_describe(ctx, &summary), GDPA_E_VERSION, "gdpa_cache_summary.size is");
        expect_failure(gdpa_cache_gc(ctx, 1, &report), GDPA_E_VERSION, "gdpa_cache_gc_report.size is");
        expect_failure(gdpa_pack_write(ctx, pack, NULL, 0, 0, &packed), GDPA_E_VERSION, "gdpa_pack_report.size is");
        assert_int_not_equal(access(pack, F_OK), 0);
    }
    gdpa_cache_summary summary = {.size = sizeof summary};
    expect_ok(gdpa_cache_describe(ctx, &summary));
    assert_int_equal(summary.entries, 1); /* nothing was evicted either */
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(null_is_refused_wherever_something_is_needed),
        TEST(null_is_refused_by_what_looks_at_kernels_and_the_cache),
        TEST(what_may_be_null_is_left_alone),
        TEST(structs_of_impossible_sizes_are_refused_before_anything_is_done),
    };
    return cmocka_run_group_tests(tests, fakes_load, NULL);
}
