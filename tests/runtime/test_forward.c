/*
 * The one-call forward.
 */
#include "runtime/kernel.h"
#include "templates/params.h"
#include "tests/support/runtime_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static gdpa_ctx *context_on(const int *capabilities, int count)
{
    const gdpa_ctx_options options = runtime_options(NULL);
    fake_driver_control->devices(count, capabilities);
    fake_driver_control->params_size(sizeof(struct gdpa_fwd_params));
    return runtime_context(&options);
}

static struct fake_launch forward(gdpa_ctx *ctx, const char *text, const gdpa_args *args, struct CUstream_st *stream)
{
    struct fake_launch launch;
    const gdpa_spec spec = runtime_spec(text);
    expect_ok(gdpa_forward(ctx, &spec, args, stream));
    assert_true(fake_driver_control->last_launch(&launch));
    return launch;
}

static void it_gets_and_launches(void **state)
{
    (void)state;
    static const int capability = 86;
    gdpa_ctx *ctx = context_on(&capability, 1);
    const gdpa_args args = runtime_args();
    for (int i = 0; i < 3; i++) {
        const struct fake_launch launch =
            forward(ctx, "fwd head_dim=64 activation=silu", &args, fake_driver_control->stream(0));
        expect_text(launch.kernel, "gdpa_fwd_sm86_d64_bf16_silu_");
    }
    assert_int_equal(fake_nvrtc_control->calls("nvrtcCompileProgram"), 1);
    assert_int_equal(fake_driver_control->calls("cuLaunchKernelEx"), 3);
    assert_int_equal(atomic_load(&ctx->references), 1);
    gdpa_ctx_destroy(ctx);
}

static void tensors_that_need_it_get_the_unaligned_kernel(void **state)
{
    (void)state;
    static const int capability = 86;
    gdpa_ctx *ctx = context_on(&capability, 1);
    gdpa_args args = runtime_args();
    args.k.data = (void *)(uintptr_t)0x20002;
    struct fake_launch launch = forward(ctx, "fwd head_dim=64 activation=silu", &args, fake_driver_control->stream(0));
    expect_text(launch.kernel, "unaligned");
    launch = forward(ctx, "fwd head_dim=64 activation=silu unaligned", &args, fake_driver_control->stream(0));
    expect_text(launch.kernel, "unaligned");
    assert_int_equal(fake_nvrtc_control->calls("nvrtcCompileProgram"), 1);
    args.k.data = (void *)(uintptr_t)0x20001;
    const gdpa_spec spec = runtime_spec("fwd head_dim=64 activation=silu");
    expect_failure(gdpa_forward(ctx, &spec, &args, NULL), GDPA_E_ARGUMENT, "element size of 2 bytes");
    gdpa_ctx_destroy(ctx);
}

static void a_family_that_was_asked_for_is_not_left_for_another(void **state)
{
    (void)state;
    static const int capability = 90;
    static const char *const texts[] = {"fwd head_dim=64 activation=silu family=sm90 arch=sm_90a",
                                        "fwd head_dim=64 activation=silu family=sm90"};
    gdpa_ctx *ctx = context_on(&capability, 1);
    for (int i = 0; i < 2; i++) {
        const gdpa_spec spec = runtime_spec(texts[i]);
        gdpa_args args = runtime_args();
        fake_driver_control->params_size(0);
        expect_ok(gdpa_forward(ctx, &spec, &args, fake_driver_control->stream(0)));
        args.k.data = (void *)(uintptr_t)0x20002;
        const long launches = fake_driver_control->calls("cuLaunchKernelEx");
        expect_failure(gdpa_forward(ctx, &spec, &args, fake_driver_control->stream(0)), GDPA_E_ARGUMENT,
                       "k is not aligned as family sm90, which the spec asks for, needs it");
        expect_text(gdpa_last_error(), "leave family auto");
        assert_int_equal(fake_driver_control->calls("cuLaunchKernelEx"), launches);
    }
    gdpa_args args = runtime_args();
    args.k.data = (void *)(uintptr_t)0x20002;
    fake_driver_control->params_size(sizeof(struct gdpa_fwd_params));
    const struct fake_launch launch =
        forward(ctx, "fwd head_dim=64 activation=silu arch=sm_90a", &args, fake_driver_control->stream(0));
    expect_text(launch.kernel, "unaligned");
    gdpa_ctx_destroy(ctx);
}

static void lengths_choose_the_family(void **state)
{
    (void)state;
    static const int capability = 86;
    gdpa_ctx *ctx = context_on(&capability, 1);
    gdpa_args args = runtime_args();
    args.seqlen_q = args.seqlen_k = 64;
    for (int i = 0; i < 3; i++) {
        expect_text(forward(ctx, "fwd head_dim=64 activation=silu", &args, fake_driver_control->stream(0)).kernel,
                    "_short_");
    }
    assert_int_equal(fake_nvrtc_control->calls("nvrtcCompileProgram"), 1);
    const char *const others[] = {"fwd head_dim=64 activation=silu family=portable",
                                  "fwd head_dim=192 activation=silu"};
    for (int i = 0; i < 2; i++) {
        const struct fake_launch launch = forward(ctx, others[i], &args, fake_driver_control->stream(0));
        assert_null(strstr(launch.kernel, "_short_"));
    }
    /* Lengths of jagged sequences are known by their maxima, or by a small total. */
    args.seqlen_q = args.seqlen_k = 0;
    args.cu_seqlens_q = args.cu_seqlens_k = (const int32_t *)(uintptr_t)0x1000;
    args.total_q = args.total_k = 1000;
    const char jagged[] = "fwd head_dim=64 activation=silu layout_q=jagged layout_k=jagged";
    assert_null(strstr(forward(ctx, jagged, &args, fake_driver_control->stream(0)).kernel, "_short_"));
    args.max_seqlen_q = args.max_seqlen_k = 32;
    expect_text(forward(ctx, jagged, &args, fake_driver_control->stream(0)).kernel, "_short_");
    args.max_seqlen_q = args.max_seqlen_k = 0;
    args.total_q = args.total_k = 60;
    expect_text(forward(ctx, jagged, &args, fake_driver_control->stream(0)).kernel, "_short_");
    /* Few keys and many queries. */
    args.batch = 1000;
    args.total_q = 100000;
    expect_text(forward(ctx, jagged, &args, fake_driver_control->stream(0)).kernel, "_stream_");
    args.total_q = 60;
    /* Tensors that it cannot copy take the portable one. */
    args.v.data = (void *)(uintptr_t)0x30002;
    expect_text(forward(ctx, jagged, &args, fake_driver_control->stream(0)).kernel, "unaligned");
    gdpa_spec named = runtime_spec("fwd head_dim=64 activation=silu layout_q=jagged layout_k=jagged family=short");
    expect_failure(gdpa_forward(ctx, &named, &args, fake_driver_control->stream(0)), GDPA_E_ARGUMENT,
                   "v is not aligned as family short");
    gdpa_ctx_destroy(ctx);
}

static void mode_strict_takes_what_was_made_beforehand(void **state)
{
    (void)state;
    static const int capability = 86;
    static const char text[] = "fwd head_dim=64 activation=silu";
    char *folder = scratch_make();
    gdpa_ctx_options options = runtime_options(folder);
    fake_driver_control->devices(1, &capability);
    fake_driver_control->params_size(sizeof(struct gdpa_fwd_params));
    const gdpa_args args = runtime_args(); /* of few rows */
    const gdpa_spec spec = runtime_spec(text);
    gdpa_kernel *kernel = NULL;
    gdpa_ctx *ctx = runtime_context(&options);
    expect_ok(gdpa_kernel_get(ctx, &spec, &kernel));
    gdpa_kernel_release(kernel);
    gdpa_ctx_destroy(ctx);
    options.mode = GDPA_MODE_STRICT;
    ctx = runtime_context(&options);
    for (int i = 0; i < 2; i++) {
        const struct fake_launch launch = forward(ctx, text, &args, fake_driver_control->stream(0));
        assert_null(strstr(launch.kernel, "_short_"));
    }
    gdpa_ctx_destroy(ctx);
    options.mode = GDPA_MODE_AUTO;
    ctx = runtime_context(&options);
    expect_text(forward(ctx, text, &args, fake_driver_control->stream(0)).kernel, "_short_");
    gdpa_ctx_destroy(ctx);
    options.mode = GDPA_MODE_STRICT;
    ctx = runtime_context(&options);
    expect_text(forward(ctx, text, &args, fake_driver_control->stream(0)).kernel, "_short_");
    gdpa_ctx_destroy(ctx);
    scratch_remove(folder);
}

static void mode_strict_names_the_better_kernel_too(void **state)
{
    (void)state;
    static const int capability = 90;
    static struct captured_log log;
    char *folder = scratch_make();
    gdpa_ctx_options options = runtime_options(folder);
    fake_driver_control->devices(1, &capability);
    captured_log_init(&log);
    options.log = captured_log_line;
    options.log_user = &log;
    options.log_level = GDPA_LOG_INFO;
    options.mode = GDPA_MODE_STRICT;
    gdpa_args args = runtime_args();
    const gdpa_spec spec = runtime_spec("fwd head_dim=64 activation=silu");
    gdpa_ctx *ctx = runtime_context(&options);
    expect_failure(gdpa_forward(ctx, &spec, &args, fake_driver_control->stream(0)), GDPA_E_NOT_READY,
                   "gdpa-jit warm 'fwd head_dim=64 dtype=bf16 activation=silu arch=sm_90a' 'fwd head_dim=64 dtype=bf16 "
                   "activation=silu family=short arch=sm_90a'");
    args.seqlen_q = args.seqlen_k = 1000;
    args.seqused_q = (const int32_t *)(uintptr_t)0x2000; /* lengths may differ, then */
    args.schedule = (void *)(uintptr_t)0x1000;
    args.schedule_bytes = 4096;
    expect_failure(gdpa_forward(ctx, &spec, &args, fake_driver_control->stream(0)), GDPA_E_NOT_READY,
                   " schedule=dynamic arch=sm_90a'");
    expect_text(gdpa_last_error(), "with these arguments the kernel of the last spec named here is the better one: ");
    gdpa_ctx_destroy(ctx);
    scratch_remove(folder);
}

static void a_kernel_that_stands_in_for_a_faster_one_is_told_once(void **state)
{
    (void)state;
    static const int capability = 86;
    static const char text[] = "fwd head_dim=64 activation=silu";
    static struct captured_log log;
    char *folder = scratch_make();
    gdpa_ctx_options options = runtime_options(folder);
    fake_driver_control->devices(1, &capability);
    fake_driver_control->params_size(sizeof(struct gdpa_fwd_params));
    const gdpa_args args = runtime_args(); /* of few rows */
    const gdpa_spec spec = runtime_spec(text);
    gdpa_kernel *kernel = NULL;
    gdpa_ctx *ctx = runtime_context(&options);
    expect_ok(gdpa_kernel_get(ctx, &spec, &kernel));
    gdpa_kernel_release(kernel);
    gdpa_ctx_destroy(ctx);
    captured_log_init(&log);
    options.log = captured_log_line;
    options.log_user = &log;
    options.log_level = GDPA_LOG_INFO;
    options.mode = GDPA_MODE_STRICT;
    ctx = runtime_context(&options);
    for (int i = 0; i < 3; i++) {
        forward(ctx, text, &args, fake_driver_control->stream(0));
    }
    const char *told = strstr(log.text, "which may be slower, is launched in place of another one: ");
    assert_non_null(told);
    expect_text(told, "gdpa-jit warm 'fwd head_dim=64 dtype=bf16 activation=silu family=short arch=sm_86'");
    assert_null(strstr(told + 1, "which may be slower"));
    gdpa_ctx_destroy(ctx);
    scratch_remove(folder);
}

static void the_stream_decides_on_the_architecture(void **state)
{
    (void)state;
    static const int capabilities[] = {80, 90};
    gdpa_ctx *ctx = context_on(capabilities, 2);
    const gdpa_args args = runtime_args();
    fake_driver_control->current(0);
    for (int i = 0; i < 2; i++) { /* made the first time, found the second */
        struct fake_launch launch =
            forward(ctx, "fwd head_dim=64 activation=relu family=portable", &args, fake_driver_control->stream(1));
        assert_int_equal(launch.device, 1);
        expect_text(launch.kernel, "gdpa_fwd_sm90_");
        launch = forward(ctx, "fwd head_dim=64 activation=relu family=portable", &args, NULL);
        assert_int_equal(launch.device, 0);
        expect_text(launch.kernel, "gdpa_fwd_sm80_");
    }
    gdpa_ctx_destroy(ctx);
}

static void bad_calls_are_refused(void **state)
{
    (void)state;
    static const int capability = 86;
    gdpa_ctx *ctx = context_on(&capability, 1);
    gdpa_args args = runtime_args();
    gdpa_spec spec = runtime_spec("fwd head_dim=64 activation=silu");
    expect_failure(gdpa_forward(NULL, &spec, &args, NULL), GDPA_E_ARGUMENT, "ctx is NULL");
    expect_failure(gdpa_forward(ctx, NULL, &args, NULL), GDPA_E_ARGUMENT, "spec is NULL");
    expect_failure(gdpa_forward(ctx, &spec, NULL, NULL), GDPA_E_ARGUMENT, "args is NULL");
    args.size = 0;
    expect_failure(gdpa_forward(ctx, &spec, &args, NULL), GDPA_E_VERSION, "gdpa_args.size is 0");
    args = runtime_args();
    spec.size = 2;
    expect_failure(gdpa_forward(ctx, &spec, &args, NULL), GDPA_E_VERSION, "spec.size is 2");
    spec = runtime_spec("fwd head_dim=64 activation=silu");
    spec.pass = GDPA_PASS_BACKWARD;
    expect_failure(gdpa_forward(ctx, &spec, &args, NULL), GDPA_E_ARGUMENT, "gdpa_forward runs forward kernels");
    assert_int_equal(fake_driver_control->calls("cuLaunchKernelEx"), 0);
    gdpa_ctx_destroy(ctx);
}

#define TEST(name) cmocka_unit_test_setup(name, fakes_reset)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(it_gets_and_launches),
        TEST(tensors_that_need_it_get_the_unaligned_kernel),
        TEST(a_family_that_was_asked_for_is_not_left_for_another),
        TEST(lengths_choose_the_family),
        TEST(mode_strict_takes_what_was_made_beforehand),
        TEST(mode_strict_names_the_better_kernel_too),
        TEST(a_kernel_that_stands_in_for_a_faster_one_is_told_once),
        TEST(the_stream_decides_on_the_architecture),
        TEST(bad_calls_are_refused),
    };
    return cmocka_run_group_tests(tests, fakes_load, NULL);
}
