/*
 * Schedules: their size, their making, launches that follow one; what a launch asks the driver for.
 */
#include "runtime/kernel.h"
#include "templates/order_params.h"
#include "templates/schedule_format.h"
#include "tests/support/runtime_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define SPEC "head_dim=64 activation=silu causal layout_q=jagged layout_k=jagged"
#define SCHEDULE ((void *)(uintptr_t)0x100000)
#define BATCH 1000

static const int32_t *const offsets = (const int32_t *)(uintptr_t)0x90000;

static gdpa_args jagged_args(void)
{
    gdpa_args args = runtime_args();
    args.batch = BATCH;
    args.seqlen_q = args.seqlen_k = 0;
    args.total_q = args.total_k = 500000;
    args.cu_seqlens_q = args.cu_seqlens_k = offsets;
    return args;
}

static gdpa_ctx *context_on(int capability)
{
    const gdpa_ctx_options options = runtime_options(NULL);
    fake_driver_control->devices(1, &capability);
    fake_driver_control->params_size(sizeof(struct gdpa_fwd_params));
    return runtime_context(&options);
}

static long launches(void)
{
    return fake_driver_control->calls("cuLaunchKernelEx");
}

static struct CUstream_st *stream(void)
{
    return fake_driver_control->stream(0);
}

static struct fake_launch last_launch(void)
{
    struct fake_launch launch;
    assert_true(fake_driver_control->last_launch(&launch));
    return launch;
}

static bool ends_with(const char *text, const char *end)
{
    const size_t length = strlen(text);
    return length >= strlen(end) && strcmp(text + length - strlen(end), end) == 0;
}

/* Where the last launch, of a persistent forward, finds its schedule. */
static const void *schedule_of_launch(void)
{
    struct fake_launch launch = last_launch();
    struct gdpa_fwd_sm90_params params;
    memcpy(&params, launch.params, sizeof params);
    return params.common.schedule;
}

static void the_format_is_aligned_and_has_room_for_the_end_of_each_array(void **state)
{
    (void)state;
    static const int64_t batches[] = {1, 63, 64, 65, 1000, 1000000, INT64_C(1) << 30};
    for (size_t i = 0; i < sizeof batches / sizeof *batches; i++) {
        const int64_t stride = schedule_stride(batches[i]);
        assert_true(stride > batches[i] && stride <= batches[i] + 64 && stride % 64 == 0);
        assert_int_equal(schedule_bytes(batches[i]), 256 + 8 * 4 * stride);
    }
}

static void the_size_follows_the_batch(void **state)
{
    (void)state;
    static const char *const texts[] = {"fwd " SPEC " schedule=dynamic", "fwd " SPEC " schedule=zigzag", "fwd " SPEC,
                                        "bwd " SPEC " deterministic"};
    gdpa_ctx *ctx = context_on(90);
    gdpa_args args = jagged_args();
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        const gdpa_spec spec = runtime_spec(texts[i]);
        size_t bytes = 1;
        args.batch = BATCH;
        expect_ok(gdpa_schedule_size(ctx, &spec, &args, &bytes));
        assert_int_equal(bytes, schedule_bytes(BATCH));
        args.batch = 0;
        expect_ok(gdpa_schedule_size(ctx, &spec, &args, &bytes));
        assert_int_equal(bytes, 0);
    }
    assert_int_equal(launches(), 0);
    gdpa_ctx_destroy(ctx);
}

static void kernels_that_need_none_have_none(void **state)
{
    (void)state;
    gdpa_ctx *ctx = context_on(80);
    gdpa_args args = jagged_args();
    const gdpa_spec spec = runtime_spec("fwd " SPEC " schedule=dynamic");
    size_t bytes = 1;
    expect_ok(gdpa_schedule_size(ctx, &spec, &args, &bytes));
    assert_int_equal(bytes, 0);
    expect_ok(gdpa_schedule_build(ctx, &spec, &args, NULL, 0, stream()));
    assert_int_equal(launches(), 0);
    expect_ok(gdpa_forward(ctx, &spec, &args, stream()));
    expect_text(last_launch().kernel, "gdpa_fwd_sm80_d64_bf16_silu_causal_jqjk_");
    gdpa_ctx_destroy(ctx);
}

static void making_one_is_one_small_kernel(void **state)
{
    (void)state;
    gdpa_ctx *ctx = context_on(90);
    gdpa_args args = jagged_args();
    memset(&args.q, 0, sizeof args.q); /* no tensor is needed */
    memset(&args.k, 0, sizeof args.k);
    memset(&args.v, 0, sizeof args.v);
    memset(&args.o, 0, sizeof args.o);
    static const char *const texts[] = {"fwd " SPEC " schedule=zigzag", "fwd " SPEC " schedule=dynamic", "bwd " SPEC};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        const gdpa_spec spec = runtime_spec(texts[i]);
        const size_t bytes = (size_t)schedule_bytes(BATCH);
        const long before = launches();
        expect_ok(gdpa_schedule_build(ctx, &spec, &args, SCHEDULE, bytes, stream()));
        assert_int_equal(launches(), before + 1);
        const struct fake_launch launch = last_launch();
        struct gdpa_fwd_params params;
        memcpy(&params, launch.params, sizeof params);
        assert_true(ends_with(launch.kernel, "_schedule"));
        expect_text(launch.kernel, i == 0 ? "_zigzag_" : "_dynamic_");
        assert_int_equal(launch.grid, kScheduleLists);
        assert_int_equal(launch.block, kScheduleThreads);
        assert_int_equal(launch.shared_bytes, kScheduleSmemBytes);
        assert_ptr_equal(params.schedule, SCHEDULE);
        assert_ptr_equal(params.cu_seqlens_k, offsets);
        assert_int_equal(params.batch, BATCH);
        assert_int_equal(params.rows_q, 500000);
    }
    gdpa_ctx_destroy(ctx);
}

static void a_forward_follows_the_schedule_of_its_arguments(void **state)
{
    (void)state;
    gdpa_ctx *ctx = context_on(90);
    gdpa_args args = jagged_args();
    const gdpa_spec spec = runtime_spec("fwd " SPEC " schedule=dynamic");
    fake_driver_control->params_size(sizeof(struct gdpa_fwd_sm90_params));
    args.schedule = SCHEDULE;
    args.schedule_bytes = (size_t)schedule_bytes(BATCH);
    expect_ok(gdpa_forward(ctx, &spec, &args, stream()));
    assert_int_equal(launches(), 1);
    assert_ptr_equal(schedule_of_launch(), SCHEDULE);
    gdpa_kernel *kernel = NULL;
    size_t bytes = 1;
    expect_ok(gdpa_kernel_get(ctx, &spec, &kernel));
    expect_ok(gdpa_workspace_size(kernel, &args, &bytes));
    assert_int_equal(bytes, 0);
    gdpa_kernel_release(kernel);
    gdpa_ctx_destroy(ctx);
}

/* Which is better than what needs no memory wherever lengths are uneven, and is there already. */
static void a_spec_that_leaves_the_choice_follows_it_too(void **state)
{
    (void)state;
    static const struct {
        const char *spec;
        bool given, follows;
    } cases[] = {{"fwd " SPEC, true, true},
                 {"fwd " SPEC, false, false},
                 {"fwd " SPEC " schedule=auto", true, true},
                 {"fwd " SPEC " schedule=static", true, false},
                 {"fwd " SPEC " family=portable", true, false}};
    gdpa_ctx *ctx = context_on(90);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        gdpa_args args = jagged_args();
        const gdpa_spec spec = runtime_spec(cases[i].spec);
        args.schedule = cases[i].given ? SCHEDULE : NULL;
        args.schedule_bytes = cases[i].given ? (size_t)schedule_bytes(BATCH) : 0;
        for (int call = 0; call < 2; call++) { /* the second one by the short way */
            expect_ok(gdpa_forward(ctx, &spec, &args, stream()));
            assert_int_equal(strstr(last_launch().kernel, "dynamic") != NULL, cases[i].follows);
        }
    }
    gdpa_ctx_destroy(ctx);
}

/* A backward of all gradients, which needs a workspace for the sums of dq. */
static gdpa_args backward_args(void)
{
    gdpa_args args = jagged_args();
    args.dout.data = (void *)(uintptr_t)0x500000;
    args.dq.data = (void *)(uintptr_t)0x600000;
    args.dk.data = (void *)(uintptr_t)0x700000;
    args.dv.data = (void *)(uintptr_t)0x800000;
    args.schedule = SCHEDULE;
    args.schedule_bytes = (size_t)schedule_bytes(BATCH);
    return args;
}

/* The main kernel is the one before the last, which turns the sums of dq into dq. */
static void expect_backward(gdpa_ctx *ctx, const char *text, const gdpa_args *args, const char *follows)
{
    void *const workspace = (void *)(uintptr_t)0x1000000;
    const gdpa_spec spec = runtime_spec(text);
    size_t bytes = 0;
    fake_driver_control->params_size(sizeof(struct gdpa_bwd_sm90_main_params));
    const long before = launches();
    expect_ok(gdpa_backward_workspace_size(ctx, &spec, args, &bytes));
    expect_ok(gdpa_backward(ctx, &spec, args, workspace, bytes, stream()));
    assert_int_equal(launches() - before, 2);
    struct fake_launch main;
    struct gdpa_bwd_sm90_main_params params;
    assert_true(fake_driver_control->launch_before(&main));
    memcpy(&params, main.params, sizeof params);
    assert_int_equal(strstr(main.kernel, "_dynamic_") != NULL, strcmp(follows, "dynamic") == 0);
    assert_int_equal(strstr(main.kernel, "_zigzag_") != NULL, strcmp(follows, "zigzag") == 0);
    if (strcmp(follows, "none") != 0) {
        assert_ptr_equal(params.order.schedule, SCHEDULE);
        assert_null(params.order.counter); /* that of the schedule does */
    }
}

static void a_backward_follows_the_schedule_of_its_arguments(void **state)
{
    (void)state;
    gdpa_ctx *ctx = context_on(90);
    gdpa_args args = backward_args();
    expect_backward(ctx, "bwd " SPEC " schedule=dynamic", &args, "dynamic");
    expect_backward(ctx, "bwd " SPEC " schedule=zigzag", &args, "zigzag");
    expect_backward(ctx, "bwd " SPEC " schedule=zigzag deterministic", &args, "zigzag");
    expect_backward(ctx, "bwd " SPEC, &args, "dynamic");
    expect_backward(ctx, "bwd " SPEC " schedule=static", &args, "none");
    args.schedule = NULL;
    expect_backward(ctx, "bwd " SPEC, &args, "none");
    gdpa_ctx_destroy(ctx);
}

static void a_forward_of_dense_sequences_does_without(void **state)
{
    (void)state;
    gdpa_ctx *ctx = context_on(90);
    gdpa_args args = runtime_args();
    const gdpa_spec spec = runtime_spec("fwd head_dim=64 activation=silu");
    args.seqlen_q = args.seqlen_k = 500;
    args.schedule = SCHEDULE;
    args.schedule_bytes = (size_t)schedule_bytes(args.batch);
    expect_ok(gdpa_forward(ctx, &spec, &args, stream()));
    assert_null(strstr(last_launch().kernel, "dynamic"));
    args.seqused_k = offsets;
    expect_ok(gdpa_forward(ctx, &spec, &args, stream()));
    assert_non_null(strstr(last_launch().kernel, "dynamic"));
    gdpa_ctx_destroy(ctx);
}

static void a_backward_of_dense_sequences_does_without(void **state)
{
    (void)state;
    gdpa_ctx *ctx = context_on(90);
    gdpa_args args = backward_args();
    args.batch = 4;
    args.total_q = args.total_k = 0;
    args.seqlen_q = args.seqlen_k = 500;
    args.cu_seqlens_q = args.cu_seqlens_k = NULL;
    expect_backward(ctx, "bwd head_dim=64 activation=silu", &args, "none");
    expect_backward(ctx, "bwd head_dim=64 activation=silu schedule=dynamic", &args, "dynamic");
    args.seqused_k = offsets;
    expect_backward(ctx, "bwd head_dim=64 activation=silu", &args, "dynamic");
    gdpa_ctx_destroy(ctx);
}

/* Of one that follows no schedule, where there is no other. */
static void a_backward_in_mode_strict_takes_what_was_made_beforehand(void **state)
{
    (void)state;
    static const int capability = 90;
    char *folder = scratch_make();
    gdpa_ctx_options options = runtime_options(folder);
    const gdpa_spec spec = runtime_spec("bwd " SPEC);
    const gdpa_args args = backward_args();
    gdpa_kernel *kernel = NULL;
    fake_driver_control->devices(1, &capability);
    options.mode = GDPA_MODE_STRICT;
    gdpa_ctx *ctx = runtime_context(&options);
    expect_failure(gdpa_backward(ctx, &spec, &args, NULL, 0, stream()), GDPA_E_NOT_READY,
                   " schedule=dynamic arch=sm_90a'");
    gdpa_ctx_destroy(ctx);
    options.mode = GDPA_MODE_AUTO;
    ctx = runtime_context(&options);
    expect_ok(gdpa_kernel_get(ctx, &spec, &kernel));
    gdpa_kernel_release(kernel);
    gdpa_ctx_destroy(ctx);
    options.mode = GDPA_MODE_STRICT;
    ctx = runtime_context(&options);
    expect_backward(ctx, "bwd " SPEC, &args, "none");
    gdpa_ctx_destroy(ctx);
    options.mode = GDPA_MODE_AUTO;
    ctx = runtime_context(&options);
    expect_backward(ctx, "bwd " SPEC, &args, "dynamic");
    gdpa_ctx_destroy(ctx);
    scratch_remove(folder);
}

/* No kernel of a backward makes one. */
static void a_backward_without_the_schedule_that_it_needs_is_refused(void **state)
{
    (void)state;
    gdpa_ctx *ctx = context_on(90);
    gdpa_args args = backward_args();
    const gdpa_spec spec = runtime_spec("bwd " SPEC " schedule=dynamic deterministic");
    args.schedule = NULL;
    expect_failure(gdpa_backward(ctx, &spec, &args, NULL, 0, stream()), GDPA_E_WORKSPACE, "set args.schedule");
    args.schedule = SCHEDULE;
    args.schedule_bytes--;
    expect_failure(gdpa_backward(ctx, &spec, &args, NULL, 0, stream()), GDPA_E_WORKSPACE, "ask gdpa_schedule_size");
    args.schedule = (void *)(uintptr_t)0x100080;
    args.schedule_bytes++;
    expect_failure(gdpa_backward(ctx, &spec, &args, NULL, 0, stream()), GDPA_E_WORKSPACE, "not aligned to 256 bytes");
    args.schedule = SCHEDULE;
    args.batch = INT64_C(1) << 30;
    args.schedule_bytes = SIZE_MAX;
    args.heads_q = args.heads_k = 4;
    expect_failure(gdpa_backward(ctx, &spec, &args, NULL, 0, stream()), GDPA_E_ARGUMENT, "key tiles of 128 rows");
    assert_int_equal(launches(), 0);
    gdpa_ctx_destroy(ctx);
}

static void without_one_it_is_made_in_the_workspace_first(void **state)
{
    (void)state;
    gdpa_ctx *ctx = context_on(90);
    const gdpa_args args = jagged_args();
    const gdpa_spec spec = runtime_spec("fwd " SPEC " schedule=zigzag");
    gdpa_kernel *kernel = NULL;
    size_t bytes = 0;
    struct fake_launch first;
    expect_ok(gdpa_kernel_get(ctx, &spec, &kernel));
    expect_ok(gdpa_workspace_size(kernel, &args, &bytes));
    assert_int_equal(bytes, schedule_bytes(BATCH));
    expect_ok(gdpa_launch(kernel, &args, SCHEDULE, bytes, stream()));
    assert_int_equal(launches(), 2);
    assert_true(fake_driver_control->launch_before(&first));
    assert_true(ends_with(first.kernel, "_schedule"));
    assert_false(ends_with(last_launch().kernel, "_schedule"));
    gdpa_kernel_release(kernel);
    gdpa_ctx_destroy(ctx);
}

static void what_is_missing_or_too_small_is_refused(void **state)
{
    (void)state;
    gdpa_ctx *ctx = context_on(90);
    gdpa_args args = jagged_args();
    const gdpa_spec spec = runtime_spec("fwd " SPEC " schedule=dynamic");
    const size_t bytes = (size_t)schedule_bytes(BATCH);
    expect_failure(gdpa_forward(ctx, &spec, &args, stream()), GDPA_E_WORKSPACE, "set args.schedule");
    args.schedule = SCHEDULE;
    args.schedule_bytes = bytes - 1;
    expect_failure(gdpa_forward(ctx, &spec, &args, stream()), GDPA_E_WORKSPACE, "the batch needs");
    args.schedule = (void *)(uintptr_t)0x100080;
    args.schedule_bytes = bytes;
    expect_failure(gdpa_forward(ctx, &spec, &args, stream()), GDPA_E_WORKSPACE, "not aligned to 256 bytes");
    expect_failure(gdpa_schedule_build(ctx, &spec, &args, NULL, bytes, stream()), GDPA_E_WORKSPACE,
                   "schedule is NULL, but the batch needs one of ");
    expect_failure(gdpa_schedule_build(ctx, &spec, &args, SCHEDULE, bytes - 1, stream()), GDPA_E_WORKSPACE,
                   "gdpa_schedule_size");
    expect_failure(gdpa_schedule_build(NULL, &spec, &args, SCHEDULE, bytes, stream()), GDPA_E_ARGUMENT, "ctx is NULL");
    expect_failure(gdpa_schedule_build(ctx, NULL, &args, SCHEDULE, bytes, stream()), GDPA_E_ARGUMENT, "spec is NULL");
    expect_failure(gdpa_schedule_size(ctx, &spec, NULL, &args.schedule_bytes), GDPA_E_ARGUMENT, "args is NULL");
    expect_failure(gdpa_schedule_size(ctx, &spec, &args, NULL), GDPA_E_ARGUMENT, "bytes is NULL");
    args.cu_seqlens_q = NULL;
    expect_failure(gdpa_schedule_build(ctx, &spec, &args, SCHEDULE, bytes, stream()), GDPA_E_ARGUMENT,
                   "cu_seqlens_q is NULL");
    args = jagged_args();
    args.batch = INT64_C(1) << 31;
    args.batch -= 2;
    expect_failure(gdpa_schedule_build(ctx, &spec, &args, SCHEDULE, SIZE_MAX, stream()), GDPA_E_ARGUMENT, "sequences");
    args.schedule = SCHEDULE;
    args.schedule_bytes = SIZE_MAX;
    expect_failure(gdpa_forward(ctx, &spec, &args, stream()), GDPA_E_ARGUMENT, "query tiles of 192 rows");
    assert_int_equal(launches(), 0);
    gdpa_ctx_destroy(ctx);
}

static void a_margin_leaves_multiprocessors_free(void **state)
{
    (void)state;
    static const char *const texts[] = {"fwd " SPEC, "fwd " SPEC " schedule=dynamic"};
    gdpa_ctx *ctx = context_on(90);
    gdpa_args args = jagged_args();
    args.schedule = SCHEDULE;
    args.schedule_bytes = (size_t)schedule_bytes(BATCH);
    for (size_t i = 0; i < 2; i++) {
        const gdpa_spec spec = runtime_spec(texts[i]);
        args.sm_margin = 0;
        expect_ok(gdpa_forward(ctx, &spec, &args, stream()));
        const unsigned all = last_launch().grid;
        assert_true(all > 2);
        args.sm_margin = 2;
        expect_ok(gdpa_forward(ctx, &spec, &args, stream()));
        assert_int_equal(last_launch().grid, all - 2);
        args.sm_margin = 100000;
        expect_ok(gdpa_forward(ctx, &spec, &args, stream()));
        assert_int_equal(last_launch().grid, 1);
        args.sm_margin = -1;
        expect_failure(gdpa_forward(ctx, &spec, &args, stream()), GDPA_E_ARGUMENT, "sm_margin -1 is not in 0 to");
    }
    gdpa_ctx_destroy(ctx);
}

/* Neither does anything wait for the GPU: nothing but launches reaches the driver. */
static void a_warm_call_asks_the_driver_for_launches_alone(void **state)
{
    (void)state;
    static const char *const texts[] = {"fwd " SPEC, "fwd " SPEC " schedule=zigzag", "fwd " SPEC " schedule=dynamic"};
    gdpa_ctx *ctx = context_on(90);
    gdpa_args args = jagged_args();
    args.schedule = SCHEDULE;
    args.schedule_bytes = (size_t)schedule_bytes(BATCH);
    for (size_t i = 0; i < 3; i++) {
        const gdpa_spec spec = runtime_spec(texts[i]);
        expect_ok(gdpa_schedule_build(ctx, &spec, &args, SCHEDULE, args.schedule_bytes, stream()));
        expect_ok(gdpa_forward(ctx, &spec, &args, stream()));
        const long before = launches(), all = fake_driver_control->calls(NULL);
        fake_driver_control->capture(i > 0); /* nor would a capture be disturbed */
        for (int call = 0; call < 10; call++) {
            expect_ok(gdpa_schedule_build(ctx, &spec, &args, SCHEDULE, args.schedule_bytes, stream()));
            expect_ok(gdpa_forward(ctx, &spec, &args, stream()));
        }
        assert_int_equal(launches() - before, 20);
        assert_int_equal(fake_driver_control->calls(NULL) - all, 20);
        assert_false(fake_driver_control->capture_poisoned());
        fake_driver_control->capture(false);
    }
    gdpa_ctx_destroy(ctx);
}

static void arguments_of_an_older_caller_have_no_schedule(void **state)
{
    (void)state;
    gdpa_ctx *ctx = context_on(90);
    gdpa_args args = jagged_args();
    args.schedule = SCHEDULE; /* beyond what the caller says that it has */
    args.sm_margin = -7;
    args.size = offsetof(gdpa_args, schedule);
    const gdpa_spec dynamic = runtime_spec("fwd " SPEC " schedule=dynamic"), plain = runtime_spec("fwd " SPEC);
    expect_ok(gdpa_forward(ctx, &plain, &args, stream()));
    expect_failure(gdpa_forward(ctx, &dynamic, &args, stream()), GDPA_E_WORKSPACE, "set args.schedule");
    gdpa_ctx_destroy(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_format_is_aligned_and_has_room_for_the_end_of_each_array),
        cmocka_unit_test_setup(the_size_follows_the_batch, fakes_reset),
        cmocka_unit_test_setup(kernels_that_need_none_have_none, fakes_reset),
        cmocka_unit_test_setup(making_one_is_one_small_kernel, fakes_reset),
        cmocka_unit_test_setup(a_forward_follows_the_schedule_of_its_arguments, fakes_reset),
        cmocka_unit_test_setup(a_spec_that_leaves_the_choice_follows_it_too, fakes_reset),
        cmocka_unit_test_setup(a_backward_follows_the_schedule_of_its_arguments, fakes_reset),
        cmocka_unit_test_setup(a_forward_of_dense_sequences_does_without, fakes_reset),
        cmocka_unit_test_setup(a_backward_of_dense_sequences_does_without, fakes_reset),
        cmocka_unit_test_setup(a_backward_in_mode_strict_takes_what_was_made_beforehand, fakes_reset),
        cmocka_unit_test_setup(a_backward_without_the_schedule_that_it_needs_is_refused, fakes_reset),
        cmocka_unit_test_setup(without_one_it_is_made_in_the_workspace_first, fakes_reset),
        cmocka_unit_test_setup(what_is_missing_or_too_small_is_refused, fakes_reset),
        cmocka_unit_test_setup(a_margin_leaves_multiprocessors_free, fakes_reset),
        cmocka_unit_test_setup(a_warm_call_asks_the_driver_for_launches_alone, fakes_reset),
        cmocka_unit_test_setup(arguments_of_an_older_caller_have_no_schedule, fakes_reset),
    };
    return cmocka_run_group_tests_name("runtime.schedule", tests, fakes_load, NULL);
}
