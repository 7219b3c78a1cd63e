/*
 * Log levels for each part, and where lines go.
 */
#include "runtime/log.h"
#include "tests/support/runtime_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static void levels_are_set_for_all_and_for_parts(void **state)
{
    (void)state;
    struct log log;
    log_init(&log);
    assert_true(log_wants(&log, GDPA_LOG_WARN, LOG_CACHE));
    assert_false(log_wants(&log, GDPA_LOG_INFO, LOG_CACHE));
    expect_ok(log_parse(&log, "error,cache=debug,compile=none", NULL));
    assert_true(log_wants(&log, GDPA_LOG_DEBUG, LOG_CACHE));
    assert_false(log_wants(&log, GDPA_LOG_WARN, LOG_DRIVER));
    assert_true(log_wants(&log, GDPA_LOG_ERROR, LOG_DRIVER));
    assert_false(log_wants(&log, GDPA_LOG_ERROR, LOG_COMPILE));
}

static void words_that_are_unknown_are_refused_and_change_nothing(void **state)
{
    (void)state;
    static const struct {
        const char *text, *error;
    } cases[] = {{"wran", "log level \"wran\" is not one of none, error, warn, info, debug; did you mean warn?"},
                 {"debug,caches=info",
                  "part of the log \"caches\" is not one of context, cache, compile, driver; did you mean cache?"},
                 {"cache=loud", "log level \"loud\""},
                 {"default", "log level \"default\""},
                 {"=debug", "part of the log \"\""}};
    struct log log;
    log_init(&log);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct sbuf why;
        sbuf_init(&why, 1024);
        assert_int_equal(log_parse(&log, cases[i].text, &why), GDPA_E_ARGUMENT);
        expect_text(why.text, cases[i].error);
        assert_false(log_wants(&log, GDPA_LOG_DEBUG, LOG_CACHE));
        sbuf_deinit(&why);
    }
}

static void a_function_gets_lines_without_newline_or_prefix(void **state)
{
    (void)state;
    static struct captured_log captured;
    struct log log;
    log_init(&log);
    captured_log_init(&captured);
    log.function = captured_log_line;
    log.user = &captured;
    log_write(&log, GDPA_LOG_WARN, LOG_COMPILE, "%d bytes", 7);
    log_write(&log, GDPA_LOG_INFO, LOG_COMPILE, "not wanted");
    assert_string_equal(captured.text, "3 compile: 7 bytes\n");
}

static void a_file_gets_whole_lines_and_its_name_may_hold_the_process(void **state)
{
    (void)state;
    struct log log;
    char *folder = scratch_make();
    char path[4200], real[4200], text[8200] = "";
    snprintf(path, sizeof path, "%s/log.%%p.txt", folder);
    snprintf(real, sizeof real, "%s/log.%ld.txt", folder, (long)getpid());
    log_init(&log);
    assert_true(log_open_file(&log, path));
    log_write(&log, GDPA_LOG_ERROR, LOG_DRIVER, "first");
    char longer[6000];
    memset(longer, 'x', sizeof longer - 1);
    longer[sizeof longer - 1] = '\0';
    log_write(&log, GDPA_LOG_ERROR, LOG_CACHE, "%s", longer);
    log_deinit(&log);
    FILE *file = fopen(real, "r");
    assert_non_null(file);
    const size_t length = fread(text, 1, sizeof text - 1, file);
    fclose(file);
    text[length] = '\0';
    expect_text(text, "gdpajit: error: driver: first\n");
    expect_text(text, "gdpajit: error: cache: xxx");
    assert_int_equal(text[length - 1], '\n');
    scratch_remove(folder);
}

static void a_file_that_cannot_be_opened_leaves_stderr(void **state)
{
    (void)state;
    struct log log;
    log_init(&log);
    assert_false(log_open_file(&log, "/nonexistent/folder/log"));
    assert_int_equal(log.file, STDERR_FILENO);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(levels_are_set_for_all_and_for_parts),
        cmocka_unit_test(words_that_are_unknown_are_refused_and_change_nothing),
        cmocka_unit_test(a_function_gets_lines_without_newline_or_prefix),
        cmocka_unit_test(a_file_gets_whole_lines_and_its_name_may_hold_the_process),
        cmocka_unit_test(a_file_that_cannot_be_opened_leaves_stderr),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
