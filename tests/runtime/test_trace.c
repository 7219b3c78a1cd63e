/*
 * The trace: a line for each distinct spec, from many threads and processes, good for `warm --trace`.
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
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static gdpa_ctx *context_traced(const char *path, gdpa_mode mode, struct captured_log *log)
{
    gdpa_ctx_options options = runtime_options(NULL);
    options.trace = path;
    options.mode = mode;
    if (log != NULL) {
        captured_log_init(log);
        options.log = captured_log_line;
        options.log_user = log;
    }
    return runtime_context(&options);
}

static gdpa_status ask(gdpa_ctx *ctx, const char *text)
{
    gdpa_kernel *kernel = NULL;
    const gdpa_spec spec = runtime_spec(text);
    const gdpa_status status = gdpa_kernel_get(ctx, &spec, &kernel);
    gdpa_kernel_release(kernel);
    return status;
}

static char *file_read(const char *path)
{
    static char text[1 << 16];
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    text[fread(text, 1, sizeof text - 1, file)] = '\0';
    fclose(file);
    return text;
}

static void each_distinct_spec_gets_one_line_that_can_be_parsed(void **state)
{
    (void)state;
    char *folder = scratch_make();
    char path[4200];
    snprintf(path, sizeof path, "%s/trace", folder);
    gdpa_ctx *ctx = context_traced(path, GDPA_MODE_OFF, NULL);
    for (int i = 0; i < 3; i++) {
        expect_ok(ask(ctx, "fwd head_dim=64 activation=relu arch=sm_80"));
        expect_ok(ask(ctx, "fwd head_dim=64 head_dim_v=64 dtype=bf16 activation=relu arch=sm_80")); /* the same */
        expect_ok(ask(ctx, "fwd head_dim=64 activation=silu causal arch=sm_90a"));
    }
    fake_nvrtc_control->fault("nvrtcCompileProgram", 6); /* what fails was asked for as well, and has one line */
    assert_int_equal(ask(ctx, "fwd head_dim=64 activation=gelu arch=sm_80"), GDPA_E_COMPILE);
    assert_int_equal(ask(ctx, "fwd head_dim=64 activation=gelu arch=sm_80"), GDPA_E_COMPILE);
    gdpa_ctx_destroy(ctx);
    int lines = 0;
    for (char *line = strtok(file_read(path), "\n"); line != NULL; line = strtok(NULL, "\n")) {
        runtime_spec(line);
        lines++;
    }
    assert_int_equal(lines, 3);
    scratch_remove(folder);
}

static void a_strict_miss_is_traced(void **state)
{
    (void)state;
    char *folder = scratch_make();
    char path[4200];
    snprintf(path, sizeof path, "%s/trace", folder);
    gdpa_ctx *ctx = context_traced(path, GDPA_MODE_STRICT, NULL);
    assert_int_equal(ask(ctx, "fwd head_dim=64 activation=relu arch=sm_80"), GDPA_E_NOT_READY);
    assert_string_equal(file_read(path), "fwd head_dim=64 dtype=bf16 activation=relu arch=sm_80\n");
    gdpa_ctx_destroy(ctx);
    scratch_remove(folder);
}

static void processes_append_whole_lines_to_one_file(void **state)
{
    (void)state;
    enum { PROCESSES = 8, SPECS = 20 };
    char *folder = scratch_make();
    char path[4200];
    snprintf(path, sizeof path, "%s/trace", folder);
    fflush(NULL);
    for (int i = 0; i < PROCESSES; i++) {
        if (fork() == 0) {
            gdpa_ctx *ctx = context_traced(path, GDPA_MODE_OFF, NULL);
            for (int j = 0; j < SPECS; j++) {
                char text[128];
                snprintf(text, sizeof text, "fwd head_dim=64 activation=relu window_left=%d arch=sm_80", j);
                if (ask(ctx, text) != GDPA_OK) {
                    _exit(1);
                }
            }
            _exit(0);
        }
    }
    for (int i = 0; i < PROCESSES; i++) {
        int status = 0;
        assert_true(wait(&status) > 0);
        assert_int_equal(status, 0);
    }
    int lines = 0;
    for (char *line = strtok(file_read(path), "\n"); line != NULL; line = strtok(NULL, "\n")) {
        runtime_spec(line);
        lines++;
    }
    assert_int_equal(lines, PROCESSES * SPECS);
    scratch_remove(folder);
}

static void a_trace_that_cannot_be_written_is_one_warning(void **state)
{
    (void)state;
    static struct captured_log log;
    setenv("GDPAJIT_TRACE", "/nowhere/at/all", 1);
    gdpa_ctx *ctx = context_traced(NULL, GDPA_MODE_OFF, &log);
    unsetenv("GDPAJIT_TRACE");
    expect_ok(ask(ctx, "fwd head_dim=64 activation=relu arch=sm_80"));
    expect_ok(ask(ctx, "fwd head_dim=64 activation=silu arch=sm_80"));
    expect_text(log.text, "the trace /nowhere/at/all (GDPAJIT_TRACE) is not written any more: No such file");
    assert_int_equal(log.lines, 1);
    gdpa_ctx_destroy(ctx);
}

#define TEST(name) cmocka_unit_test_setup(name, fakes_reset)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(each_distinct_spec_gets_one_line_that_can_be_parsed),
        TEST(a_strict_miss_is_traced),
        TEST(processes_append_whole_lines_to_one_file),
        TEST(a_trace_that_cannot_be_written_is_one_warning),
    };
    return cmocka_run_group_tests(tests, fakes_load, NULL);
}
