/*
 * Help texts, made from the rows of the commands; see args.h.
 */
#include "tools/args.h"
#include "tools/json.h"
#include "tools/tool.h"

#include <string.h>

enum { DOC_COLUMN = 28 }; /* where the explanation of an option starts */

static void print_padded(FILE *out, const char *left, const char *doc)
{
    if (strlen(left) < DOC_COLUMN - 2) {
        fprintf(out, "  %-*s%s\n", DOC_COLUMN - 2, left, doc);
    } else {
        fprintf(out, "  %s\n%*s%s\n", left, DOC_COLUMN, "", doc);
    }
}

static void print_options(FILE *out, const char *heading, const struct option_row *rows)
{
    if (rows == NULL || rows->name == NULL) {
        return;
    }
    fprintf(out, "\n%s\n", heading);
    for (const struct option_row *row = rows; row->name != NULL; row++) {
        char letter[8] = "    ";
        char left[128];
        if (row->letter != 0) {
            snprintf(letter, sizeof letter, "-%c, ", row->letter);
        }
        snprintf(left, sizeof left, "%s--%s%s%s", letter, row->name, row->values != NULL ? " " : "",
                 row->values != NULL ? row->values : "");
        print_padded(out, left, row->doc);
    }
}

static void print_exit_codes(FILE *out)
{
    fprintf(out, "\nExit status: 0 done; 1 some of it failed; 2 usage; 3 no usable GPU, driver or compiler;\n"
                 "4 cache trouble; 130 interrupted.\n");
}

void help_print_command(FILE *out, const struct command *command)
{
    fprintf(out, "gdpa-jit %s - %s\n\nUsage: gdpa-jit %s %s\n", command->name, command->summary, command->name,
            command->synopsis);
    if (command->details != NULL) {
        fprintf(out, "\n%s\n", command->details);
    }
    fprintf(out, "\nExamples:\n");
    for (size_t i = 0; i < sizeof command->examples / sizeof *command->examples; i++) {
        fprintf(out, "  gdpa-jit %s\n", command->examples[i]);
    }
    if (command->verbs != NULL) {
        fprintf(out, "\n%s:\n", "Words");
        for (const struct verb_row *verb = command->verbs; verb->name != NULL; verb++) {
            print_padded(out, verb->name, verb->doc);
        }
    }
    print_options(out, "Options:", command->options);
    print_options(out, "Common options:", common_options);
    print_exit_codes(out);
}

void help_print(FILE *out)
{
    fprintf(out,
            "gdpa-jit %s - attention kernels without softmax, generated, compiled and cached\n\n"
            "Usage: gdpa-jit COMMAND [OPTIONS] [SPEC...]\n"
            "       gdpa-jit help [COMMAND]\n"
            "       gdpa-jit --version\n\nCommands:\n",
            GDPA_VERSION_STRING);
    for (size_t i = 0; commands[i] != NULL; i++) {
        print_padded(out, commands[i]->name, commands[i]->summary);
    }
    fprintf(out, "\nA spec says which kernel is wanted, in any order:\n"
                 "  fwd head_dim=128 dtype=bf16 activation=silu causal arch=sm_90a\n"
                 "  head_dim=64,128 activation=relu,silu causal=0,1 (every combination, where many are taken)\n"
                 "\nExamples:\n"
                 "  gdpa-jit warm head_dim=64,128 activation=silu --arch sm_80,sm_90a\n"
                 "  gdpa-jit show source head_dim=128 activation=gelu arch=sm_90a\n"
                 "  gdpa-jit doctor\n");
    print_exit_codes(out);
}

static json_t *options_json(const struct option_row *rows)
{
    static const char *const kinds[] = {"flag", "text", "repeat", "integer", "number", "choice"};
    json_t *array = json_array();
    for (const struct option_row *row = rows; row != NULL && row->name != NULL; row++) {
        char letter[2] = {row->letter, 0};
        json_t *option = json_object();
        json_set_text(option, "name", row->name);
        json_set_text(option, "letter", row->letter != 0 ? letter : NULL);
        json_set_text(option, "kind", kinds[row->kind]);
        json_set_text(option, "values", row->values);
        json_set_text(option, "doc", row->doc);
        json_array_append_new(array, option);
    }
    return array;
}

static json_t *verbs_json(const struct verb_row *rows)
{
    json_t *array = json_array();
    for (const struct verb_row *row = rows; row != NULL && row->name != NULL; row++) {
        json_t *verb = json_object();
        json_set_text(verb, "name", row->name);
        json_set_text(verb, "doc", row->doc);
        json_array_append_new(array, verb);
    }
    return array;
}

json_t *help_json(void)
{
    json_t *report = json_report("help");
    json_t *array = json_array();
    for (size_t i = 0; commands[i] != NULL; i++) {
        json_t *command = json_object();
        json_set_text(command, "name", commands[i]->name);
        json_set_text(command, "summary", commands[i]->summary);
        json_set_text(command, "synopsis", commands[i]->synopsis);
        json_set(command, "words", verbs_json(commands[i]->verbs));
        json_set(command, "options", options_json(commands[i]->options));
        json_array_append_new(array, command);
    }
    json_set(report, "commands", array);
    json_set(report, "common_options", options_json(common_options));
    return report;
}
