/*
 * Contexts: options, environment, allocator, lifetime, and what is opened when.
 */
#include "runtime/context.h"
#include "tests/support/runtime_fixture.h"

#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static gdpa_ctx *created(const gdpa_ctx_options *options)
{
    return runtime_context(options);
}

static void a_context_needs_nothing_and_opens_nothing(void **state)
{
    (void)state;
    gdpa_ctx *ctx = created(NULL);
    assert_false(atomic_load(&ctx->cache_opening.done));
    assert_false(atomic_load(&ctx->nvrtc_opening.done));
    assert_false(atomic_load(&ctx->driver_opening.done));
    assert_int_equal(ctx->mode, GDPA_MODE_AUTO);
    gdpa_ctx_destroy(ctx);
    gdpa_ctx_destroy(NULL);
}

struct bad_option {
    const char *name;
    void (*change)(gdpa_ctx_options *options);
    gdpa_status status;
    const char *text;
};

static void *never_alloc(size_t bytes, void *user)
{
    (void)bytes;
    (void)user;
    return NULL;
}
static void never_free(void *memory, void *user)
{
    (void)memory;
    (void)user;
}

/* X(name, change of `o`, status, text of the error) */
#define BAD_OPTIONS(X)                                                                                                 \
    X(size_zero, o->size = 0, GDPA_E_VERSION, "start from GDPA_CTX_OPTIONS_INIT")                                      \
    X(level_low, o->log_level = -1, GDPA_E_ARGUMENT, "log_level is -1; legal are GDPA_LOG_DEFAULT (0)")                \
    X(level_high, o->log_level = 6, GDPA_E_ARGUMENT, "log_level is 6")                                                 \
    X(mode_high, o->mode = 5, GDPA_E_ARGUMENT, "mode is 5; legal are GDPA_MODE_DEFAULT (0) to GDPA_MODE_OFF (4)")      \
    X(capture_high, o->capture = 3, GDPA_E_ARGUMENT, "capture is 3; legal are GDPA_CAPTURE_DEFAULT (0)")               \
    X(jobs_low, o->jobs = -1, GDPA_E_ARGUMENT, "jobs is -1; legal are 0 to 1024")                                      \
    X(mode_low, o->mode = -3, GDPA_E_ARGUMENT, "mode is -3")                                                           \
    X(free_missing, o->allocator.alloc = never_alloc, GDPA_E_ARGUMENT, "allocator.free is NULL, but allocator.alloc")  \
    X(alloc_missing, o->allocator.free = never_free, GDPA_E_ARGUMENT, "allocator.alloc is NULL, but allocator.free")   \
    X(no_memory, o->allocator.alloc = never_alloc;                                                                     \
      o->allocator.free = never_free, GDPA_E_MEMORY, "no memory for a context")

#define CHANGE(name, change, status, text)                                                                             \
    static void change_##name(gdpa_ctx_options *o)                                                                     \
    {                                                                                                                  \
        change;                                                                                                        \
    }
BAD_OPTIONS(CHANGE)
#define ROW(name, change, status, text) {#name, change_##name, status, text},

static void every_bad_option_is_refused_by_name_and_value(void **state)
{
    (void)state;
    static const struct bad_option cases[] = {BAD_OPTIONS(ROW)};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        gdpa_ctx_options options = GDPA_CTX_OPTIONS_INIT;
        gdpa_ctx *ctx = NULL;
        cases[i].change(&options);
        expect_failure(gdpa_ctx_create(&options, &ctx), cases[i].status, cases[i].text);
        assert_null(ctx);
    }
    expect_failure(gdpa_ctx_create(NULL, NULL), GDPA_E_ARGUMENT, "ctx is NULL");
    expect_failure(gdpa_ctx_default(NULL), GDPA_E_ARGUMENT, "ctx is NULL");
}

static void every_bad_variable_is_refused_by_name_and_value(void **state)
{
    (void)state;
    static const struct {
        const char *name, *value, *text;
    } cases[] = {{"GDPAJIT_MODE", "stric", "GDPAJIT_MODE is \"stric\"; legal are auto, readonly, strict and off"},
                 {"GDPAJIT_MODE", "default", "GDPAJIT_MODE is \"default\""},
                 {"GDPAJIT_CACHE_LIMIT", "lots", "GDPAJIT_CACHE_LIMIT is \"lots\"; it must be a number of bytes"},
                 {"GDPAJIT_CACHE_SHARED", "1", "GDPAJIT_CACHE_SHARED is \"1\"; legal are yes and no"},
                 {"GDPAJIT_CAPTURE", "global", "GDPAJIT_CAPTURE is \"global\"; legal are relaxed and strict"},
                 {"GDPAJIT_JOBS", "0", "GDPAJIT_JOBS is \"0\"; it must be a number from 1 to 1024"},
                 {"GDPAJIT_JOBS", "all", "GDPAJIT_JOBS is \"all\""},
                 {"GDPAJIT_CACHE_WAIT", "-1", "GDPAJIT_CACHE_WAIT is \"-1\"; it must be a number of seconds"},
                 {"GDPAJIT_CACHE_WAIT", "2m", "GDPAJIT_CACHE_WAIT is \"2m\""},
                 {"GDPAJIT_LOG", "warn,cache=all", "GDPAJIT_LOG is \"warn,cache=all\": log level \"all\""}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        gdpa_ctx *ctx = NULL;
        setenv(cases[i].name, cases[i].value, 1);
        expect_failure(gdpa_ctx_create(NULL, &ctx), GDPA_E_ARGUMENT, cases[i].text);
        assert_null(ctx);
        unsetenv(cases[i].name);
    }
}

static void limit_and_wait_of_the_cache_come_from_option_variable_or_default(void **state)
{
    (void)state;
    static const struct {
        int64_t limit;
        int32_t wait;
        const char *limit_text, *wait_text;
        int64_t limit_found, wait_found;
    } cases[] = {{0, 0, NULL, NULL, INT64_C(1) << 30, 120},
                 {0, 0, "2k", "7", 2048, 7},
                 {0, 0, "0", "0", 0, 0},
                 {5000, 3, "2k", "7", 5000, 3},
                 {-1, -1, "2k", "7", 0, 0}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        gdpa_ctx_options options = GDPA_CTX_OPTIONS_INIT;
        options.cache_limit_bytes = cases[i].limit;
        options.cache_wait_s = cases[i].wait;
        if (cases[i].limit_text != NULL) {
            setenv("GDPAJIT_CACHE_LIMIT", cases[i].limit_text, 1);
            setenv("GDPAJIT_CACHE_WAIT", cases[i].wait_text, 1);
        }
        gdpa_ctx *ctx = created(&options);
        assert_int_equal(ctx->cache_limit, cases[i].limit_found);
        assert_int_equal(ctx->cache_wait_ns, cases[i].wait_found * 1000000000);
        gdpa_ctx_destroy(ctx);
        unsetenv("GDPAJIT_CACHE_LIMIT");
        unsetenv("GDPAJIT_CACHE_WAIT");
    }
}

static void options_win_over_variables(void **state)
{
    (void)state;
    setenv("GDPAJIT_MODE", "strict", 1);
    setenv("GDPAJIT_CACHE_DIR", "/from/variable", 1);
    setenv("GDPAJIT_LOG", "debug", 1);
    gdpa_ctx *ctx = created(NULL);
    assert_int_equal(ctx->mode, GDPA_MODE_STRICT);
    assert_string_equal(ctx->mode_origin, "GDPAJIT_MODE");
    assert_string_equal(ctx->cache_dir.value, "/from/variable");
    assert_string_equal(ctx->cache_dir.origin, "GDPAJIT_CACHE_DIR");
    assert_true(log_wants(&ctx->log, GDPA_LOG_DEBUG, LOG_CACHE));
    gdpa_ctx_destroy(ctx);
    gdpa_ctx_options options = GDPA_CTX_OPTIONS_INIT;
    options.mode = GDPA_MODE_OFF;
    options.cache_dir = "/from/option";
    options.log_level = GDPA_LOG_ERROR;
    ctx = created(&options);
    assert_int_equal(ctx->mode, GDPA_MODE_OFF);
    assert_string_equal(ctx->cache_dir.value, "/from/option");
    assert_false(log_wants(&ctx->log, GDPA_LOG_WARN, LOG_CACHE));
    gdpa_ctx_destroy(ctx);
    unsetenv("GDPAJIT_MODE");
    unsetenv("GDPAJIT_CACHE_DIR");
    unsetenv("GDPAJIT_LOG");
}

static char *home_keep(void)
{
    const char *home = getenv("HOME");
    return home != NULL ? strdup(home) : NULL;
}

static void the_cache_folder_follows_the_variables_of_the_desktop(void **state)
{
    (void)state;
    static const struct {
        const char *xdg, *home, *folder;
    } cases[] = {{"/xdg", "/home/x", "/xdg/gdpajit"},
                 {NULL, "/home/x", "/home/x/.cache/gdpajit"},
                 {"relative", "/home/x", "/home/x/.cache/gdpajit"},
                 {NULL, "relative", NULL},
                 {NULL, NULL, NULL}};
    char *home = home_keep();
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        unsetenv("XDG_CACHE_HOME");
        unsetenv("HOME");
        if (cases[i].xdg != NULL) {
            setenv("XDG_CACHE_HOME", cases[i].xdg, 1);
        }
        if (cases[i].home != NULL) {
            setenv("HOME", cases[i].home, 1);
        }
        gdpa_ctx *ctx = created(NULL);
        if (cases[i].folder == NULL) {
            assert_null(ctx->cache_dir.value);
        } else {
            assert_string_equal(ctx->cache_dir.value, cases[i].folder);
        }
        gdpa_ctx_destroy(ctx);
    }
    unsetenv("XDG_CACHE_HOME");
    if (home != NULL) {
        setenv("HOME", home, 1);
    }
    free(home);
}

static void without_any_folder_one_warning_says_what_to_set(void **state)
{
    (void)state;
    static struct captured_log log;
    captured_log_init(&log);
    char *home = home_keep();
    unsetenv("HOME");
    gdpa_ctx_options options = runtime_options(NULL);
    options.mode = GDPA_MODE_AUTO;
    options.log = captured_log_line;
    options.log_user = &log;
    gdpa_ctx *ctx = created(&options);
    assert_null(context_cache(ctx));
    assert_null(context_cache(ctx));
    assert_int_equal(log.lines, 1);
    expect_text(log.text, "kernels are kept in memory only");
    expect_text(log.text, "GDPAJIT_CACHE_DIR");
    gdpa_ctx_destroy(ctx);
    if (home != NULL) {
        setenv("HOME", home, 1);
    }
    free(home);
}

struct counting {
    atomic_int live, total, left; /* left: allocations until failure */
};

static void *counting_alloc(size_t bytes, void *user)
{
    struct counting *counting = user;
    if (atomic_fetch_sub(&counting->left, 1) <= 0) {
        return NULL;
    }
    atomic_fetch_add(&counting->live, 1);
    atomic_fetch_add(&counting->total, 1);
    return malloc(bytes);
}

static void counting_free(void *memory, void *user)
{
    struct counting *counting = user;
    atomic_fetch_sub(&counting->live, 1);
    free(memory);
}

static void all_memory_comes_from_the_allocator_and_goes_back(void **state)
{
    (void)state;
    char *folder = scratch_make();
    struct counting counting;
    atomic_init(&counting.live, 0);
    atomic_init(&counting.total, 0);
    atomic_init(&counting.left, 1 << 20);
    gdpa_ctx_options options = runtime_options(folder);
    options.allocator = (gdpa_allocator){counting_alloc, counting_free, &counting};
    gdpa_ctx *ctx = created(&options);
    gdpa_kernel *kernel = NULL;
    const gdpa_spec spec = runtime_spec("fwd head_dim=64 activation=relu arch=sm_90a");
    expect_ok(gdpa_kernel_get(ctx, &spec, &kernel));
    expect_ok(gdpa_kernel_prepare(kernel));
    assert_true(atomic_load(&counting.live) > 5);
    gdpa_kernel_release(kernel);
    gdpa_ctx_destroy(ctx);
    assert_int_equal(atomic_load(&counting.live), 0);
    scratch_remove(folder);
}

static void lack_of_memory_at_any_point_is_an_error_without_leaks(void **state)
{
    (void)state;
    const gdpa_spec spec = runtime_spec("fwd head_dim=64 activation=relu arch=sm_90a");
    bool worked = false;
    for (int left = 0; left < 200 && !worked; left++) {
        struct counting counting;
        atomic_init(&counting.live, 0);
        atomic_init(&counting.total, 0);
        atomic_init(&counting.left, left);
        gdpa_ctx_options options = runtime_options(NULL);
        options.allocator = (gdpa_allocator){counting_alloc, counting_free, &counting};
        gdpa_ctx *ctx = NULL;
        gdpa_kernel *kernel = NULL;
        gdpa_status status = gdpa_ctx_create(&options, &ctx);
        if (status == GDPA_OK) {
            status = gdpa_kernel_get(ctx, &spec, &kernel);
        }
        worked = status == GDPA_OK;
        if (!worked) {
            assert_int_equal(status, GDPA_E_MEMORY);
            assert_null(kernel);
            expect_text(gdpa_last_error(), "no memory");
        }
        gdpa_kernel_release(kernel);
        gdpa_ctx_destroy(ctx);
        assert_int_equal(atomic_load(&counting.live), 0);
    }
    assert_true(worked);
}

static void the_default_context_is_one_and_is_not_destroyed(void **state)
{
    (void)state;
    gdpa_ctx *first = NULL, *second = NULL;
    setenv("GDPAJIT_MODE", "wrong", 1);
    expect_failure(gdpa_ctx_default(&first), GDPA_E_ARGUMENT, "GDPAJIT_MODE");
    unsetenv("GDPAJIT_MODE"); /* a failure is not remembered */
    expect_ok(gdpa_ctx_default(&first));
    gdpa_ctx_destroy(first);
    expect_ok(gdpa_ctx_default(&second));
    assert_ptr_equal(first, second);
    gdpa_stats stats = {.size = sizeof stats};
    expect_ok(gdpa_ctx_stats(second, &stats));
}

static void a_kernel_that_is_held_outlives_its_context(void **state)
{
    (void)state;
    gdpa_ctx_options options = runtime_options(NULL);
    gdpa_ctx *ctx = created(&options);
    gdpa_kernel *kernel = NULL;
    const long loaded = fake_driver_control->loaded();
    const gdpa_spec spec = runtime_spec("fwd head_dim=64 activation=relu arch=sm_90a");
    expect_ok(gdpa_kernel_get(ctx, &spec, &kernel));
    gdpa_ctx_destroy(ctx);
    expect_ok(gdpa_kernel_prepare(kernel));
    assert_int_equal(fake_driver_control->loaded(), loaded + 1);
    gdpa_kernel_info info = {.size = sizeof info};
    expect_ok(gdpa_kernel_info_get(kernel, &info));
    assert_string_equal(info.target, "sm_90a");
    assert_ptr_equal(gdpa_kernel_retain(kernel), kernel);
    gdpa_kernel_release(kernel);
    gdpa_kernel_release(kernel);
    assert_int_equal(fake_driver_control->loaded(), loaded);
}

static void counters_have_the_size_of_the_caller(void **state)
{
    (void)state;
    gdpa_ctx *ctx = created(NULL);
    gdpa_stats stats = {.size = 0};
    expect_failure(gdpa_ctx_stats(ctx, &stats), GDPA_E_VERSION, "set size = sizeof(gdpa_stats)");
    expect_failure(gdpa_ctx_stats(NULL, &stats), GDPA_E_ARGUMENT, "ctx is NULL");
    expect_failure(gdpa_ctx_stats(ctx, NULL), GDPA_E_ARGUMENT, "stats is NULL");
    gdpa_ctx_destroy(ctx);
}

static void a_failed_opening_is_remembered_and_explained_each_time(void **state)
{
    (void)state;
    gdpa_ctx_options options = runtime_options(NULL);
    options.driver_path = "/nonexistent/libcuda.so";
    options.nvrtc_path = "/nonexistent/libnvrtc.so";
    gdpa_ctx *ctx = created(&options);
    const gdpa_spec spec = runtime_spec("fwd head_dim=64 activation=relu");
    for (int i = 0; i < 2; i++) {
        gdpa_kernel *kernel = NULL;
        expect_failure(gdpa_kernel_get(ctx, &spec, &kernel), GDPA_E_NO_DRIVER, "/nonexistent/libcuda.so");
        assert_null(kernel);
    }
    gdpa_ctx_destroy(ctx);
}

static void an_nvrtc_newer_than_the_driver_is_a_warning(void **state)
{
    (void)state;
    static struct captured_log log;
    captured_log_init(&log);
    gdpa_ctx_options options = runtime_options(NULL);
    options.log = captured_log_line;
    options.log_user = &log;
    fake_driver_control->version(12040);
    gdpa_ctx *ctx = created(&options);
    gdpa_kernel *kernel = NULL;
    const gdpa_spec spec = runtime_spec("fwd head_dim=64 activation=relu arch=sm_90a");
    expect_ok(gdpa_kernel_get(ctx, &spec, &kernel));
    expect_text(log.text, "is newer than the driver (CUDA 12.4), which may refuse its code");
    gdpa_kernel_release(kernel);
    gdpa_ctx_destroy(ctx);
}

static void a_log_file_that_cannot_be_opened_is_no_failure(void **state)
{
    (void)state;
    setenv("GDPAJIT_LOG_FILE", "/nonexistent/folder/log", 1);
    setenv("GDPAJIT_LOG", "none", 1);
    gdpa_ctx *ctx = created(NULL);
    gdpa_ctx_destroy(ctx);
    unsetenv("GDPAJIT_LOG_FILE");
    unsetenv("GDPAJIT_LOG");
}

static bool gets(gdpa_ctx *ctx, const char *text)
{
    gdpa_spec spec = GDPA_SPEC_INIT;
    gdpa_kernel *kernel = NULL;
    const bool good = gdpa_spec_parse(text, &spec) == GDPA_OK && gdpa_kernel_get(ctx, &spec, &kernel) == GDPA_OK;
    gdpa_kernel_release(kernel);
    return good;
}

static void a_context_may_be_used_on_both_sides_of_a_fork(void **state)
{
    (void)state;
    char *folder = scratch_make();
    const gdpa_ctx_options options = runtime_options(folder);
    gdpa_ctx *ctx = created(&options);
    assert_true(gets(ctx, "fwd head_dim=64 activation=relu arch=sm_80"));
    const pid_t child = fork();
    if (child == 0) {
        const bool good = gets(ctx, "fwd head_dim=64 activation=relu arch=sm_80") &&
                          gets(ctx, "fwd head_dim=64 activation=silu arch=sm_80");
        _exit(good ? 0 : 1);
    }
    assert_true(gets(ctx, "fwd head_dim=64 activation=gelu arch=sm_80"));
    int status = -1;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    gdpa_ctx_destroy(ctx);
    ctx = created(&options); /* what the child made is on disk */
    assert_true(gets(ctx, "fwd head_dim=64 activation=silu arch=sm_80"));
    assert_int_equal(fake_nvrtc_control->calls("nvrtcCompileProgram"), 2);
    gdpa_ctx_destroy(ctx);
    scratch_remove(folder);
}

#define TEST(name) cmocka_unit_test_setup(name, fakes_reset)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_context_needs_nothing_and_opens_nothing),
        TEST(every_bad_option_is_refused_by_name_and_value),
        TEST(every_bad_variable_is_refused_by_name_and_value),
        TEST(limit_and_wait_of_the_cache_come_from_option_variable_or_default),
        TEST(options_win_over_variables),
        TEST(the_cache_folder_follows_the_variables_of_the_desktop),
        TEST(without_any_folder_one_warning_says_what_to_set),
        TEST(all_memory_comes_from_the_allocator_and_goes_back),
        TEST(lack_of_memory_at_any_point_is_an_error_without_leaks),
        TEST(the_default_context_is_one_and_is_not_destroyed),
        TEST(a_kernel_that_is_held_outlives_its_context),
        TEST(counters_have_the_size_of_the_caller),
        TEST(a_failed_opening_is_remembered_and_explained_each_time),
        TEST(an_nvrtc_newer_than_the_driver_is_a_warning),
        TEST(a_context_may_be_used_on_both_sides_of_a_fork),
        TEST(a_log_file_that_cannot_be_opened_is_no_failure),
    };
    return cmocka_run_group_tests(tests, fakes_load, NULL);
}
