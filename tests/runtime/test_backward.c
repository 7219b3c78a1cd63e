/*
 * Launching a backward: a fill and two kernels, or less where less will do; the one-call gdpa_backward.
 */
#include "runtime/kernel.h"
#include "templates/order_params.h"
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

#define SPEC "head_dim=64 activation=silu"
#define WORKSPACE ((void *)(uintptr_t)0x100000)
#define NEEDED ((size_t)2 * 16 * 4 * 64 * 4) /* rows of a sequence are rounded up to 16 */

static gdpa_args backward_args(void)
{
    gdpa_args args = runtime_args();
    args.o.data = NULL;
    args.dout.data = (void *)(uintptr_t)0x50000;
    args.dq.data = (void *)(uintptr_t)0x60000;
    args.dk.data = (void *)(uintptr_t)0x70000;
    args.dv.data = (void *)(uintptr_t)0x80000;
    args.seqlen_k = 500;
    return args;
}

static gdpa_ctx *context_on(int capability)
{
    const gdpa_ctx_options options = runtime_options(NULL);
    fake_driver_control->devices(1, &capability);
    fake_driver_control->params_size(sizeof(struct gdpa_bwd_params));
    return runtime_context(&options);
}

static long launches(void)
{
    return fake_driver_control->calls("cuLaunchKernelEx");
}

static void a_backward_is_zeros_the_main_kernel_and_the_second_one(void **state)
{
    (void)state;
    gdpa_ctx *ctx = context_on(86);
    const gdpa_args args = backward_args();
    const gdpa_spec spec = runtime_spec(SPEC); /* the spec of the forward does */
    struct CUstream_st *stream = fake_driver_control->stream(0);
    size_t bytes = 0;
    expect_ok(gdpa_backward_workspace_size(ctx, &spec, &args, &bytes));
    assert_int_equal(bytes, NEEDED);
    expect_ok(gdpa_backward(ctx, &spec, &args, WORKSPACE, bytes, stream));
    struct fake_launch first, second;
    struct fake_fill fill;
    assert_true(fake_driver_control->launch_before(&first));
    assert_true(fake_driver_control->last_launch(&second));
    assert_true(fake_driver_control->last_fill(&fill));
    assert_int_equal(launches(), 2);
    assert_int_equal(fill.launches, 0); /* before both */
    assert_int_equal(fill.address, (uintptr_t)WORKSPACE);
    assert_int_equal(fill.words, bytes / 4);
    assert_int_equal(fill.value, 0);
    assert_ptr_equal(fill.stream, stream);
    assert_ptr_equal(first.stream, stream);
    assert_ptr_equal(second.stream, stream);
    expect_text(first.kernel, "gdpa_bwd_sm86_d64_bf16_silu_");
    assert_null(strstr(first.kernel, "_dq"));
    expect_text(second.kernel, "_dq");
    struct gdpa_bwd_params params;
    memcpy(&params, first.params, sizeof params);
    assert_ptr_equal(params.dq_sum, WORKSPACE);
    assert_ptr_equal(params.dv, args.dv.data);
    assert_memory_equal(first.params, second.params, sizeof params);
    gdpa_stats stats = {.size = sizeof stats};
    expect_ok(gdpa_ctx_stats(ctx, &stats));
    assert_int_equal(stats.launches, 2);
    gdpa_ctx_destroy(ctx);
}

static void what_is_not_needed_is_not_launched(void **state)
{
    (void)state;
    gdpa_ctx *ctx = context_on(86);
    gdpa_args args = backward_args();
    const gdpa_spec spec = runtime_spec("bwd " SPEC);
    struct CUstream_st *stream = fake_driver_control->stream(0);
    size_t bytes = 77;
    struct fake_fill fill;
    args.seqlen_k = 100; /* one tile */
    expect_ok(gdpa_backward_workspace_size(ctx, &spec, &args, &bytes));
    assert_int_equal(bytes, 0);
    expect_ok(gdpa_backward(ctx, &spec, &args, NULL, 0, stream));
    assert_int_equal(launches(), 1);
    args = backward_args();
    args.dq.data = NULL;
    expect_ok(gdpa_backward(ctx, &spec, &args, NULL, 0, stream));
    assert_int_equal(launches(), 2);
    args.dk.data = args.dv.data = NULL;
    expect_ok(gdpa_backward(ctx, &spec, &args, NULL, 0, stream));
    assert_int_equal(launches(), 2);
    assert_false(fake_driver_control->last_fill(&fill));
    gdpa_ctx_destroy(ctx);
}

static void a_deterministic_backward_needs_no_workspace(void **state)
{
    (void)state;
    gdpa_ctx *ctx = context_on(86);
    const gdpa_args args = backward_args();
    const gdpa_spec spec = runtime_spec("bwd deterministic " SPEC);
    struct fake_fill fill;
    expect_ok(gdpa_backward(ctx, &spec, &args, NULL, 0, fake_driver_control->stream(0)));
    assert_int_equal(launches(), 2);
    assert_false(fake_driver_control->last_fill(&fill));
    gdpa_ctx_destroy(ctx);
}

static void later_launches_are_calls_of_the_driver_and_no_allocation(void **state)
{
    (void)state;
    gdpa_ctx *ctx = context_on(86);
    const gdpa_args args = backward_args();
    const gdpa_spec spec = runtime_spec("bwd " SPEC);
    gdpa_kernel *kernel = NULL;
    gdpa_spec with_arch = spec;
    with_arch.arch = 86;
    expect_ok(gdpa_kernel_get(ctx, &with_arch, &kernel));
    expect_ok(gdpa_launch(kernel, &args, WORKSPACE, 1 << 20, fake_driver_control->stream(0)));
    const long calls = fake_driver_control->calls(NULL);
#ifdef __GLIBC__
    const struct mallinfo2 before = mallinfo2();
#endif
    for (int i = 0; i < 100; i++) {
        assert_int_equal(gdpa_launch(kernel, &args, WORKSPACE, 1 << 20, fake_driver_control->stream(0)), GDPA_OK);
    }
#ifdef __GLIBC__
    const struct mallinfo2 after = mallinfo2();
    assert_int_equal(after.uordblks, before.uordblks);
#endif
    assert_int_equal(fake_driver_control->calls(NULL), calls + 300);
    gdpa_kernel_release(kernel);
    gdpa_ctx_destroy(ctx);
}

static void a_bad_workspace_is_refused_before_anything_is_queued(void **state)
{
    (void)state;
    gdpa_ctx *ctx = context_on(86);
    const gdpa_args args = backward_args();
    const gdpa_spec spec = runtime_spec("bwd " SPEC);
    struct CUstream_st *stream = fake_driver_control->stream(0);
    expect_failure(gdpa_backward(ctx, &spec, &args, NULL, 0, stream), GDPA_E_WORKSPACE,
                   "the workspace has 0 bytes, but these arguments need 32768");
    expect_failure(gdpa_backward(ctx, &spec, &args, WORKSPACE, NEEDED - 1, stream), GDPA_E_WORKSPACE,
                   "has 32767 bytes");
    expect_failure(gdpa_backward(ctx, &spec, &args, (char *)WORKSPACE + 16, NEEDED, stream), GDPA_E_WORKSPACE,
                   "is not aligned to 256 bytes");
    assert_int_equal(launches() + fake_driver_control->calls("cuMemsetD32Async"), 0);
    gdpa_ctx_destroy(ctx);
}

static void failures_of_the_driver_are_reported(void **state)
{
    (void)state;
    gdpa_ctx *ctx = context_on(86);
    const gdpa_args args = backward_args();
    const gdpa_spec spec = runtime_spec("bwd " SPEC);
    struct CUstream_st *stream = fake_driver_control->stream(0);
    fake_driver_control->fault("cuMemsetD32Async", 1, 0);
    expect_failure(gdpa_backward(ctx, &spec, &args, WORKSPACE, NEEDED, stream), GDPA_E_DRIVER, "gdpa_bwd_sm86");
    assert_int_equal(launches(), 0);
    fake_driver_control->fault("cuMemsetD32Async", 0, 0);
    fake_driver_control->fault("cuLaunchKernelEx", 1, 1);
    expect_failure(gdpa_backward(ctx, &spec, &args, WORKSPACE, NEEDED, stream), GDPA_E_DRIVER, "launching");
    gdpa_ctx_destroy(ctx);
}

static void a_thread_without_context_takes_that_of_the_stream(void **state)
{
    (void)state;
    gdpa_ctx *ctx = context_on(86);
    const gdpa_args args = backward_args();
    const gdpa_spec spec = runtime_spec("bwd " SPEC);
    fake_driver_control->current(-1);
    fake_driver_control->needs_current(true);
    expect_ok(gdpa_backward(ctx, &spec, &args, WORKSPACE, NEEDED, fake_driver_control->stream(0)));
    assert_int_equal(launches(), 2);
    gdpa_ctx_destroy(ctx);
}

static void tensors_that_need_it_get_the_unaligned_kernel(void **state)
{
    (void)state;
    gdpa_ctx *ctx = context_on(86);
    gdpa_args args = backward_args();
    const gdpa_spec spec = runtime_spec("bwd " SPEC);
    struct fake_launch launch;
    args.dv.data = (void *)(uintptr_t)0x80002;
    expect_ok(gdpa_backward(ctx, &spec, &args, WORKSPACE, NEEDED, fake_driver_control->stream(0)));
    assert_true(fake_driver_control->last_launch(&launch));
    expect_text(launch.kernel, "unaligned");
    args = backward_args();
    args.o.data = (void *)(uintptr_t)0x2; /* not used */
    expect_ok(gdpa_backward(ctx, &spec, &args, WORKSPACE, NEEDED, fake_driver_control->stream(0)));
    assert_true(fake_driver_control->last_launch(&launch));
    assert_null(strstr(launch.kernel, "unaligned"));
    gdpa_ctx_destroy(ctx);
}

static void a_family_by_name_is_kept_and_the_tensor_that_forbids_it_named(void **state)
{
    (void)state;
    gdpa_ctx *ctx = context_on(90);
    gdpa_args args = backward_args();
    const gdpa_spec spec = runtime_spec("bwd family=sm90 " SPEC);
    size_t bytes = 0;
    expect_ok(gdpa_backward_workspace_size(ctx, &spec, &args, &bytes));
    expect_ok(gdpa_backward(ctx, &spec, &args, WORKSPACE, bytes, fake_driver_control->stream(0)));
    const long before = launches();
    args.dk.data = (void *)(uintptr_t)0x70008;
    expect_failure(gdpa_backward(ctx, &spec, &args, WORKSPACE, NEEDED, fake_driver_control->stream(0)), GDPA_E_ARGUMENT,
                   "dk is not aligned as family sm90, which the spec asks for, needs it");
    expect_failure(gdpa_backward_workspace_size(ctx, &spec, &args, &bytes), GDPA_E_ARGUMENT, "dk is not aligned");
    assert_int_equal(launches(), before);
    gdpa_ctx_destroy(ctx);
}

static void on_hopper_the_zeros_are_those_of_the_order_too(void **state)
{
    (void)state;
    gdpa_ctx *ctx = context_on(90);
    fake_driver_control->params_size(sizeof(struct gdpa_bwd_sm90_main_params));
    gdpa_args args = backward_args();
    const gdpa_spec spec = runtime_spec(SPEC);
    struct fake_launch first;
    struct fake_fill fill;
    struct gdpa_bwd_sm90_main_params params;
    size_t bytes = 0;
    expect_ok(gdpa_backward_workspace_size(ctx, &spec, &args, &bytes));
    expect_ok(gdpa_backward(ctx, &spec, &args, WORKSPACE, bytes, fake_driver_control->stream(0)));
    assert_true(fake_driver_control->launch_before(&first));
    assert_true(fake_driver_control->last_fill(&fill));
    assert_int_equal(launches(), 2);
    memcpy(&params, first.params, sizeof params);
    assert_int_equal(fill.address, (uintptr_t)WORKSPACE);
    assert_int_equal(fill.words, (NEEDED + 512) / 4);
    assert_ptr_equal(params.tiles.common.dq_sum, WORKSPACE);
    assert_int_equal((uintptr_t)params.order.counter, (uintptr_t)WORKSPACE + NEEDED);
    gdpa_ctx_destroy(ctx);
}

static void on_hopper_a_workspace_for_the_order_alone_may_be_left_out(void **state)
{
    (void)state;
    gdpa_ctx *ctx = context_on(90);
    fake_driver_control->params_size(sizeof(struct gdpa_bwd_sm90_main_params));
    gdpa_args args = backward_args();
    args.seqlen_k = 100; /* one tile: no sums */
    const gdpa_spec spec = runtime_spec(SPEC);
    struct fake_launch launch;
    struct fake_fill fill;
    struct gdpa_bwd_sm90_main_params params;
    size_t bytes = 0;
    expect_ok(gdpa_backward_workspace_size(ctx, &spec, &args, &bytes));
    assert_int_equal(bytes, 512);
    expect_ok(gdpa_backward(ctx, &spec, &args, NULL, 0, fake_driver_control->stream(0)));
    assert_true(fake_driver_control->last_launch(&launch));
    assert_false(fake_driver_control->last_fill(&fill));
    memcpy(&params, launch.params, sizeof params);
    assert_null(params.order.counter);
    expect_ok(gdpa_backward(ctx, &spec, &args, WORKSPACE, bytes, fake_driver_control->stream(0)));
    assert_true(fake_driver_control->last_launch(&launch));
    assert_true(fake_driver_control->last_fill(&fill));
    memcpy(&params, launch.params, sizeof params);
    assert_ptr_equal(params.order.counter, WORKSPACE);
    assert_null(params.tiles.common.dq_sum);
    assert_int_equal(fill.words, 512 / 4);
    gdpa_ctx_destroy(ctx);
}

/* The name of the main kernel that a backward with so much workspace took. */
static const char *kernel_with(gdpa_ctx *ctx, const gdpa_spec *spec, const gdpa_args *args, size_t bytes)
{
    static struct fake_launch launch;
    const long before = launches();
    expect_ok(gdpa_backward(ctx, spec, args, bytes > 0 ? WORKSPACE : NULL, bytes, fake_driver_control->stream(0)));
    if (launches() == before + 1) {
        assert_true(fake_driver_control->last_launch(&launch));
    } else {
        assert_int_equal(launches(), before + 2);
        assert_true(fake_driver_control->launch_before(&launch));
    }
    return launch.kernel;
}

/* The same with the workspace that was asked for. */
static const char *kernel_taken(gdpa_ctx *ctx, const char *text, const gdpa_args *args, size_t *bytes)
{
    const gdpa_spec spec = runtime_spec(text);
    *bytes = 0;
    expect_ok(gdpa_backward_workspace_size(ctx, &spec, args, bytes));
    return kernel_with(ctx, &spec, args, *bytes);
}

static bool is_of_lengths(const char *kernel)
{
    return strstr(kernel, "_whole_") != NULL || strstr(kernel, "_pairs_") != NULL;
}

static void lengths_choose_the_family(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int64_t keys;
        const char *part; /* of the name; "": neither of the two */
    } cases[] = {
        {"head_dim=64 activation=silu", 0, "_whole_"},
        {"head_dim=64 activation=silu", 1, "_whole_"},
        {"head_dim=64 activation=silu", 128, "_whole_"},
        {"head_dim=64 activation=silu", 129, ""},
        {"head_dim=128 activation=silu", 128, "_whole_"},
        {"head_dim=128 activation=silu", 129, "_pairs_"},
        {"head_dim=128 activation=silu arch=sm_90a causal", 256, "_pairs_"},
        {"head_dim=128 activation=silu", 257, ""},
        {"head_dim=128 activation=silu family=sm90", 100, ""},
        {"head_dim=128 activation=silu family=whole", 100, "_whole_"},
        {"head_dim=128 activation=silu family=pairs", 100, "_pairs_"},
        {"head_dim=128 activation=silu deterministic", 100, ""},
        {"head_dim=128 activation=silu schedule=static", 100, ""},
        {"head_dim=192 activation=silu", 100, ""},
    };
    gdpa_ctx *ctx = context_on(90);
    fake_driver_control->params_size(sizeof(struct gdpa_bwd_params));
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        gdpa_args args = backward_args();
        args.batch = 100;
        args.seqlen_k = cases[i].keys;
        size_t bytes = 0;
        const char *kernel = kernel_taken(ctx, cases[i].text, &args, &bytes);
        if (cases[i].part[0] == 0 ? is_of_lengths(kernel) : strstr(kernel, cases[i].part) == NULL) {
            fail_msg("%s with %d keys: %s", cases[i].text, (int)cases[i].keys, kernel);
        }
        assert_true(cases[i].part[0] == 0 || bytes == 512);
    }
    gdpa_args args = backward_args();
    args.seqlen_k = 100;
    args.dq.data = NULL; /* then there is nothing that they do better */
    size_t bytes = 0;
    assert_false(is_of_lengths(kernel_taken(ctx, "head_dim=128 activation=silu", &args, &bytes)));
    args.dq.data = (void *)(uintptr_t)0x60002; /* none of them copies that */
    expect_text(kernel_taken(ctx, "head_dim=128 activation=silu", &args, &bytes), "unaligned");
    gdpa_ctx_destroy(ctx);
}

static void lengths_of_jagged_keys_are_known_by_their_maximum_or_total(void **state)
{
    (void)state;
    static const char text[] = "head_dim=128 activation=silu layout_q=jagged layout_k=jagged";
    static const struct {
        int64_t total, maximum;
        const char *part;
    } cases[] = {
        {1000, 0, ""},          {1000, 128, "_whole_"}, {1000, 256, "_pairs_"}, {1000, 300, ""},
        {120, 1000, "_whole_"}, {200, 0, "_pairs_"},    {120, 256, "_whole_"},  {126, 0, "_whole_"},
    };
    gdpa_ctx *ctx = context_on(90);
    fake_driver_control->params_size(sizeof(struct gdpa_bwd_params));
    gdpa_args args = backward_args();
    args.seqlen_q = args.seqlen_k = 0;
    args.cu_seqlens_q = args.cu_seqlens_k = (const int32_t *)(uintptr_t)0x1000;
    args.total_q = 1000;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        size_t bytes = 0;
        args.total_k = cases[i].total;
        args.max_seqlen_k = cases[i].maximum;
        const char *kernel = kernel_taken(ctx, text, &args, &bytes);
        assert_true(cases[i].part[0] == 0 ? !is_of_lengths(kernel) : strstr(kernel, cases[i].part) != NULL);
    }
    size_t bytes = 0;
    args.batch = 20;
    args.total_k = 1000;
    args.max_seqlen_k = 256; /* 50 on average: most of the second blocks had none */
    assert_false(is_of_lengths(kernel_taken(ctx, text, &args, &bytes)));
    args.schedule = (void *)(uintptr_t)0x1000;
    args.schedule_bytes = 4096;
    expect_text(kernel_taken(ctx, text, &args, &bytes), "_dynamic_");
    args.max_seqlen_k = 128; /* it needs none */
    expect_text(kernel_taken(ctx, text, &args, &bytes), "_whole_");
    args.size = offsetof(gdpa_args, schedule); /* of another version */
    assert_false(is_of_lengths(kernel_taken(ctx, text, &args, &bytes)));
    gdpa_ctx_destroy(ctx);
}

static void other_architectures_have_no_families_of_lengths(void **state)
{
    (void)state;
    gdpa_ctx *ctx = context_on(86);
    gdpa_args args = backward_args();
    args.seqlen_k = 100;
    size_t bytes = 0;
    assert_false(is_of_lengths(kernel_taken(ctx, "head_dim=128 activation=silu", &args, &bytes)));
    gdpa_ctx_destroy(ctx);
}

/* That sm90 is faster for a smaller call is no reason to ask for more memory than the largest one does. */
static void a_workspace_for_the_largest_call_does_for_smaller_ones(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int64_t batch, total_k;
        bool is_largest;
    } cases[] = {{"head_dim=128 activation=silu layout_q=jagged layout_k=jagged", 20, 2000, true},
                 {"head_dim=128 activation=silu layout_q=jagged layout_k=jagged", 20, 1000, false},
                 {"head_dim=128 activation=silu", 64, 0, true},
                 {"head_dim=128 activation=silu", 16, 0, false}};
    gdpa_ctx *ctx = context_on(90);
    fake_driver_control->params_size(sizeof(struct gdpa_bwd_params));
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const gdpa_spec spec = runtime_spec(cases[i].text);
        gdpa_args args = backward_args();
        args.batch = cases[i].batch;
        args.seqlen_k = 200;
        if (cases[i].total_k > 0) {
            args.seqlen_q = args.seqlen_k = 0;
            args.cu_seqlens_q = args.cu_seqlens_k = (const int32_t *)(uintptr_t)0x1000;
            args.total_q = 1000;
            args.total_k = cases[i].total_k;
            args.max_seqlen_k = 256;
        }
        size_t needed = 0;
        expect_ok(gdpa_backward_workspace_size(ctx, &spec, &args, &needed));
        assert_int_equal(needed == 512, cases[i].is_largest);
        assert_int_equal(is_of_lengths(kernel_with(ctx, &spec, &args, needed)), cases[i].is_largest);
        expect_text(kernel_with(ctx, &spec, &args, 512), "_pairs_");
        expect_text(kernel_with(ctx, &spec, &args, 0), "_pairs_");
    }
    gdpa_ctx_destroy(ctx);
}

static void pairs_are_one_launch_of_whole_clusters(void **state)
{
    (void)state;
    gdpa_ctx *ctx = context_on(90);
    fake_driver_control->params_size(sizeof(struct gdpa_bwd_sm90_main_params));
    gdpa_args args = backward_args();
    args.seqlen_k = 200;
    const gdpa_spec spec = runtime_spec("head_dim=128 activation=silu family=pairs");
    struct fake_launch launch;
    struct fake_fill fill;
    struct gdpa_bwd_sm90_main_params params;
    expect_ok(gdpa_backward(ctx, &spec, &args, NULL, 0, fake_driver_control->stream(0)));
    assert_int_equal(launches(), 1);
    assert_false(fake_driver_control->last_fill(&fill));
    assert_true(fake_driver_control->last_launch(&launch));
    assert_int_equal(launch.grid, 2 * 2 * 2); /* sequences, heads of keys, blocks of a cluster */
    memcpy(&params, launch.params, sizeof params);
    assert_null(params.order.counter);
    assert_ptr_equal(params.tiles.common.dq, args.dq.data);
    expect_ok(gdpa_backward(ctx, &spec, &args, WORKSPACE, 512, fake_driver_control->stream(0)));
    assert_int_equal(launches(), 2);
    assert_true(fake_driver_control->last_fill(&fill));
    assert_int_equal(fill.words, 512 / 4);
    assert_true(fake_driver_control->last_launch(&launch));
    memcpy(&params, launch.params, sizeof params);
    assert_ptr_equal(params.order.counter, WORKSPACE);
    args.seqlen_k = 257;
    expect_failure(gdpa_backward(ctx, &spec, &args, WORKSPACE, 1 << 20, fake_driver_control->stream(0)),
                   GDPA_E_ARGUMENT, "257 keys (seqlen_k), and family pairs makes dq from all of them");
    assert_int_equal(launches(), 2);
    gdpa_ctx_destroy(ctx);
}

static void mode_strict_takes_what_was_made_beforehand(void **state)
{
    (void)state;
    static const int capability = 90;
    static const char text[] = "bwd head_dim=128 activation=silu";
    char *folder = scratch_make();
    gdpa_ctx_options options = runtime_options(folder);
    fake_driver_control->devices(1, &capability);
    fake_driver_control->params_size(sizeof(struct gdpa_bwd_params));
    gdpa_args args = backward_args();
    args.batch = 100;
    args.seqlen_k = 256;
    const gdpa_spec spec = runtime_spec(text);
    gdpa_kernel *kernel = NULL;
    size_t bytes = 0;
    options.mode = GDPA_MODE_STRICT;
    gdpa_ctx *ctx = runtime_context(&options);
    expect_failure(
        gdpa_backward_workspace_size(ctx, &spec, &args, &bytes), GDPA_E_NOT_READY,
        "gdpa-jit warm 'bwd head_dim=128 dtype=bf16 activation=silu arch=sm_90a' 'bwd head_dim=128 dtype=bf16 "
        "activation=silu family=pairs arch=sm_90a'");
    gdpa_ctx_destroy(ctx);
    options.mode = GDPA_MODE_AUTO;
    ctx = runtime_context(&options);
    expect_ok(gdpa_kernel_get(ctx, &spec, &kernel));
    gdpa_kernel_release(kernel);
    gdpa_ctx_destroy(ctx);
    options.mode = GDPA_MODE_STRICT;
    ctx = runtime_context(&options);
    assert_false(is_of_lengths(kernel_taken(ctx, text, &args, &bytes)));
    assert_true(bytes > 512); /* what the one that stands in needs */
    gdpa_ctx_destroy(ctx);
    options.mode = GDPA_MODE_AUTO;
    ctx = runtime_context(&options);
    expect_text(kernel_taken(ctx, text, &args, &bytes), "_pairs_");
    gdpa_ctx_destroy(ctx);
    options.mode = GDPA_MODE_STRICT;
    ctx = runtime_context(&options);
    expect_text(kernel_taken(ctx, text, &args, &bytes), "_pairs_");
    assert_int_equal(bytes, 512);
    gdpa_ctx_destroy(ctx);
    scratch_remove(folder);
}

static void an_older_spec_keeps_what_it_says(void **state)
{
    (void)state;
    gdpa_ctx *ctx = context_on(86);
    const gdpa_args args = backward_args();
    gdpa_spec spec = runtime_spec(SPEC);
    struct fake_launch launch;
    spec.deterministic = 1;
    spec.size = offsetof(gdpa_spec, unaligned);
    expect_ok(gdpa_backward(ctx, &spec, &args, NULL, 0, fake_driver_control->stream(0)));
    assert_true(fake_driver_control->last_launch(&launch));
    expect_text(launch.kernel, "_deterministic_");
    gdpa_ctx_destroy(ctx);
}

static void bad_calls_are_refused(void **state)
{
    (void)state;
    gdpa_ctx *ctx = context_on(86);
    gdpa_args args = backward_args();
    gdpa_spec spec = runtime_spec(SPEC);
    size_t bytes = 0;
    expect_failure(gdpa_backward(NULL, &spec, &args, NULL, 0, NULL), GDPA_E_ARGUMENT, "ctx is NULL");
    expect_failure(gdpa_backward(ctx, NULL, &args, NULL, 0, NULL), GDPA_E_ARGUMENT, "spec is NULL");
    expect_failure(gdpa_backward(ctx, &spec, NULL, NULL, 0, NULL), GDPA_E_ARGUMENT, "args is NULL");
    expect_failure(gdpa_backward_workspace_size(ctx, &spec, &args, NULL), GDPA_E_ARGUMENT, "bytes is NULL");
    spec.pass = GDPA_PASS_FORWARD;
    expect_failure(gdpa_backward(ctx, &spec, &args, NULL, 0, NULL), GDPA_E_ARGUMENT, "gdpa_backward runs backward");
    spec = runtime_spec(SPEC);
    spec.unaligned = 2;
    expect_failure(gdpa_backward(ctx, &spec, &args, NULL, 0, NULL), GDPA_E_ARGUMENT, "unaligned is 2");
    spec = runtime_spec(SPEC);
    spec.size = 2;
    expect_failure(gdpa_backward_workspace_size(ctx, &spec, &args, &bytes), GDPA_E_VERSION, "spec.size is 2");
    assert_int_equal(launches(), 0);
    gdpa_ctx_destroy(ctx);
}

#define TEST(name) cmocka_unit_test_setup(name, fakes_reset)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_backward_is_zeros_the_main_kernel_and_the_second_one),
        TEST(what_is_not_needed_is_not_launched),
        TEST(a_deterministic_backward_needs_no_workspace),
        TEST(later_launches_are_calls_of_the_driver_and_no_allocation),
        TEST(a_bad_workspace_is_refused_before_anything_is_queued),
        TEST(failures_of_the_driver_are_reported),
        TEST(a_thread_without_context_takes_that_of_the_stream),
        TEST(tensors_that_need_it_get_the_unaligned_kernel),
        TEST(a_family_by_name_is_kept_and_the_tensor_that_forbids_it_named),
        TEST(on_hopper_the_zeros_are_those_of_the_order_too),
        TEST(on_hopper_a_workspace_for_the_order_alone_may_be_left_out),
        TEST(lengths_choose_the_family),
        TEST(lengths_of_jagged_keys_are_known_by_their_maximum_or_total),
        TEST(other_architectures_have_no_families_of_lengths),
        TEST(a_workspace_for_the_largest_call_does_for_smaller_ones),
        TEST(pairs_are_one_launch_of_whole_clusters),
        TEST(mode_strict_takes_what_was_made_beforehand),
        TEST(an_older_spec_keeps_what_it_says),
        TEST(bad_calls_are_refused),
    };
    return cmocka_run_group_tests(tests, fakes_load, NULL);
}
