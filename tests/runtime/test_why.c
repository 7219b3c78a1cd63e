/*
 * Why a kernel is not found.
 */
#include "runtime/kernel.h"
#include "tests/support/runtime_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define RELU "fwd head_dim=64 dtype=bf16 activation=relu arch=sm_80"

static char answer[1 << 16];

static const char *why(gdpa_ctx *ctx, const char *text)
{
    const gdpa_spec spec = runtime_spec(text);
    size_t length = 0;
    expect_ok(gdpa_cache_why(ctx, &spec, answer, sizeof answer, &length));
    assert_int_equal(strlen(answer), length);
    return answer;
}

static void fill(gdpa_ctx *ctx, const char *text)
{
    gdpa_kernel *kernel = NULL;
    const gdpa_spec spec = runtime_spec(text);
    expect_ok(gdpa_kernel_get(ctx, &spec, &kernel));
    gdpa_kernel_release(kernel);
}

static void what_is_there_is_named_and_what_is_not_has_a_nearest_entry(void **state)
{
    (void)state;
    char *folder = scratch_make();
    const gdpa_ctx_options options = runtime_options(folder);
    gdpa_ctx *ctx = runtime_context(&options);
    expect_text(why(ctx, RELU), "found: no\nnearest: none: ");
    fill(ctx, RELU);
    fill(ctx, "fwd head_dim=128 activation=silu arch=sm_90a");
    expect_text(why(ctx, RELU), "spec: " RELU "\n");
    expect_text(answer, "found: ");
    expect_text(answer, "kernels-v1.sqlite3\n");
    assert_null(strstr(answer, "nearest"));
    expect_text(why(ctx, "fwd head_dim=64 activation=relu causal arch=sm_80"), "found: no\n");
    expect_text(answer, "nearest.spec: " RELU "\n");
    expect_text(answer, "different: source: here ");
    expect_text(answer, "different.line: ");
    expect_text(answer, "different.also: entry: here gdpa_fwd_sm80_d64_bf16_relu_causal_");
    assert_null(strstr(answer, "target: here"));
    const long compiles = fake_nvrtc_control->calls("nvrtcCompileProgram");
    assert_int_equal(compiles, 2);
    gdpa_ctx_destroy(ctx);
    scratch_remove(folder);
}

static void another_compiler_is_the_difference(void **state)
{
    (void)state;
    char *folder = scratch_make();
    const gdpa_ctx_options options = runtime_options(folder);
    gdpa_ctx *ctx = runtime_context(&options);
    fill(ctx, RELU);
    gdpa_ctx_destroy(ctx);
    fake_nvrtc_control->version(13, 1);
    ctx = runtime_context(&options);
    expect_text(why(ctx, RELU), "nearest.spec: " RELU "\n");
    expect_text(answer, "different: nvrtc: here 13.1; there 13.0\n");
    assert_null(strstr(answer, "different.line"));
    gdpa_ctx_destroy(ctx);
    scratch_remove(folder);
}

static void without_a_compiler_or_a_cache_that_is_said(void **state)
{
    (void)state;
    char *folder = scratch_make();
    gdpa_ctx_options options = runtime_options(folder);
    gdpa_ctx *ctx = runtime_context(&options);
    fill(ctx, RELU);
    gdpa_ctx_destroy(ctx);
    options.nvrtc_path = "/nowhere/libnvrtc.so";
    ctx = runtime_context(&options);
    expect_text(why(ctx, "fwd head_dim=64 activation=relu causal arch=sm_80"),
                "key: unknown\nkey.missing: no usable NVRTC");
    expect_text(answer, "nearest.spec: " RELU "\n");
    gdpa_ctx_destroy(ctx);
    options = runtime_options(NULL);
    ctx = runtime_context(&options);
    expect_text(why(ctx, RELU), "found: no\nnearest: none: the mode is off");
    const gdpa_spec spec = runtime_spec(RELU);
    gdpa_spec bad = spec;
    size_t length = 0;
    bad.head_dim = 3;
    expect_failure(gdpa_cache_why(ctx, &bad, NULL, 0, &length), GDPA_E_ARGUMENT, "head_dim");
    expect_failure(gdpa_cache_why(ctx, &spec, NULL, 0, &length), GDPA_E_BUFFER, "");
    assert_true(length > 100);
    expect_failure(gdpa_cache_why(NULL, &spec, NULL, 0, &length), GDPA_E_ARGUMENT, "ctx is NULL");
    gdpa_ctx_destroy(ctx);
    scratch_remove(folder);
}

#define TEST(name) cmocka_unit_test_setup(name, fakes_reset)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(what_is_there_is_named_and_what_is_not_has_a_nearest_entry),
        TEST(another_compiler_is_the_difference),
        TEST(without_a_compiler_or_a_cache_that_is_said),
    };
    return cmocka_run_group_tests(tests, fakes_load, NULL);
}
