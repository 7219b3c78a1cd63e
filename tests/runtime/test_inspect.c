/*
 * Artifacts: from the generator, from memory and from the disk; buffers of every size; GDPAJIT_DUMP.
 */
#include "runtime/kernel.h"
#include "tests/support/runtime_fixture.h"

#include <sys/stat.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define SPEC "fwd head_dim=64 activation=relu arch=sm_80"

static gdpa_kernel *get(gdpa_ctx *ctx)
{
    gdpa_kernel *kernel = NULL;
    const gdpa_spec spec = runtime_spec(SPEC);
    expect_ok(gdpa_kernel_get(ctx, &spec, &kernel));
    return kernel;
}

/* The whole artifact, malloced. */
static char *artifact(gdpa_kernel *kernel, gdpa_artifact what, size_t *length)
{
    expect_failure(gdpa_kernel_artifact(kernel, what, NULL, 0, length), GDPA_E_BUFFER, "but the buffer only 0");
    char *data = malloc(*length + 1);
    assert_non_null(data);
    expect_ok(gdpa_kernel_artifact(kernel, what, data, *length + 1, length));
    return data;
}

static void expect_artifacts(gdpa_kernel *kernel)
{
    static const struct {
        gdpa_artifact what;
        const char *part;
    } cases[] = {{GDPA_ARTIFACT_SOURCE, "__global__"},
                 {GDPA_ARTIFACT_PLAN, "block_m: "},
                 {GDPA_ARTIFACT_PTX, ".target sm_80"},
                 {GDPA_ARTIFACT_LOG, "Used 42 registers"}};
    size_t length = 0;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char *text = artifact(kernel, cases[i].what, &length);
        assert_int_equal(strlen(text), length); /* ended by a 0 where there is room */
        expect_text(text, cases[i].part);
        free(text);
    }
    char *code = artifact(kernel, GDPA_ARTIFACT_CUBIN, &length);
    assert_memory_equal(code, "\177ELF", 4);
    free(code);
}

static void a_kernel_gives_all_its_artifacts_wherever_it_came_from(void **state)
{
    (void)state;
    char *folder = scratch_make();
    gdpa_ctx_options options = runtime_options(NULL);
    gdpa_ctx *ctx = runtime_context(&options);
    gdpa_kernel *kernel = get(ctx);
    expect_artifacts(kernel); /* nothing on disk: from memory */
    gdpa_kernel_release(kernel);
    gdpa_ctx_destroy(ctx);
    options = runtime_options(folder);
    for (int i = 0; i < 2; i++) { /* compiled, then from disk */
        ctx = runtime_context(&options);
        kernel = get(ctx);
        expect_artifacts(kernel);
        gdpa_kernel_release(kernel);
        gdpa_ctx_destroy(ctx);
    }
    scratch_remove(folder);
}

static void what_was_not_kept_is_not_found(void **state)
{
    (void)state;
    char *folder = scratch_make();
    const gdpa_ctx_options options = runtime_options(folder);
    gdpa_ctx *ctx = runtime_context(&options);
    gdpa_kernel *kernel = get(ctx);
    expect_ok(gdpa_cache_remove(ctx, NULL, NULL));
    size_t length = 77;
    expect_failure(gdpa_kernel_artifact(kernel, GDPA_ARTIFACT_PTX, NULL, 0, &length), GDPA_E_NOT_FOUND,
                   "the PTX of gdpa_fwd_sm80_d64_bf16_relu");
    assert_int_equal(length, 77);
    gdpa_kernel_release(kernel);
    gdpa_ctx_destroy(ctx);
    scratch_remove(folder);
}

static void a_buffer_is_filled_only_when_it_is_large_enough(void **state)
{
    (void)state;
    const gdpa_ctx_options options = runtime_options(NULL);
    gdpa_ctx *ctx = runtime_context(&options);
    gdpa_kernel *kernel = get(ctx);
    size_t length = 0;
    char *whole = artifact(kernel, GDPA_ARTIFACT_LOG, &length);
    char *buffer = malloc(length + 2);
    assert_non_null(buffer);
    for (size_t capacity = 0; capacity <= length + 1; capacity++) {
        size_t given = 0;
        memset(buffer, 'z', length + 2);
        const gdpa_status status = gdpa_kernel_artifact(kernel, GDPA_ARTIFACT_LOG, buffer, capacity, &given);
        assert_int_equal(given, length);
        if (capacity < length) {
            assert_int_equal(status, GDPA_E_BUFFER);
            assert_int_equal(buffer[0], 'z');
        } else {
            assert_int_equal(status, GDPA_OK);
            assert_memory_equal(buffer, whole, length);
            assert_int_equal(buffer[length], capacity > length ? '\0' : 'z');
        }
    }
    expect_ok(gdpa_kernel_artifact(kernel, GDPA_ARTIFACT_LOG, buffer, length + 1, NULL));
    expect_failure(gdpa_kernel_artifact(kernel, GDPA_ARTIFACT_LOG, NULL, length + 1, NULL), GDPA_E_ARGUMENT,
                   "the buffer is NULL");
    free(buffer);
    free(whole);
    gdpa_kernel_release(kernel);
    gdpa_ctx_destroy(ctx);
}

static void sources_and_plans_need_no_compiler_and_are_the_same_each_time(void **state)
{
    (void)state;
    const gdpa_spec spec = runtime_spec(SPEC);
    for (int what = GDPA_ARTIFACT_SOURCE; what <= GDPA_ARTIFACT_PLAN; what++) {
        size_t length = 0, again = 0;
        expect_failure(gdpa_generate(&spec, (gdpa_artifact)what, NULL, 0, &length), GDPA_E_BUFFER, "bytes");
        char *first = malloc(length + 1), *second = malloc(length + 1);
        assert_true(first != NULL && second != NULL);
        expect_ok(gdpa_generate(&spec, (gdpa_artifact)what, first, length + 1, &length));
        expect_ok(gdpa_generate(&spec, (gdpa_artifact)what, second, length + 1, &again));
        assert_int_equal(length, again);
        assert_string_equal(first, second);
        free(first);
        free(second);
    }
    assert_int_equal(fake_nvrtc_control->calls("nvrtcVersion"), 0);
    assert_int_equal(fake_driver_control->calls(NULL), 0);
}

static void bad_calls_are_refused(void **state)
{
    (void)state;
    gdpa_spec spec = runtime_spec(SPEC);
    char text[16];
    expect_failure(gdpa_generate(NULL, GDPA_ARTIFACT_SOURCE, text, 16, NULL), GDPA_E_ARGUMENT, "spec is NULL");
    expect_failure(gdpa_generate(&spec, GDPA_ARTIFACT_PTX, text, 16, NULL), GDPA_E_ARGUMENT,
                   "the PTX needs a compiler");
    expect_failure(gdpa_generate(&spec, (gdpa_artifact)0, text, 16, NULL), GDPA_E_ARGUMENT, "what is 0; legal are");
    expect_failure(gdpa_generate(&spec, (gdpa_artifact)6, text, 16, NULL), GDPA_E_ARGUMENT, "what is 6");
    expect_failure(gdpa_kernel_artifact(NULL, GDPA_ARTIFACT_PTX, text, 16, NULL), GDPA_E_ARGUMENT, "kernel is NULL");
    spec.arch = 0;
    expect_failure(gdpa_generate(&spec, GDPA_ARTIFACT_SOURCE, text, 16, NULL), GDPA_E_ARGUMENT, "arch is not given");
}

static void dumping_writes_every_artifact_into_the_folder(void **state)
{
    (void)state;
    static const char *const endings[] = {"cu", "plan", "ptx", "cubin", "log"};
    char *folder = scratch_make();
    char below[4200];
    snprintf(below, sizeof below, "%s/dump", folder);
    setenv("GDPAJIT_DUMP", below, 1);
    const gdpa_ctx_options options = runtime_options(NULL);
    gdpa_ctx *ctx = runtime_context(&options);
    unsetenv("GDPAJIT_DUMP");
    gdpa_kernel *kernel = get(ctx);
    for (size_t i = 0; i < sizeof endings / sizeof endings[0]; i++) {
        char path[8400];
        struct stat status;
        snprintf(path, sizeof path, "%s/%s.%s", below, kernel->name, endings[i]);
        assert_int_equal(stat(path, &status), 0);
        assert_true(status.st_size > 10);
    }
    gdpa_kernel_release(kernel);
    gdpa_ctx_destroy(ctx);
    scratch_remove(folder);
}

static void a_dump_that_cannot_be_written_is_a_warning(void **state)
{
    (void)state;
    static struct captured_log log;
    captured_log_init(&log);
    setenv("GDPAJIT_DUMP", "/nonexistent/folder", 1);
    gdpa_ctx_options options = runtime_options(NULL);
    options.log = captured_log_line;
    options.log_user = &log;
    gdpa_ctx *ctx = runtime_context(&options);
    unsetenv("GDPAJIT_DUMP");
    gdpa_kernel_release(get(ctx));
    expect_text(log.text, "GDPAJIT_DUMP: cannot write /nonexistent/folder/gdpa_fwd_sm80");
    gdpa_ctx_destroy(ctx);
}

#define TEST(name) cmocka_unit_test_setup(name, fakes_reset)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_kernel_gives_all_its_artifacts_wherever_it_came_from),
        TEST(what_was_not_kept_is_not_found),
        TEST(a_buffer_is_filled_only_when_it_is_large_enough),
        TEST(sources_and_plans_need_no_compiler_and_are_the_same_each_time),
        TEST(bad_calls_are_refused),
        TEST(dumping_writes_every_artifact_into_the_folder),
        TEST(a_dump_that_cannot_be_written_is_a_warning),
    };
    return cmocka_run_group_tests(tests, fakes_load, NULL);
}
