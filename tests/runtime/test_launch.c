/*
 * Launching: one call of the driver and nothing else; what happens when the driver refuses.
 */
#include "runtime/kernel.h"
#include "templates/params.h"
#include "tests/support/runtime_fixture.h"

#include <malloc.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define SPEC "fwd head_dim=64 activation=relu arch="

struct launched {
    gdpa_ctx *ctx;
    gdpa_kernel *kernel;
};

static struct launched kernel_on(const int *capabilities, int count, const char *arch)
{
    struct launched made;
    char text[128];
    const gdpa_ctx_options options = runtime_options(NULL);
    fake_driver_control->devices(count, capabilities);
    fake_driver_control->params_size(sizeof(struct gdpa_fwd_params));
    made.ctx = runtime_context(&options);
    snprintf(text, sizeof text, SPEC "%s", arch);
    const gdpa_spec spec = runtime_spec(text);
    made.kernel = NULL;
    expect_ok(gdpa_kernel_get(made.ctx, &spec, &made.kernel));
    return made;
}

static void drop(struct launched made)
{
    gdpa_kernel_release(made.kernel);
    gdpa_ctx_destroy(made.ctx);
}

static void a_launch_passes_grid_block_memory_stream_and_parameters(void **state)
{
    (void)state;
    static const int capability = 80;
    struct launched made = kernel_on(&capability, 1, "sm_80");
    gdpa_args args = runtime_args();
    struct fake_launch launch;
    args.flags = GDPA_ARGS_SCALE;
    args.scale = 0.125f;
    expect_ok(gdpa_launch(made.kernel, &args, NULL, 0, fake_driver_control->stream(0)));
    assert_true(fake_driver_control->last_launch(&launch));
    assert_int_equal(launch.grid, 2 * 4);
    assert_int_equal(launch.grid_y, 1);
    assert_int_equal(launch.block, made.kernel->plan.threads);
    assert_int_equal(launch.shared_bytes, made.kernel->plan.smem_bytes);
    assert_ptr_equal(launch.stream, fake_driver_control->stream(0));
    assert_string_equal(launch.kernel, made.kernel->name);
    struct gdpa_fwd_params params;
    memcpy(&params, launch.params, sizeof params);
    assert_ptr_equal(params.q, args.q.data);
    assert_ptr_equal(params.o, args.o.data);
    assert_int_equal(params.heads_q, 4);
    assert_true(params.scale == 0.125f && params.out_scale == 1.0f);
    drop(made);
}

static void after_the_first_one_a_launch_is_one_call_of_the_driver_and_no_allocation(void **state)
{
    (void)state;
    static const int capability = 80;
    struct launched made = kernel_on(&capability, 1, "sm_80");
    const gdpa_args args = runtime_args();
    expect_ok(gdpa_launch(made.kernel, &args, NULL, 0, fake_driver_control->stream(0)));
    const long calls = fake_driver_control->calls(NULL);
    const long launches = fake_driver_control->calls("cuLaunchKernelEx");
#ifdef __GLIBC__
    const struct mallinfo2 before = mallinfo2();
#endif
    for (int i = 0; i < 100; i++) {
        assert_int_equal(gdpa_launch(made.kernel, &args, NULL, 0, fake_driver_control->stream(0)), GDPA_OK);
    }
#ifdef __GLIBC__
    const struct mallinfo2 after = mallinfo2();
    assert_int_equal(after.uordblks, before.uordblks);
#endif
    assert_int_equal(fake_driver_control->calls("cuLaunchKernelEx"), launches + 100);
    assert_int_equal(fake_driver_control->calls(NULL), calls + 100);
    gdpa_stats stats = {.size = sizeof stats};
    expect_ok(gdpa_ctx_stats(made.ctx, &stats));
    assert_int_equal(stats.launches, 101);
    drop(made);
}

static void an_empty_problem_succeeds_without_any_driver(void **state)
{
    (void)state;
    gdpa_ctx_options options = runtime_options(NULL);
    options.driver_path = "/nonexistent/libcuda.so";
    gdpa_ctx *ctx = runtime_context(&options);
    gdpa_kernel *kernel = NULL;
    const gdpa_spec spec = runtime_spec(SPEC "sm_80");
    expect_ok(gdpa_kernel_get(ctx, &spec, &kernel));
    gdpa_args args = runtime_args();
    args.seqlen_q = 0;
    expect_ok(gdpa_launch(kernel, &args, NULL, 0, NULL));
    args.seqlen_q = 1;
    expect_failure(gdpa_launch(kernel, &args, NULL, 0, NULL), GDPA_E_NO_DRIVER, "no CUDA driver");
    gdpa_kernel_release(kernel);
    gdpa_ctx_destroy(ctx);
}

static void bad_arguments_reach_no_driver(void **state)
{
    (void)state;
    static const int capability = 80;
    struct launched made = kernel_on(&capability, 1, "sm_80");
    gdpa_args args = runtime_args();
    args.heads_k = 3;
    const long calls = fake_driver_control->calls(NULL);
    expect_failure(gdpa_launch(made.kernel, &args, NULL, 0, NULL), GDPA_E_ARGUMENT, "heads_q 4 is not a multiple");
    expect_failure(gdpa_launch(NULL, &args, NULL, 0, NULL), GDPA_E_ARGUMENT, "kernel is NULL");
    expect_failure(gdpa_launch(made.kernel, NULL, NULL, 0, NULL), GDPA_E_ARGUMENT, "args is NULL");
    assert_int_equal(fake_driver_control->calls(NULL), calls);
    drop(made);
}

static void forward_kernels_need_no_workspace(void **state)
{
    (void)state;
    static const int capability = 80;
    struct launched made = kernel_on(&capability, 1, "sm_80");
    gdpa_args args = runtime_args();
    size_t bytes = 77;
    expect_ok(gdpa_workspace_size(made.kernel, &args, &bytes));
    assert_int_equal(bytes, 0);
    expect_ok(gdpa_launch(made.kernel, &args, (void *)(uintptr_t)3, 5, fake_driver_control->stream(0)));
    args.batch = -1;
    bytes = 77;
    expect_failure(gdpa_workspace_size(made.kernel, &args, &bytes), GDPA_E_ARGUMENT, "batch -1");
    assert_int_equal(bytes, 77);
    expect_failure(gdpa_workspace_size(NULL, &args, &bytes), GDPA_E_ARGUMENT, "kernel is NULL");
    expect_failure(gdpa_workspace_size(made.kernel, &args, NULL), GDPA_E_ARGUMENT, "bytes is NULL");
    drop(made);
}

static void the_null_stream_needs_a_context_and_says_so(void **state)
{
    (void)state;
    static const int capability = 80;
    struct launched made = kernel_on(&capability, 1, "sm_80");
    const gdpa_args args = runtime_args();
    expect_failure(gdpa_launch(made.kernel, &args, NULL, 0, NULL), GDPA_E_DRIVER,
                   "CUDA_ERROR_INVALID_CONTEXT (201): a fault of the fake driver; the NULL stream needs a context");
    fake_driver_control->current(0);
    expect_ok(gdpa_launch(made.kernel, &args, NULL, 0, NULL));
    drop(made);
}

static void a_stream_brings_its_context_where_the_driver_needs_one(void **state)
{
    (void)state;
    static const int capabilities[] = {80, 80};
    struct launched made = kernel_on(capabilities, 2, "sm_80");
    const gdpa_args args = runtime_args();
    struct fake_launch launch;
    fake_driver_control->needs_current(true);
    expect_ok(gdpa_launch(made.kernel, &args, NULL, 0, fake_driver_control->stream(1)));
    assert_true(fake_driver_control->last_launch(&launch));
    assert_int_equal(launch.device, 1);
    assert_int_equal(fake_driver_control->calls("cuCtxPushCurrent_v2"),
                     fake_driver_control->calls("cuCtxPopCurrent_v2"));
    fake_driver_control->fault("cuCtxPushCurrent_v2", 1, 0);
    expect_failure(gdpa_launch(made.kernel, &args, NULL, 0, fake_driver_control->stream(1)), GDPA_E_DRIVER,
                   "CUDA_ERROR_INVALID_VALUE (1)");
    drop(made);
}

static void one_handle_serves_every_device_of_its_architecture(void **state)
{
    (void)state;
    static const int capabilities[] = {80, 86, 90};
    struct launched made = kernel_on(capabilities, 3, "sm_80");
    const gdpa_args args = runtime_args();
    for (int device = 0; device < 2; device++) {
        struct fake_launch launch;
        expect_ok(gdpa_launch(made.kernel, &args, NULL, 0, fake_driver_control->stream(device)));
        assert_true(fake_driver_control->last_launch(&launch));
        assert_int_equal(launch.device, device);
    }
    assert_int_equal(fake_driver_control->calls("cuLibraryLoadData"), 1);
    expect_failure(gdpa_launch(made.kernel, &args, NULL, 0, fake_driver_control->stream(2)), GDPA_E_DRIVER,
                   "CUDA_ERROR_NO_BINARY_FOR_GPU (209)");
    expect_text(gdpa_last_error(), "the stream is on another device than the kernel is for (devices: 0: Fake GPU 80");
    drop(made);
}

static void every_error_of_the_launch_is_reported_with_what_was_launched(void **state)
{
    (void)state;
    static const int capability = 80;
    struct launched made = kernel_on(&capability, 1, "sm_80");
    const gdpa_args args = runtime_args();
    static const int results[] = {1, 2, 400, 700, 719};
    for (size_t i = 0; i < sizeof results / sizeof results[0]; i++) {
        char number[16];
        snprintf(number, sizeof number, "(%d)", results[i]);
        fake_driver_control->fault("cuLaunchKernelEx", results[i], 0);
        expect_failure(gdpa_launch(made.kernel, &args, NULL, 0, fake_driver_control->stream(0)), GDPA_E_DRIVER,
                       "launching gdpa_fwd_sm80_d64_bf16_relu_");
        expect_text(gdpa_last_error(), number);
        expect_text(gdpa_last_error(), "with 8 x 1 blocks of 128 threads");
    }
    fake_driver_control->fault("cuLaunchKernelEx", 0, 0);
    expect_ok(gdpa_launch(made.kernel, &args, NULL, 0, fake_driver_control->stream(0)));
    drop(made);
}

static void a_hopper_kernel_gets_tensor_maps_and_no_more_blocks_than_multiprocessors(void **state)
{
    (void)state;
    static const int capability = 90;
    struct launched made = kernel_on(&capability, 1, "sm_90a family=sm90");
    gdpa_args args = runtime_args();
    struct fake_launch launch;
    fake_driver_control->params_size(sizeof(struct gdpa_fwd_sm90_params));
    expect_ok(gdpa_launch(made.kernel, &args, NULL, 0, fake_driver_control->stream(0)));
    assert_true(fake_driver_control->last_launch(&launch));
    assert_int_equal(launch.grid, 2 * 4);
    struct gdpa_fwd_sm90_params params;
    memcpy(&params, launch.params, sizeof params);
    assert_ptr_equal(params.common.o, args.o.data);
    void *mapped[4];
    memcpy(&mapped[0], &params.q_map, sizeof mapped[0]);
    memcpy(&mapped[1], &params.k_map, sizeof mapped[1]);
    memcpy(&mapped[2], &params.v_map, sizeof mapped[2]);
    memcpy(&mapped[3], &params.o_map, sizeof mapped[3]);
    assert_ptr_equal(mapped[0], args.q.data);
    assert_ptr_equal(mapped[1], args.k.data);
    assert_ptr_equal(mapped[2], args.v.data);
    assert_ptr_equal(mapped[3], args.o.data);
    const long calls = fake_driver_control->calls(NULL);
    args.batch = 1000;
    expect_ok(gdpa_launch(made.kernel, &args, NULL, 0, fake_driver_control->stream(0)));
    assert_true(fake_driver_control->last_launch(&launch));
    assert_int_equal(launch.grid, 132);
    assert_int_equal(launch.grid_y, 1);
    assert_int_equal(fake_driver_control->calls(NULL), calls + 5); /* four maps and the launch */
    args.batch = 1001;
    fake_driver_control->fault("cuTensorMapEncodeTiled", 1, 1);
    expect_failure(gdpa_launch(made.kernel, &args, NULL, 0, fake_driver_control->stream(0)), GDPA_E_DRIVER,
                   "no tensor map describes k");
    expect_failure(gdpa_launch(made.kernel, &args, NULL, 0, fake_driver_control->stream(0)), GDPA_E_DRIVER,
                   "no tensor map describes q"); /* what failed is not kept */
    drop(made);
}

/* The maps of the last launch, as the fake encodes them: each begins with its address. */
static void expect_maps(const gdpa_args *args)
{
    struct fake_launch launch;
    assert_true(fake_driver_control->last_launch(&launch));
    struct gdpa_fwd_sm90_params params;
    memcpy(&params, launch.params, sizeof params);
    assert_true(params.q_map.words[0] == (uintptr_t)args->q.data);
    assert_true(params.k_map.words[0] == (uintptr_t)args->k.data);
    assert_true(params.v_map.words[0] == (uintptr_t)args->v.data);
    assert_true(params.o_map.words[0] == (uintptr_t)args->o.data);
    assert_ptr_equal(params.common.o, args->o.data);
    assert_true(params.common.scale == args->scale);
}

static void tensor_maps_are_encoded_again_only_where_they_differ(void **state)
{
    (void)state;
    static const int capability = 90;
    struct launched made = kernel_on(&capability, 1, "sm_90a family=sm90");
    struct launched other = kernel_on(&capability, 1, "sm_90a family=sm90");
    fake_driver_control->params_size(sizeof(struct gdpa_fwd_sm90_params));
    gdpa_args args = runtime_args();
    args.flags = GDPA_ARGS_SCALE;
    long encoded = 0;
    for (int i = 0; i < 400; i++) {
        char *const base = (char *)(uintptr_t)0x100000 + 0x10000 * (i / 4 % 50);
        args.q.data = base, args.k.data = base + 0x1000, args.v.data = base + 0x2000;
        args.o.data = (char *)(uintptr_t)0x40000 + 0x100 * i;
        args.scale = (float)i;
        expect_ok(gdpa_launch(made.kernel, &args, NULL, 0, fake_driver_control->stream(0)));
        expect_maps(&args);
        assert_int_equal(fake_driver_control->calls("cuTensorMapEncodeTiled") - encoded,
                         i % 4 == 0 ? 4 : 1); /* o is another one each time */
        encoded = fake_driver_control->calls("cuTensorMapEncodeTiled");
    }
    expect_ok(gdpa_launch(made.kernel, &args, NULL, 0, fake_driver_control->stream(0)));
    assert_int_equal(fake_driver_control->calls("cuTensorMapEncodeTiled"), encoded);
    args.heads_k = 1;
    expect_ok(gdpa_launch(made.kernel, &args, NULL, 0, fake_driver_control->stream(0)));
    expect_ok(gdpa_launch(other.kernel, &args, NULL, 0, fake_driver_control->stream(0)));
    assert_int_equal(fake_driver_control->calls("cuTensorMapEncodeTiled"), encoded + 8);
    drop(other);
    drop(made);
}

static void *launch_run(void *user)
{
    const struct launched *made = user;
    const gdpa_args args = runtime_args();
    for (int i = 0; i < 200; i++) {
        if (gdpa_launch(made->kernel, &args, NULL, 0, fake_driver_control->stream(0)) != GDPA_OK) {
            return user;
        }
    }
    return NULL;
}

static void many_threads_launch_one_kernel_from_the_first_launch_on(void **state)
{
    (void)state;
    static const int capability = 80;
    struct launched made = kernel_on(&capability, 1, "sm_80");
    pthread_t threads[16];
    for (int i = 0; i < 16; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, launch_run, &made), 0);
    }
    for (int i = 0; i < 16; i++) {
        void *result = NULL;
        pthread_join(threads[i], &result);
        assert_null(result);
    }
    assert_int_equal(fake_driver_control->calls("cuLibraryLoadData"), 1);
    assert_int_equal(fake_driver_control->calls("cuLaunchKernelEx"), 16 * 200);
    drop(made);
}

#define TEST(name) cmocka_unit_test_setup(name, fakes_reset)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_launch_passes_grid_block_memory_stream_and_parameters),
        TEST(after_the_first_one_a_launch_is_one_call_of_the_driver_and_no_allocation),
        TEST(an_empty_problem_succeeds_without_any_driver),
        TEST(bad_arguments_reach_no_driver),
        TEST(forward_kernels_need_no_workspace),
        TEST(the_null_stream_needs_a_context_and_says_so),
        TEST(a_stream_brings_its_context_where_the_driver_needs_one),
        TEST(one_handle_serves_every_device_of_its_architecture),
        TEST(a_hopper_kernel_gets_tensor_maps_and_no_more_blocks_than_multiprocessors),
        TEST(tensor_maps_are_encoded_again_only_where_they_differ),
        TEST(many_threads_launch_one_kernel_from_the_first_launch_on),
        TEST(every_error_of_the_launch_is_reported_with_what_was_launched),
    };
    return cmocka_run_group_tests(tests, fakes_load, NULL);
}
