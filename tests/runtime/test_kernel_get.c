/*
 * Getting kernels: memory, disk, compiler, modes, and many threads at once.
 */
#include "runtime/context.h"
#include "runtime/kernel.h"
#include "tests/support/cubin_maker.h"
#include "tests/support/runtime_fixture.h"

#include <unistd.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define SPEC "fwd head_dim=64 activation=relu arch=sm_90a"

static gdpa_stats stats_of(gdpa_ctx *ctx)
{
    gdpa_stats stats = {.size = sizeof stats};
    expect_ok(gdpa_ctx_stats(ctx, &stats));
    return stats;
}

static gdpa_kernel *get(gdpa_ctx *ctx, const char *text)
{
    gdpa_kernel *kernel = NULL;
    const gdpa_spec spec = runtime_spec(text);
    expect_ok(gdpa_kernel_get(ctx, &spec, &kernel));
    assert_non_null(kernel);
    return kernel;
}

static const char *origin_of(gdpa_kernel *kernel)
{
    gdpa_kernel_info info = {.size = sizeof info};
    expect_ok(gdpa_kernel_info_get(kernel, &info));
    return info.origin;
}

static void bad_calls_are_refused(void **state)
{
    (void)state;
    gdpa_ctx_options options = runtime_options(NULL);
    gdpa_ctx *ctx = runtime_context(&options);
    gdpa_spec spec = runtime_spec(SPEC);
    gdpa_kernel *kernel = NULL;
    expect_failure(gdpa_kernel_get(NULL, &spec, &kernel), GDPA_E_ARGUMENT, "ctx is NULL");
    expect_failure(gdpa_kernel_get(ctx, NULL, &kernel), GDPA_E_ARGUMENT, "spec is NULL");
    expect_failure(gdpa_kernel_get(ctx, &spec, NULL), GDPA_E_ARGUMENT, "kernel is NULL");
    spec.head_dim = 100;
    expect_failure(gdpa_kernel_get(ctx, &spec, &kernel), GDPA_E_ARGUMENT, "head_dim is 100");
    spec = runtime_spec(SPEC);
    spec.size = 3;
    expect_failure(gdpa_kernel_get(ctx, &spec, &kernel), GDPA_E_VERSION, "spec.size is 3");
    spec = runtime_spec(SPEC);
    spec.family = GDPA_FAMILY_SM90;
    spec.unaligned = 1;
    expect_failure(gdpa_kernel_get(ctx, &spec, &kernel), GDPA_E_UNSUPPORTED, "");
    assert_null(kernel);
    assert_int_equal(fake_nvrtc_control->calls("nvrtcCompileProgram"), 0);
    gdpa_kernel_release(NULL);
    assert_null(gdpa_kernel_retain(NULL));
    gdpa_ctx_destroy(ctx);
}

static void the_same_spec_gives_the_same_kernel(void **state)
{
    (void)state;
    gdpa_ctx_options options = runtime_options(NULL);
    gdpa_ctx *ctx = runtime_context(&options);
    gdpa_kernel *first = get(ctx, SPEC);
    gdpa_kernel *again = get(ctx, SPEC);
    gdpa_kernel *spelt_out = get(ctx, SPEC " dtype=bf16 out_dtype=bf16 head_dim_v=64 window_left=-1 align=top_left");
    gdpa_kernel *other = get(ctx, SPEC " causal");
    assert_ptr_equal(first, again);
    assert_ptr_equal(first, spelt_out);
    assert_ptr_not_equal(first, other);
    const gdpa_stats stats = stats_of(ctx);
    assert_int_equal(stats.compiles, 2);
    assert_int_equal(stats.memory_hits, 2);
    assert_int_equal(fake_nvrtc_control->calls("nvrtcCompileProgram"), 2);
    gdpa_kernel_release(first);
    gdpa_kernel_release(again);
    gdpa_kernel_release(spelt_out);
    gdpa_kernel_release(other);
    gdpa_ctx_destroy(ctx);
}

static void an_older_struct_gives_the_same_kernel(void **state)
{
    (void)state;
    gdpa_ctx_options options = runtime_options(NULL);
    gdpa_ctx *ctx = runtime_context(&options);
    gdpa_kernel *first = get(ctx, SPEC), *again = NULL;
    gdpa_spec older = runtime_spec(SPEC);
    older.size = offsetof(gdpa_spec, unaligned);
    older.unaligned = 77; /* beyond what the caller knows */
    expect_ok(gdpa_kernel_get(ctx, &older, &again));
    assert_ptr_equal(first, again);
    gdpa_kernel_release(first);
    gdpa_kernel_release(again);
    gdpa_ctx_destroy(ctx);
}

static void neither_driver_nor_device_is_needed_with_an_arch(void **state)
{
    (void)state;
    gdpa_ctx_options options = runtime_options(NULL);
    options.driver_path = "/nonexistent/libcuda.so";
    gdpa_ctx *ctx = runtime_context(&options);
    gdpa_kernel *kernel = get(ctx, "fwd head_dim=64 activation=relu arch=sm_80");
    const gdpa_spec any = runtime_spec("fwd head_dim=64 activation=relu");
    gdpa_kernel *none = NULL;
    expect_failure(gdpa_kernel_get(ctx, &any, &none), GDPA_E_NO_DRIVER, "no CUDA driver");
    expect_text(gdpa_last_error(), "install the NVIDIA driver, or name its libcuda in GDPAJIT_LIBCUDA");
    expect_text(gdpa_last_error(), "; with spec.arch set kernels are made without a GPU");
    gdpa_kernel_release(kernel);
    gdpa_ctx_destroy(ctx);
    options.driver_path = FAKE_DRIVER_PATH;
    ctx = runtime_context(&options);
    kernel = get(ctx, "fwd head_dim=64 activation=relu arch=sm_80");
    assert_int_equal(fake_driver_control->calls("cuInit"), 0);
    gdpa_kernel_release(kernel);
    gdpa_ctx_destroy(ctx);
}

static void without_an_arch_the_device_decides(void **state)
{
    (void)state;
    static const int capabilities[] = {86, 90};
    fake_driver_control->devices(2, capabilities);
    gdpa_ctx_options options = runtime_options(NULL);
    gdpa_ctx *ctx = runtime_context(&options);
    gdpa_kernel *first = get(ctx, "fwd head_dim=64 activation=relu");
    gdpa_kernel *first_again = get(ctx, "fwd head_dim=64 activation=relu");
    fake_driver_control->current(1);
    gdpa_kernel *second = get(ctx, "fwd head_dim=64 activation=relu");
    assert_string_equal(first->target, "sm_86");
    assert_string_equal(second->target, "sm_90a");
    assert_ptr_equal(first, first_again);
    assert_int_equal(stats_of(ctx).compiles, 2);
    gdpa_kernel_release(first);
    gdpa_kernel_release(first_again);
    gdpa_kernel_release(second);
    gdpa_ctx_destroy(ctx);
}

static void a_device_without_kernels_is_refused_by_name(void **state)
{
    (void)state;
    static const int capability = 75;
    fake_driver_control->devices(1, &capability);
    gdpa_ctx_options options = runtime_options(NULL);
    gdpa_ctx *ctx = runtime_context(&options);
    const gdpa_spec spec = runtime_spec("fwd head_dim=64 activation=relu");
    gdpa_kernel *kernel = NULL;
    expect_failure(gdpa_kernel_get(ctx, &spec, &kernel), GDPA_E_UNSUPPORTED,
                   "no kernels for Fake GPU 75 of compute capability 7.5");
    gdpa_ctx_destroy(ctx);
}

static void a_second_process_finds_the_kernel_on_disk(void **state)
{
    (void)state;
    char *folder = scratch_make();
    const gdpa_ctx_options options = runtime_options(folder);
    gdpa_ctx *ctx = runtime_context(&options);
    gdpa_kernel *kernel = get(ctx, SPEC);
    assert_string_equal(origin_of(kernel), "compiled");
    gdpa_kernel_release(kernel);
    gdpa_ctx_destroy(ctx);
    ctx = runtime_context(&options);
    kernel = get(ctx, SPEC);
    assert_string_equal(origin_of(kernel), "disk");
    assert_int_equal(kernel->resources.registers, 42);
    assert_int_equal(fake_nvrtc_control->calls("nvrtcCompileProgram"), 1);
    assert_int_equal(stats_of(ctx).disk_hits, 1);
    gdpa_kernel_release(kernel);
    gdpa_ctx_destroy(ctx);
    scratch_remove(folder);
}

static void another_version_or_build_of_the_compiler_compiles_anew(void **state)
{
    (void)state;
    char *folder = scratch_make();
    const gdpa_ctx_options options = runtime_options(folder);
    for (int minor = 0; minor < 3; minor++) {
        fake_nvrtc_control->version(13, minor);
        gdpa_ctx *ctx = runtime_context(&options);
        gdpa_kernel_release(get(ctx, SPEC));
        assert_int_equal(stats_of(ctx).compiles, 1);
        gdpa_ctx_destroy(ctx);
    }
    fake_nvrtc_control->version(13, 1);
    gdpa_ctx *ctx = runtime_context(&options);
    gdpa_kernel_release(get(ctx, SPEC));
    assert_int_equal(stats_of(ctx).compiles, 0);
    gdpa_ctx_destroy(ctx);
    scratch_remove(folder);
}

static void a_warm_cache_works_without_nvrtc(void **state)
{
    (void)state;
    char *folder = scratch_make();
    gdpa_ctx_options options = runtime_options(folder);
    for (int minor = 0; minor < 2; minor++) { /* two entries of the same name: the one used last is taken */
        fake_nvrtc_control->version(13, minor);
        gdpa_ctx *ctx = runtime_context(&options);
        gdpa_kernel_release(get(ctx, SPEC));
        gdpa_kernel_release(get(ctx, "fwd head_dim=64 activation=silu arch=sm_90a"));
        gdpa_ctx_destroy(ctx);
    }
    options.nvrtc_path = "/nonexistent/libnvrtc.so";
    gdpa_ctx *ctx = runtime_context(&options);
    gdpa_kernel *kernel = get(ctx, SPEC), *none = NULL;
    assert_string_equal(origin_of(kernel), "disk");
    assert_string_equal(kernel->nvrtc, "13.1");
    assert_string_equal(gdpa_last_error(), ""); /* a search that failed on the way is no error of the call */
    const gdpa_spec cold = runtime_spec("fwd head_dim=64 activation=gelu arch=sm_90a");
    expect_failure(gdpa_kernel_get(ctx, &cold, &none), GDPA_E_NO_COMPILER, "is not in the cache");
    expect_text(gdpa_last_error(), "/nonexistent/libnvrtc.so: cannot open");
    expect_text(gdpa_last_error(), folder);
    gdpa_kernel_release(kernel);
    gdpa_ctx_destroy(ctx);
    scratch_remove(folder);
}

static void a_warm_cache_works_with_an_nvrtc_that_does_not_know_the_target(void **state)
{
    (void)state;
    static const int old_archs[] = {80, 90};
    char *folder = scratch_make();
    gdpa_ctx_options options = runtime_options(folder);
    gdpa_ctx *ctx = runtime_context(&options);
    gdpa_kernel_release(get(ctx, "fwd head_dim=64 activation=relu arch=sm_120a"));
    gdpa_ctx_destroy(ctx);
    fake_nvrtc_control->archs(2, old_archs);
    ctx = runtime_context(&options);
    gdpa_kernel *kernel = get(ctx, "fwd head_dim=64 activation=relu arch=sm_120a"), *none = NULL;
    assert_string_equal(origin_of(kernel), "disk");
    const gdpa_spec cold = runtime_spec("fwd head_dim=64 activation=silu arch=sm_120a");
    expect_failure(gdpa_kernel_get(ctx, &cold, &none), GDPA_E_NO_COMPILER,
                   "cannot make code for compute capability 12.0");
    gdpa_kernel_release(kernel);
    gdpa_ctx_destroy(ctx);
    scratch_remove(folder);
}

static void strict_mode_never_compiles_and_says_how_to_warm(void **state)
{
    (void)state;
    char *folder = scratch_make();
    gdpa_ctx_options options = runtime_options(folder);
    gdpa_ctx *ctx = runtime_context(&options);
    gdpa_kernel_release(get(ctx, SPEC));
    gdpa_ctx_destroy(ctx);
    options.mode = GDPA_MODE_STRICT;
    ctx = runtime_context(&options);
    gdpa_kernel_release(get(ctx, SPEC));
    gdpa_kernel *none = NULL;
    const gdpa_spec cold = runtime_spec("fwd d=64 act=silu causal arch=90");
    expect_failure(gdpa_kernel_get(ctx, &cold, &none), GDPA_E_NOT_READY,
                   "gdpa-jit warm 'fwd head_dim=64 dtype=bf16 activation=silu causal arch=sm_90a'");
    expect_text(gdpa_last_error(), "mode strict (gdpa_ctx_options.mode) forbids compiling it");
    assert_int_equal(fake_nvrtc_control->calls("nvrtcCompileProgram"), 1);
    gdpa_ctx_destroy(ctx);
    scratch_remove(folder);
}

static void readonly_mode_compiles_and_leaves_the_disk_alone(void **state)
{
    (void)state;
    char *folder = scratch_make();
    gdpa_ctx_options options = runtime_options(folder);
    gdpa_ctx *ctx = runtime_context(&options);
    gdpa_kernel_release(get(ctx, SPEC));
    gdpa_ctx_destroy(ctx);
    options.mode = GDPA_MODE_READONLY;
    for (int i = 0; i < 2; i++) {
        ctx = runtime_context(&options);
        gdpa_kernel_release(get(ctx, SPEC));
        gdpa_kernel_release(get(ctx, SPEC " causal"));
        assert_int_equal(stats_of(ctx).disk_hits, 1);
        assert_int_equal(stats_of(ctx).compiles, 1);
        gdpa_ctx_destroy(ctx);
    }
    scratch_remove(folder);
}

static void mode_off_uses_no_disk(void **state)
{
    (void)state;
    char *folder = scratch_make();
    gdpa_ctx_options options = runtime_options(folder);
    options.mode = GDPA_MODE_OFF;
    gdpa_ctx *ctx = runtime_context(&options);
    gdpa_kernel *kernel = get(ctx, SPEC);
    size_t length = 0;
    expect_failure(gdpa_kernel_artifact(kernel, GDPA_ARTIFACT_LOG, NULL, 0, &length), GDPA_E_BUFFER, "compiler log");
    assert_true(length > 100);
    gdpa_kernel_release(kernel);
    gdpa_ctx_destroy(ctx);
    assert_int_equal(rmdir(folder), 0); /* still empty */
    free(folder);
}

static void an_unusable_cache_is_a_warning_not_a_failure(void **state)
{
    (void)state;
    static struct captured_log log;
    captured_log_init(&log);
    char *folder = scratch_make();
    char file[4200];
    snprintf(file, sizeof file, "%s/a-file", folder);
    fclose(fopen(file, "w"));
    gdpa_ctx_options options = runtime_options(file);
    options.log = captured_log_line;
    options.log_user = &log;
    gdpa_ctx *ctx = runtime_context(&options);
    gdpa_kernel *kernel = get(ctx, SPEC);
    gdpa_kernel_release(kernel);
    expect_text(log.text, "cache: ");
    assert_int_equal(stats_of(ctx).compiles, 1);
    gdpa_ctx_destroy(ctx);
    scratch_remove(folder);
}

/* Puts other code under the key of the kernel. */
static void entry_spoil(gdpa_ctx *ctx, gdpa_kernel *kernel, const char *target, int32_t threads)
{
    struct cache *cache = context_cache(ctx);
    struct cache_entry entry;
    assert_int_equal(cache_get(cache, &kernel->disk_key, NULL, 0, true, &entry), CACHE_OK);
    struct cache_entry spoilt = entry;
    const struct cubin_recipe recipe = {.entry = kernel->name, .target = target, .abi = 8, .text_size = 64};
    size_t size = 0;
    unsigned char *code = cubin_make(&recipe, &size);
    spoilt.code.data = code;
    spoilt.code.size = size;
    spoilt.threads = threads;
    assert_int_equal(cache_remove(cache, &kernel->disk_key, NULL), CACHE_OK);
    assert_int_equal(cache_put(cache, &spoilt), CACHE_OK);
    cache_entry_deinit(&entry);
    free(code);
}

static void code_of_another_target_under_the_right_key_is_refused_and_made_anew(void **state)
{
    (void)state;
    static const struct {
        const char *target;
        int32_t threads; /* 0: those of the kernel */
        const char *text;
    } cases[] = {{"sm_80", 0, "code for compute capability 8.0, expected 9.0"},
                 {"sm_90", 0, "its tool note does not name the target sm_90a"},
                 {"sm_90a", 7, "it is for 7 threads"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        static struct captured_log log;
        char *folder = scratch_make();
        captured_log_init(&log);
        gdpa_ctx_options options = runtime_options(folder);
        options.log = captured_log_line;
        options.log_user = &log;
        gdpa_ctx *ctx = runtime_context(&options);
        gdpa_kernel *kernel = get(ctx, SPEC);
        entry_spoil(ctx, kernel, cases[i].target, cases[i].threads != 0 ? cases[i].threads : kernel->plan.threads);
        gdpa_kernel_release(kernel);
        gdpa_ctx_destroy(ctx);
        ctx = runtime_context(&options);
        kernel = get(ctx, SPEC);
        assert_string_equal(origin_of(kernel), "compiled");
        expect_text(log.text, cases[i].text);
        assert_int_equal(stats_of(ctx).bad_entries, 1);
        gdpa_kernel_release(kernel);
        gdpa_ctx_destroy(ctx);
        ctx = runtime_context(&options); /* and the good one replaced it */
        kernel = get(ctx, SPEC);
        assert_string_equal(origin_of(kernel), "disk");
        gdpa_kernel_release(kernel);
        gdpa_ctx_destroy(ctx);
        scratch_remove(folder);
    }
}

static void a_compile_error_is_shown_with_the_log_and_tried_again(void **state)
{
    (void)state;
    char *folder = scratch_make();
    const gdpa_ctx_options options = runtime_options(folder);
    gdpa_ctx *ctx = runtime_context(&options);
    const gdpa_spec spec = runtime_spec(SPEC);
    gdpa_kernel *kernel = NULL;
    fake_nvrtc_control->fault("nvrtcCompileProgram", 6);
    expect_failure(gdpa_kernel_get(ctx, &spec, &kernel), GDPA_E_COMPILE, "identifier \"mistake\" is undefined");
    expect_text(gdpa_last_error(), "could not compile gdpa_fwd_sm90_d64");
    assert_null(kernel);
    assert_int_equal(stats_of(ctx).compile_failures, 1);
    fake_nvrtc_control->fault("nvrtcCompileProgram", 0);
    expect_ok(gdpa_kernel_get(ctx, &spec, &kernel));
    gdpa_kernel_release(kernel);
    gdpa_ctx_destroy(ctx);
    scratch_remove(folder);
}

static void spills_are_told_at_level_info_alone(void **state)
{
    (void)state;
    static struct captured_log log;
    captured_log_init(&log);
    gdpa_ctx_options options = runtime_options(NULL);
    options.log = captured_log_line;
    options.log_user = &log;
    options.log_level = GDPA_LOG_INFO;
    fake_nvrtc_control->output(FAKE_OUTPUT_SPILLS);
    gdpa_ctx *ctx = runtime_context(&options);
    gdpa_kernel *kernel = get(ctx, SPEC);
    expect_text(log.text, "spills registers (64 bytes)");
    expect_text(log.text, "compiling \"fwd head_dim=64");
    expect_text(log.text, "event=compile name=gdpa_fwd_sm90_d64");
    assert_int_equal(kernel->resources.spill_bytes, 64);
    gdpa_kernel_release(kernel);
    gdpa_ctx_destroy(ctx);
    captured_log_init(&log); /* at the default level there is nothing that a user could do */
    options.log_level = GDPA_LOG_WARN;
    ctx = runtime_context(&options);
    gdpa_kernel_release(get(ctx, SPEC));
    assert_null(strstr(log.text, "spills"));
    gdpa_ctx_destroy(ctx);
}

/* ---------------------------------------------------------------------------------------------------------------
 * Many threads
 * ------------------------------------------------------------------------------------------------------------- */

enum { THREADS = 64 };

struct crowd {
    gdpa_ctx *ctx;
    pthread_barrier_t barrier;
    gdpa_spec specs[THREADS];
    gdpa_kernel *kernels[THREADS];
    gdpa_status statuses[THREADS];
    char texts[THREADS][512];
};

struct member {
    struct crowd *crowd;
    int index;
};

static void *member_run(void *user)
{
    const struct member *member = user;
    struct crowd *crowd = member->crowd;
    const int i = member->index;
    pthread_barrier_wait(&crowd->barrier);
    crowd->statuses[i] = gdpa_kernel_get(crowd->ctx, &crowd->specs[i], &crowd->kernels[i]);
    snprintf(crowd->texts[i], sizeof crowd->texts[i], "%s", gdpa_last_error());
    return NULL;
}

static void crowd_run(struct crowd *crowd)
{
    pthread_t threads[THREADS];
    struct member members[THREADS];
    pthread_barrier_init(&crowd->barrier, NULL, THREADS);
    for (int i = 0; i < THREADS; i++) {
        members[i] = (struct member){crowd, i};
        assert_int_equal(pthread_create(&threads[i], NULL, member_run, &members[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
    }
    pthread_barrier_destroy(&crowd->barrier);
}

static void sixty_four_threads_and_one_kernel_are_one_compile(void **state)
{
    (void)state;
    static struct crowd crowd;
    char *folder = scratch_make();
    const gdpa_ctx_options options = runtime_options(folder);
    crowd.ctx = runtime_context(&options);
    fake_nvrtc_control->delay(100);
    for (int i = 0; i < THREADS; i++) {
        crowd.specs[i] = runtime_spec(i % 2 == 0 ? SPEC : SPEC " dtype=bf16");
    }
    crowd_run(&crowd);
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(crowd.statuses[i], GDPA_OK);
        assert_ptr_equal(crowd.kernels[i], crowd.kernels[0]);
        gdpa_kernel_release(crowd.kernels[i]);
    }
    assert_int_equal(fake_nvrtc_control->calls("nvrtcCompileProgram"), 1);
    const gdpa_stats stats = stats_of(crowd.ctx);
    assert_int_equal(stats.compiles, 1);
    assert_int_equal(stats.waits + stats.memory_hits, THREADS - 1);
    gdpa_ctx_destroy(crowd.ctx);
    scratch_remove(folder);
}

static void sixty_four_threads_and_as_many_kernels_are_as_many_compiles(void **state)
{
    (void)state;
    static struct crowd crowd;
    char *folder = scratch_make();
    const gdpa_ctx_options options = runtime_options(folder);
    crowd.ctx = runtime_context(&options);
    for (int i = 0; i < THREADS; i++) {
        char text[256];
        snprintf(text, sizeof text, "fwd head_dim=64 activation=relu arch=sm_90a window_left=%d", i);
        crowd.specs[i] = runtime_spec(text);
    }
    crowd_run(&crowd);
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(crowd.statuses[i], GDPA_OK);
        for (int j = 0; j < i; j++) {
            assert_ptr_not_equal(crowd.kernels[i], crowd.kernels[j]);
        }
    }
    for (int i = 0; i < THREADS; i++) {
        gdpa_kernel_release(crowd.kernels[i]);
    }
    assert_int_equal(fake_nvrtc_control->calls("nvrtcCompileProgram"), THREADS);
    gdpa_ctx_destroy(crowd.ctx);
    scratch_remove(folder);
}

static void all_who_wait_get_the_error_of_the_one_who_compiled(void **state)
{
    (void)state;
    static struct crowd crowd;
    const gdpa_ctx_options options = runtime_options(NULL);
    crowd.ctx = runtime_context(&options);
    fake_nvrtc_control->delay(100);
    fake_nvrtc_control->fault("nvrtcCompileProgram", 6);
    for (int i = 0; i < THREADS; i++) {
        crowd.specs[i] = runtime_spec(SPEC);
        crowd.kernels[i] = NULL;
    }
    crowd_run(&crowd);
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(crowd.statuses[i], GDPA_E_COMPILE);
        assert_null(crowd.kernels[i]);
        expect_text(crowd.texts[i], "identifier \"mistake\" is undefined");
    }
    assert_true(fake_nvrtc_control->calls("nvrtcCompileProgram") < THREADS);
    gdpa_ctx_destroy(crowd.ctx);
}

#define TEST(name) cmocka_unit_test_setup(name, fakes_reset)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_warm_cache_works_without_nvrtc), /* first: the last error is still empty */
        TEST(bad_calls_are_refused),
        TEST(the_same_spec_gives_the_same_kernel),
        TEST(an_older_struct_gives_the_same_kernel),
        TEST(neither_driver_nor_device_is_needed_with_an_arch),
        TEST(without_an_arch_the_device_decides),
        TEST(a_device_without_kernels_is_refused_by_name),
        TEST(a_second_process_finds_the_kernel_on_disk),
        TEST(another_version_or_build_of_the_compiler_compiles_anew),
        TEST(a_warm_cache_works_with_an_nvrtc_that_does_not_know_the_target),
        TEST(strict_mode_never_compiles_and_says_how_to_warm),
        TEST(readonly_mode_compiles_and_leaves_the_disk_alone),
        TEST(mode_off_uses_no_disk),
        TEST(an_unusable_cache_is_a_warning_not_a_failure),
        TEST(code_of_another_target_under_the_right_key_is_refused_and_made_anew),
        TEST(a_compile_error_is_shown_with_the_log_and_tried_again),
        TEST(spills_are_told_at_level_info_alone),
        TEST(sixty_four_threads_and_one_kernel_are_one_compile),
        TEST(sixty_four_threads_and_as_many_kernels_are_as_many_compiles),
        TEST(all_who_wait_get_the_error_of_the_one_who_compiled),
    };
    return cmocka_run_group_tests(tests, fakes_load, NULL);
}
