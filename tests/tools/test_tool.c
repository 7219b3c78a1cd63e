/*
 * tool: exit codes of statuses, texts fetched whole, options that reach the context, interrupts.
 */
#include "tools/tool.h"

#include "tests/tools/cli_test.h"

#include <signal.h>

static void statuses_have_their_exit_codes(void **state)
{
    (void)state;
    static const struct {
        gdpa_status status;
        int code;
    } cases[] = {
        {GDPA_OK, EXIT_DONE},
        {GDPA_E_ARGUMENT, EXIT_USAGE},
        {GDPA_E_UNSUPPORTED, EXIT_USAGE},
        {GDPA_E_NO_DRIVER, EXIT_NO_DEVICE},
        {GDPA_E_NO_COMPILER, EXIT_NO_DEVICE},
        {GDPA_E_CACHE, EXIT_CACHE_TROUBLE},
        {GDPA_E_COMPILE, EXIT_SOME_FAILED},
        {GDPA_E_NOT_FOUND, EXIT_SOME_FAILED},
        {GDPA_E_INTERNAL, EXIT_SOME_FAILED},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        assert_int_equal(tool_exit_code(cases[i].status), cases[i].code);
    }
}

static gdpa_spec example_spec(void)
{
    gdpa_spec spec = GDPA_SPEC_INIT;
    spec.head_dim = 64;
    spec.activation = GDPA_ACTIVATION_RELU;
    spec.arch = 80;
    return spec;
}

static void texts_are_fetched_whole_and_end_in_a_zero(void **state)
{
    (void)state;
    gdpa_spec spec = example_spec();
    char *text = NULL;
    size_t length = 0;
    assert_int_equal(tool_spec_text(&spec, &text), GDPA_OK);
    assert_non_null(strstr(text, "head_dim=64"));
    free(text);
    assert_int_equal(tool_generate(&spec, GDPA_ARTIFACT_SOURCE, &text, &length), GDPA_OK);
    assert_int_equal(strlen(text), length);
    assert_true(length > 1000);
    free(text);
    assert_int_equal(tool_generate(&spec, GDPA_ARTIFACT_PLAN, &text, &length), GDPA_OK);
    assert_int_equal(strlen(text), length);
    free(text);
}

static void failures_leave_nothing_behind(void **state)
{
    (void)state;
    gdpa_spec spec = example_spec();
    char *text = NULL;
    size_t length = 42;
    spec.head_dim = 100;
    assert_int_equal(tool_spec_text(&spec, &text), GDPA_E_ARGUMENT);
    assert_int_equal(tool_generate(&spec, GDPA_ARTIFACT_SOURCE, &text, &length), GDPA_E_ARGUMENT);
    assert_null(text);
    assert_int_equal(length, 42);
}

static void tool_begin(struct tool *tool, const struct command *command, int argc, char **argv)
{
    char why[256];
    tool_init(tool);
    assert_true(args_parse(command, argc, argv, &tool->args, why, sizeof why));
    tool_start(tool);
}

static void common_options_are_read(void **state)
{
    (void)state;
    static const struct option_row none[] = {{.name = NULL}};
    static const struct command command = {.name = "try", .options = none};
    char *words[] = {(char *)"--json", (char *)"-vv", (char *)"-q", (char *)"--color=always"};
    struct tool tool;
    tool_begin(&tool, &command, COUNT_OF(words), words);
    assert_true(tool.json);
    assert_true(tool.quiet);
    assert_int_equal(tool.verbose, 2);
    assert_false(tool.color); /* JSON has none */
    tool_deinit(&tool);
    tool_begin(&tool, &command, 1, words + 3);
    assert_false(tool.json);
    assert_true(tool.color);
    tool_deinit(&tool);
}

static void the_context_has_the_cache_folder_of_the_option(void **state)
{
    (void)state;
    static const struct option_row none[] = {{.name = NULL}};
    static const struct command command = {.name = "try", .options = none};
    char *words[] = {(char *)"--cache-dir", (char *)"no-such-folder-of-a-test/cache", (char *)"-q"};
    struct tool tool;
    char *text = NULL;
    gdpa_ctx *off = NULL;
    tool_begin(&tool, &command, COUNT_OF(words), words);
    assert_int_equal(tool_context_create(&tool, GDPA_MODE_OFF, &off), GDPA_OK);
    gdpa_ctx_destroy(off);
    assert_int_equal(tool_context_create(&tool, GDPA_MODE_READONLY, &tool.ctx), GDPA_OK);
    assert_ptr_equal(tool_context(&tool), tool.ctx);
    assert_int_equal(tool_describe(tool.ctx, &text), GDPA_OK);
    assert_non_null(strstr(text, "no-such-folder-of-a-test/cache"));
    assert_non_null(strstr(text, "mode: readonly"));
    free(text);
    tool_deinit(&tool);
}

static void texts_are_formatted_to_their_length(void **state)
{
    (void)state;
    char *text = tool_format("%s-%0200d", "x", 7);
    assert_int_equal(strlen(text), 202);
    free(text);
    text = tool_format("%s", "");
    assert_string_equal(text, "");
    free(text);
}

static void an_interrupt_sets_a_flag_once(void **state)
{
    (void)state;
    assert_false(tool_interrupted());
    tool_catch_interrupts();
    assert_false(tool_interrupted());
    raise(SIGINT);
    assert_true(tool_interrupted());
    struct sigaction now;
    assert_int_equal(sigaction(SIGINT, NULL, &now), 0);
    assert_true(now.sa_handler == SIG_DFL); /* the second one ends the program */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(statuses_have_their_exit_codes),
        cmocka_unit_test(texts_are_fetched_whole_and_end_in_a_zero),
        cmocka_unit_test(failures_leave_nothing_behind),
        cmocka_unit_test(common_options_are_read),
        cmocka_unit_test(the_context_has_the_cache_folder_of_the_option),
        cmocka_unit_test(texts_are_formatted_to_their_length),
        cmocka_unit_test(an_interrupt_sets_a_flag_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
