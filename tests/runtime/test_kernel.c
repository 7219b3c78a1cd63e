/*
 * Kernels: loading once, attributes for each device, counting, facts.
 */
#include "runtime/kernel.h"
#include "tests/support/runtime_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define SPEC "fwd head_dim=128 activation=relu arch="

static gdpa_ctx *context_on(const int *capabilities, int count)
{
    gdpa_ctx_options options = runtime_options(NULL);
    options.log_level = GDPA_LOG_ERROR;
    fake_driver_control->devices(count, capabilities);
    return runtime_context(&options);
}

static gdpa_kernel *get(gdpa_ctx *ctx, const char *text)
{
    gdpa_kernel *kernel = NULL;
    const gdpa_spec spec = runtime_spec(text);
    expect_ok(gdpa_kernel_get(ctx, &spec, &kernel));
    return kernel;
}

static void drop(gdpa_ctx *ctx, gdpa_kernel *kernel)
{
    gdpa_kernel_release(kernel);
    gdpa_ctx_destroy(ctx);
}

static void a_kernel_is_loaded_once(void **state)
{
    (void)state;
    static const int capability = 90;
    gdpa_ctx *ctx = context_on(&capability, 1);
    gdpa_kernel *kernel = get(ctx, SPEC "sm_90a");
    assert_int_equal(fake_driver_control->calls(NULL), fake_driver_control->calls("cuDriverGetVersion"));
    for (int i = 0; i < 3; i++) {
        expect_ok(gdpa_kernel_prepare(kernel));
    }
    assert_int_equal(fake_driver_control->calls("cuLibraryLoadData"), 1);
    assert_int_equal(fake_driver_control->calls("cuInit"), 1);
    assert_int_equal(fake_driver_control->loaded(), 1);
    gdpa_kernel_info info = {.size = sizeof info};
    expect_ok(gdpa_kernel_info_get(kernel, &info));
    assert_true(info.load_ms > 0.0);
    drop(ctx, kernel);
    assert_int_equal(fake_driver_control->loaded(), 0);
}

static void shared_memory_is_asked_for_once_on_every_device_that_runs_the_code(void **state)
{
    (void)state;
    static const int capabilities[] = {80, 86, 90, 80};
    gdpa_ctx *ctx = context_on(capabilities, 4);
    gdpa_kernel *kernel = get(ctx, SPEC "sm_80");
    assert_true(kernel->plan.smem_bytes > 48 * 1024);
    expect_ok(gdpa_kernel_prepare(kernel));
    assert_int_equal(fake_driver_control->attribute_calls(0), 1);
    assert_int_equal(fake_driver_control->attribute_calls(1), 1);
    assert_int_equal(fake_driver_control->attribute_calls(2), 0);
    assert_int_equal(fake_driver_control->attribute_calls(3), 1);
    drop(ctx, kernel);
}

static void code_that_no_device_runs_is_refused_with_the_devices(void **state)
{
    (void)state;
    static const int capabilities[] = {86, 90};
    gdpa_ctx *ctx = context_on(capabilities, 2);
    gdpa_kernel *kernel = get(ctx, SPEC "sm_100a");
    expect_failure(gdpa_kernel_prepare(kernel), GDPA_E_NO_DRIVER,
                   "is code for sm_100a, which no device here runs (0: Fake GPU 86 (8.6), 1: Fake GPU 90 (9.0))");
    assert_int_equal(fake_driver_control->loaded(), 0);
    drop(ctx, kernel);
}

static void every_failure_of_loading_is_reported_and_can_be_tried_again(void **state)
{
    (void)state;
    static const struct {
        const char *function;
        int result;
        gdpa_status status;
        const char *text;
    } cases[] = {
        {"cuLibraryLoadData", 200, GDPA_E_DRIVER, "made for sm_90a by NVRTC 13.0: CUDA_ERROR_INVALID_IMAGE (200)"},
        {"cuLibraryLoadData", 2, GDPA_E_DRIVER, "(CUDA 13.0) does not load gdpa_fwd_sm90_d128"},
        {"cuLibraryGetKernel", 500, GDPA_E_DRIVER, "in its own code: CUDA_ERROR_NOT_FOUND (500)"},
        {"cuKernelSetAttribute", 1, GDPA_E_DRIVER, "bytes of shared memory on device 0 (Fake GPU 90)"}};
    static const int capability = 90;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        fake_driver_control->reset();
        gdpa_ctx *ctx = context_on(&capability, 1);
        gdpa_kernel *kernel = get(ctx, SPEC "sm_90a");
        fake_driver_control->fault(cases[i].function, cases[i].result, 0);
        expect_failure(gdpa_kernel_prepare(kernel), cases[i].status, cases[i].text);
        assert_int_equal(fake_driver_control->loaded(), 0);
        assert_int_equal(fake_driver_control->capture_mode(), 0);
        fake_driver_control->fault(cases[i].function, 0, 0);
        expect_ok(gdpa_kernel_prepare(kernel));
        drop(ctx, kernel);
    }
}

static void one_device_that_refuses_does_not_stop_the_others(void **state)
{
    (void)state;
    static const int capabilities[] = {90, 90};
    gdpa_ctx *ctx = context_on(capabilities, 2);
    gdpa_kernel *kernel = get(ctx, SPEC "sm_90a");
    fake_driver_control->fault("cuKernelSetAttribute", 2, 1); /* the second call fails */
    expect_ok(gdpa_kernel_prepare(kernel));
    assert_string_equal(kernel->target, "sm_90a");
    drop(ctx, kernel);
}

static void loading_is_allowed_while_the_thread_captures(void **state)
{
    (void)state;
    static const int capability = 90;
    gdpa_ctx *ctx = context_on(&capability, 1);
    gdpa_kernel *kernel = get(ctx, SPEC "sm_90a");
    expect_ok(gdpa_kernel_prepare(kernel));
    assert_int_equal(fake_driver_control->capture_mode_at_load(), 2); /* relaxed */
    assert_int_equal(fake_driver_control->capture_mode(), 0);         /* and back */
    drop(ctx, kernel);
}

static void with_a_context_the_code_is_put_on_the_device_at_once(void **state)
{
    (void)state;
    static const int capability = 90;
    gdpa_ctx *ctx = context_on(&capability, 1);
    gdpa_kernel *kernel = get(ctx, SPEC "sm_90a");
    expect_ok(gdpa_kernel_prepare(kernel)); /* no context: nothing to put it on */
    assert_int_equal(fake_driver_control->calls("cuFuncLoad"), 0);
    drop(ctx, kernel);
    ctx = context_on(&capability, 1);
    kernel = get(ctx, SPEC "sm_90a");
    fake_driver_control->current(0);
    expect_ok(gdpa_kernel_prepare(kernel));
    assert_int_equal(fake_driver_control->calls("cuFuncLoad"), 1);
    drop(ctx, kernel);
}

static void the_facts_of_a_kernel_are_given(void **state)
{
    (void)state;
    static const int capability = 90;
    gdpa_ctx *ctx = context_on(&capability, 1);
    gdpa_kernel *kernel = get(ctx, SPEC "sm_90a");
    gdpa_kernel_info info = {.size = sizeof info};
    expect_ok(gdpa_kernel_info_get(kernel, &info));
    expect_text(info.name, "gdpa_fwd_sm90_d128_bf16_relu_");
    assert_string_equal(info.spec, "fwd head_dim=128 dtype=bf16 activation=relu arch=sm_90a");
    assert_string_equal(info.target, "sm_90a");
    assert_int_equal(strspn(info.key, "0123456789abcdef"), 32);
    assert_int_equal(strspn(info.source_hash, "0123456789abcdef"), 32);
    assert_string_equal(info.origin, "compiled");
    assert_string_equal(info.nvrtc, "13.0");
    assert_int_equal(info.registers, 42);
    assert_int_equal(info.smem_static, 16);
    assert_int_equal(info.smem_dynamic, kernel->plan.smem_bytes);
    assert_int_equal(info.threads, kernel->plan.threads);
    assert_true(info.binary_bytes > 4096);
    assert_true(info.generate_ms > 0.0);
    info.size = 1;
    expect_failure(gdpa_kernel_info_get(kernel, &info), GDPA_E_VERSION, "gdpa_kernel_info.size is 1");
    expect_failure(gdpa_kernel_info_get(NULL, &info), GDPA_E_ARGUMENT, "kernel is NULL");
    expect_failure(gdpa_kernel_info_get(kernel, NULL), GDPA_E_ARGUMENT, "info is NULL");
    expect_failure(gdpa_kernel_prepare(NULL), GDPA_E_ARGUMENT, "kernel is NULL");
    drop(ctx, kernel);
}

static void *prepare_run(void *user)
{
    return gdpa_kernel_prepare(user) == GDPA_OK ? NULL : user;
}

static void many_threads_load_once(void **state)
{
    (void)state;
    static const int capability = 90;
    gdpa_ctx *ctx = context_on(&capability, 1);
    gdpa_kernel *kernel = get(ctx, SPEC "sm_90a");
    pthread_t threads[32];
    for (int i = 0; i < 32; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, prepare_run, kernel), 0);
    }
    for (int i = 0; i < 32; i++) {
        void *result = NULL;
        pthread_join(threads[i], &result);
        assert_null(result);
    }
    assert_int_equal(fake_driver_control->calls("cuLibraryLoadData"), 1);
    drop(ctx, kernel);
}

static void *churn_run(void *user)
{
    gdpa_ctx *ctx = user;
    const gdpa_spec spec = runtime_spec(SPEC "sm_90a");
    for (int i = 0; i < 500; i++) {
        gdpa_kernel *kernel = NULL;
        if (gdpa_kernel_get(ctx, &spec, &kernel) != GDPA_OK || kernel == NULL) {
            return user;
        }
        gdpa_kernel_release(gdpa_kernel_retain(kernel));
        gdpa_kernel_release(kernel);
    }
    return NULL;
}

static void getting_and_releasing_in_many_threads_keeps_the_count(void **state)
{
    (void)state;
    static const int capability = 90;
    gdpa_ctx *ctx = context_on(&capability, 1);
    pthread_t threads[8];
    for (int i = 0; i < 8; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, churn_run, ctx), 0);
    }
    for (int i = 0; i < 8; i++) {
        void *result = NULL;
        pthread_join(threads[i], &result);
        assert_null(result);
    }
    assert_int_equal(atomic_load(&ctx->references), 1);
    assert_int_equal(fake_nvrtc_control->calls("nvrtcCompileProgram"), 1);
    gdpa_ctx_destroy(ctx);
}

static void the_first_launch_may_be_in_a_capture_and_does_not_spoil_it(void **state)
{
    (void)state;
    static const int capability = 90;
    gdpa_ctx *ctx = context_on(&capability, 1);
    const gdpa_spec spec = runtime_spec(SPEC "sm_90a");
    const gdpa_args args = runtime_args();
    fake_driver_control->capture(true);
    expect_ok(gdpa_forward(ctx, &spec, &args, fake_driver_control->stream(0)));
    assert_false(fake_driver_control->capture_poisoned());
    assert_int_equal(fake_driver_control->capture_mode(), 0);
    fake_driver_control->capture(false);
    gdpa_ctx_destroy(ctx);
}

static void a_strict_capture_is_left_as_it_is_and_the_error_names_the_kernel(void **state)
{
    (void)state;
    static const int capability = 90;
    gdpa_ctx_options options = runtime_options(NULL);
    options.capture = GDPA_CAPTURE_STRICT;
    fake_driver_control->devices(1, &capability);
    gdpa_ctx *ctx = runtime_context(&options);
    gdpa_kernel *kernel = get(ctx, SPEC "sm_90a");
    const gdpa_args args = runtime_args();
    fake_driver_control->capture(true);
    expect_failure(gdpa_launch(kernel, &args, NULL, 0, fake_driver_control->stream(0)), GDPA_E_CAPTURE,
                   "the stream captures, and gdpa_fwd_sm90_d128_bf16_relu_");
    expect_text(gdpa_last_error(), "call gdpa_kernel_prepare before the capture");
    assert_int_equal(fake_driver_control->calls("cuLibraryLoadData"), 0);
    assert_int_equal(fake_driver_control->calls("cuLaunchKernelEx"), 0);
    assert_false(fake_driver_control->capture_poisoned());
    fake_driver_control->capture(false);
    expect_ok(gdpa_kernel_prepare(kernel));
    fake_driver_control->capture(true);
    expect_ok(gdpa_launch(kernel, &args, NULL, 0, fake_driver_control->stream(0)));
    assert_false(fake_driver_control->capture_poisoned());
    drop(ctx, kernel);
}

static void trimming_unloads_what_nobody_holds(void **state)
{
    (void)state;
    static const int capability = 90;
    gdpa_ctx *ctx = context_on(&capability, 1);
    gdpa_kernel *held = get(ctx, SPEC "sm_90a");
    gdpa_kernel *other = get(ctx, SPEC "sm_90a causal");
    const gdpa_spec spec = runtime_spec(SPEC "sm_90a causal");
    const gdpa_args args = runtime_args();
    int64_t unloaded = -1;
    expect_ok(gdpa_kernel_prepare(held));
    expect_ok(gdpa_kernel_prepare(other));
    gdpa_kernel_release(other);
    expect_ok(gdpa_ctx_trim(ctx, &unloaded));
    assert_int_equal(unloaded, 1);
    assert_int_equal(fake_driver_control->loaded(), 1);
    expect_ok(gdpa_forward(ctx, &spec, &args, fake_driver_control->stream(0))); /* comes back by itself */
    assert_int_equal(fake_driver_control->loaded(), 2);
    expect_ok(gdpa_ctx_trim(ctx, NULL));
    expect_failure(gdpa_ctx_trim(NULL, NULL), GDPA_E_ARGUMENT, "ctx is NULL");
    expect_ok(gdpa_launch(held, &args, NULL, 0, fake_driver_control->stream(0)));
    drop(ctx, held);
    assert_int_equal(fake_driver_control->loaded(), 0);
}

static void after_a_reset_of_the_device_kernels_load_again(void **state)
{
    (void)state;
    static const int capability = 90;
    gdpa_ctx *ctx = context_on(&capability, 1);
    gdpa_kernel *kernel = get(ctx, SPEC "sm_90a");
    const gdpa_args args = runtime_args();
    expect_ok(gdpa_launch(kernel, &args, NULL, 0, fake_driver_control->stream(0)));
    fake_driver_control->device_reset();
    expect_failure(gdpa_launch(kernel, &args, NULL, 0, fake_driver_control->stream(0)), GDPA_E_DRIVER,
                   "CUDA_ERROR_CONTEXT_IS_DESTROYED (709)");
    expect_text(gdpa_last_error(), "call gdpa_ctx_reset");
    expect_ok(gdpa_ctx_reset(ctx));
    assert_int_equal(fake_driver_control->calls("cuLibraryUnload"), 0); /* the handle is void */
    expect_ok(gdpa_launch(kernel, &args, NULL, 0, fake_driver_control->stream(0)));
    expect_failure(gdpa_ctx_reset(NULL), GDPA_E_ARGUMENT, "ctx is NULL");
    drop(ctx, kernel);
}

static void one_handle_serves_all_devices_and_contexts(void **state)
{
    (void)state;
    static const int capabilities[] = {90, 90};
    gdpa_ctx *ctx = context_on(capabilities, 2);
    gdpa_kernel *kernel = get(ctx, SPEC "sm_90a");
    const gdpa_args args = runtime_args();
    struct fake_launch launch;
    fake_driver_control->params_size(64);
    for (int i = 0; i < 4; i++) {
        expect_ok(gdpa_launch(kernel, &args, NULL, 0, fake_driver_control->stream(i % 2)));
        assert_true(fake_driver_control->last_launch(&launch));
        assert_int_equal(launch.device, i % 2);
        fake_driver_control->current(1 - i % 2);
        expect_ok(gdpa_launch(kernel, &args, NULL, 0, NULL));
        assert_true(fake_driver_control->last_launch(&launch));
        assert_int_equal(launch.device, 1 - i % 2);
    }
    assert_int_equal(fake_driver_control->calls("cuLibraryLoadData"), 1);
    drop(ctx, kernel);
}

#define TEST(name) cmocka_unit_test_setup(name, fakes_reset)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_kernel_is_loaded_once),
        TEST(shared_memory_is_asked_for_once_on_every_device_that_runs_the_code),
        TEST(code_that_no_device_runs_is_refused_with_the_devices),
        TEST(every_failure_of_loading_is_reported_and_can_be_tried_again),
        TEST(one_device_that_refuses_does_not_stop_the_others),
        TEST(loading_is_allowed_while_the_thread_captures),
        TEST(the_first_launch_may_be_in_a_capture_and_does_not_spoil_it),
        TEST(a_strict_capture_is_left_as_it_is_and_the_error_names_the_kernel),
        TEST(trimming_unloads_what_nobody_holds),
        TEST(after_a_reset_of_the_device_kernels_load_again),
        TEST(one_handle_serves_all_devices_and_contexts),
        TEST(with_a_context_the_code_is_put_on_the_device_at_once),
        TEST(the_facts_of_a_kernel_are_given),
        TEST(many_threads_load_once),
        TEST(getting_and_releasing_in_many_threads_keeps_the_count),
    };
    return cmocka_run_group_tests(tests, fakes_load, NULL);
}
