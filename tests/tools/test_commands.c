/*
 * commands: what the dispatch table promises of every row, and that parser, help, completion and examples agree on it.
 */
#include "tools/commands.h"
#include "tools/specs.h"
#include "tools/tool.h"

#include "tests/tools/cli_test.h"

/* Calls check for each option of a command, the common ones too. */
static void for_each_option(const struct command *command,
                            void (*check)(const struct command *command, const struct option_row *row))
{
    for (const struct option_row *row = command->options; row->name != NULL; row++) {
        check(command, row);
    }
    for (const struct option_row *row = common_options; row->name != NULL; row++) {
        check(command, row);
    }
}

static void check_option(const struct command *command, const struct option_row *row)
{
    bool has_value = row->kind != OPTION_FLAG;
    if (command_option(command, row->name) != row || strlen(row->doc) > 70 || row->doc[0] == 0 ||
        (row->values != NULL) != has_value) {
        fail_msg("%s --%s: hidden by another row, or its text is missing or too long", command->name, row->name);
    }
    bool is_number = row->kind == OPTION_INTEGER || row->kind == OPTION_NUMBER;
    assert_int_equal(row->lowest < row->highest, is_number);
    bool has_choices = row->values != NULL && strchr(row->values, '|') != NULL;
    assert_true(row->kind != OPTION_CHOICE || has_choices);
}

static void every_row_is_complete(void **state)
{
    (void)state;
    size_t count = 0;
    for (; commands[count] != NULL; count++) {
        const struct command *command = commands[count];
        assert_ptr_equal(command_find(command->name), command);
        assert_non_null(command->run);
        assert_non_null(command->options);
        assert_in_range(strlen(command->summary), 10, 70);
        assert_in_range(command->summary[0], 'a', 'z');
        assert_null(strchr(command->summary, '.'));
        assert_true(strstr(command->synopsis, "OPTIONS") != NULL);
        for_each_option(command, check_option);
    }
    assert_true(count >= 9);
    assert_null(command_find("no-such-command"));
    assert_null(command_find("help"));
}

static void no_letter_means_two_things(void **state)
{
    (void)state;
    for (size_t i = 0; commands[i] != NULL; i++) {
        char letters[64] = "";
        size_t count = 0;
        const struct option_row *const lists[] = {commands[i]->options, common_options};
        for (size_t k = 0; k < COUNT_OF(lists); k++) {
            for (const struct option_row *row = lists[k]; row->name != NULL; row++) {
                if (row->letter == 0) {
                    continue;
                }
                assert_null(strchr(letters, row->letter));
                letters[count++] = row->letter;
                letters[count] = 0;
            }
        }
    }
}

/* Splits at blanks; quotes keep words together; what follows > belongs to the shell. */
static int split(char *line, char **words, int limit)
{
    int count = 0;
    for (char *at = line; *at != 0 && count < limit;) {
        at += strspn(at, " ");
        char quote = *at == '\'' ? '\'' : ' ';
        at += quote == '\'' ? 1 : 0;
        if (*at == '>' || *at == '|' || *at == 0) {
            break;
        }
        words[count++] = at;
        char *end = strchr(at, quote);
        if (end == NULL) {
            break;
        }
        *end = 0;
        at = end + 1;
    }
    return count;
}

static void every_example_is_a_legal_line(void **state)
{
    (void)state;
    for (size_t i = 0; commands[i] != NULL; i++) {
        for (size_t k = 0; k < COUNT_OF(commands[i]->examples); k++) {
            char line[256];
            char *words[32] = {NULL};
            char why[512] = "";
            struct args args;
            assert_non_null(commands[i]->examples[k]);
            snprintf(line, sizeof line, "%s", commands[i]->examples[k]);
            int count = split(line, words, COUNT_OF(words));
            assert_non_null(words[0]);
            assert_string_equal(words[0], commands[i]->name);
            if (!args_parse(commands[i], count - 1, words + 1, &args, why, sizeof why)) {
                fail_msg("'%s': %s", commands[i]->examples[k], why);
            }
            if (commands[i]->verbs != NULL && args_verb(&args, why, sizeof why) == NULL) {
                fail_msg("'%s': %s", commands[i]->examples[k], why);
            }
            args_deinit(&args);
        }
    }
}

static char *help_of(const struct command *command)
{
    struct capture capture;
    capture_start(&capture);
    if (command == NULL) {
        help_print(capture.stream);
    } else {
        help_print_command(capture.stream, command);
    }
    return capture_end(&capture);
}

static void assert_fits(const char *name, const char *text)
{
    size_t lines = 0;
    for (const char *at = text; *at != 0; lines++) {
        size_t length = strcspn(at, "\n");
        if (length > 110) {
            fail_msg("help of %s: line %zu is %zu wide", name, lines + 1, length);
        }
        at += length + 1;
    }
    if (lines > 60) {
        fail_msg("help of %s has %zu lines", name, lines);
    }
}

static void help_has_every_word_and_at_most_sixty_lines(void **state)
{
    (void)state;
    char *whole = help_of(NULL);
    assert_fits("gdpa-jit", whole);
    for (size_t i = 0; commands[i] != NULL; i++) {
        char *text = help_of(commands[i]);
        assert_fits(commands[i]->name, text);
        assert_non_null(strstr(whole, commands[i]->summary));
        const struct option_row *const lists[] = {commands[i]->options, common_options};
        for (size_t k = 0; k < COUNT_OF(lists); k++) {
            for (const struct option_row *row = lists[k]; row->name != NULL; row++) {
                char *name = tool_format("--%s", row->name);
                assert_non_null(strstr(text, name));
                assert_non_null(strstr(text, row->doc));
                free(name);
            }
        }
        for (const struct verb_row *verb = commands[i]->verbs; verb != NULL && verb->name != NULL; verb++) {
            assert_non_null(strstr(text, verb->doc));
            assert_non_null(strstr(commands[i]->synopsis, verb->name));
        }
        free(text);
    }
    free(whole);
}

static void json_help_lists_what_the_tables_list(void **state)
{
    (void)state;
    json_t *report = help_json();
    json_t *array = json_object_get(report, "commands");
    size_t count = 0;
    for (; commands[count] != NULL; count++) {
        json_t *command = json_array_get(array, count);
        size_t options = 0;
        size_t verbs = 0;
        while (commands[count]->options[options].name != NULL) {
            options++;
        }
        while (commands[count]->verbs != NULL && commands[count]->verbs[verbs].name != NULL) {
            verbs++;
        }
        assert_string_equal(json_string_value(json_object_get(command, "name")), commands[count]->name);
        assert_int_equal(json_array_size(json_object_get(command, "options")), options);
        assert_int_equal(json_array_size(json_object_get(command, "words")), verbs);
    }
    assert_int_equal(json_array_size(array), count);
    json_decref(report);
}

static void the_presets_of_warm_are_those_of_the_table(void **state)
{
    (void)state;
    char *names = tool_strdup("");
    for (const struct preset_row *preset = presets; preset->name != NULL; preset++) {
        char *longer = tool_format("%s%s%s", names, preset == presets ? "" : "|", preset->name);
        free(names);
        names = longer;
    }
    assert_string_equal(command_option(&command_warm, "preset")->values, names);
    free(names);
}

static void mistyped_commands_are_recognised(void **state)
{
    (void)state;
    static const struct {
        const char *word, *command;
    } cases[] = {
        {"wram", "warm"},           {"lst", "list"},    {"veryfi", "verify"}, {"doc", "doctor"},
        {"complete", "completion"}, {"Bench", "bench"}, {"hlep", "help"},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        assert_non_null(command_nearest(cases[i].word));
        assert_string_equal(command_nearest(cases[i].word), cases[i].command);
    }
    assert_null(command_nearest("frobnicate"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_row_is_complete),
        cmocka_unit_test(no_letter_means_two_things),
        cmocka_unit_test(every_example_is_a_legal_line),
        cmocka_unit_test(help_has_every_word_and_at_most_sixty_lines),
        cmocka_unit_test(json_help_lists_what_the_tables_list),
        cmocka_unit_test(the_presets_of_warm_are_those_of_the_table),
        cmocka_unit_test(mistyped_commands_are_recognised),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
