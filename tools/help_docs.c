/*
 * The reference part of docs/cli.md and of the man page, made from the rows of the commands; tests/cli/test_docs.sh holds
 * those files to it.
 */
#include "tools/args.h"
#include "tools/tool.h"

#include <stdlib.h>
#include <string.h>

enum { EXAMPLE_COUNT = sizeof(((struct command *)NULL)->examples) / sizeof(const char *) };

/* Text with a backslash before each of the letters. */
static void print_escaped(FILE *out, const char *text, const char *letters)
{
    for (; *text != 0; text++) {
        if (strchr(letters, *text) != NULL) {
            fputc('\\', out);
        }
        fputc(*text, out);
    }
}

/* ---------------------------------------------------------------------------------------------------------------
 * Markdown
 * ------------------------------------------------------------------------------------------------------------- */

static void markdown_options(FILE *out, const struct option_row *rows)
{
    if (rows->name == NULL) {
        return;
    }
    fputs("\n| option | meaning |\n|---|---|\n", out);
    for (const struct option_row *row = rows; row->name != NULL; row++) {
        fputs("| `", out);
        if (row->letter != 0) {
            fprintf(out, "-%c`, `", row->letter);
        }
        fprintf(out, "--%s", row->name);
        if (row->values != NULL) {
            fputc(' ', out);
            print_escaped(out, row->values, "|");
        }
        fputs("` | ", out);
        print_escaped(out, row->doc, "|<*");
        fputs(" |\n", out);
    }
}

static void markdown_command(FILE *out, const struct command *command)
{
    fprintf(out, "\n### %s\n\n", command->name);
    fprintf(out, "%c%s.\n\n```\ngdpa-jit %s %s\n```\n", command->summary[0] - 'a' + 'A', command->summary + 1,
            command->name, command->synopsis);
    if (command->details != NULL) {
        fputc('\n', out);
        print_escaped(out, command->details, "<*");
        fputc('\n', out);
    }
    if (command->verbs != NULL) {
        fputs("\n| word | meaning |\n|---|---|\n", out);
        for (const struct verb_row *verb = command->verbs; verb->name != NULL; verb++) {
            fprintf(out, "| `%s` | ", verb->name);
            print_escaped(out, verb->doc, "|<*");
            fputs(" |\n", out);
        }
    }
    markdown_options(out, command->options);
    fputs("\n```sh\n", out);
    for (size_t i = 0; i < EXAMPLE_COUNT; i++) {
        fprintf(out, "gdpa-jit %s\n", command->examples[i]);
    }
    fputs("```\n", out);
}

void help_print_markdown(FILE *out)
{
    fputs("\n### Options of every command\n", out);
    markdown_options(out, common_options);
    for (size_t i = 0; commands[i] != NULL; i++) {
        markdown_command(out, commands[i]);
    }
}

/* ---------------------------------------------------------------------------------------------------------------
 * scdoc
 * ------------------------------------------------------------------------------------------------------------- */

static const char scdoc_letters[] = "\\*_";

/* Lines of running text: none may start with what begins a list, a heading, a table or a comment. */
static void scdoc_text(FILE *out, const char *text)
{
    while (*text != 0) {
        int length = (int)strcspn(text, "\n");
        int blanks = (int)strspn(text, " ");
        char *line = tool_format("%.*s", length > blanks ? length - blanks : 0, text + blanks);
        fputs(strchr("-.#;|[]", line[0]) != NULL && line[0] != 0 ? "\\" : "", out);
        print_escaped(out, line, scdoc_letters);
        fputc('\n', out);
        free(line);
        text += length + (text[length] == '\n' ? 1 : 0);
    }
}

static void scdoc_options(FILE *out, const struct option_row *rows)
{
    for (const struct option_row *row = rows; row->name != NULL; row++) {
        fputc('\n', out);
        if (row->letter != 0) {
            fprintf(out, "*-%c*, ", row->letter);
        }
        fprintf(out, "*--%s*", row->name);
        if (row->values != NULL) {
            fprintf(out, " _%s_", row->values);
        }
        fputs("\n\t", out);
        print_escaped(out, row->doc, scdoc_letters);
        fputc('\n', out);
    }
}

static void scdoc_command(FILE *out, const struct command *command)
{
    fprintf(out, "\n## %s\n\n*gdpa-jit %s* ", command->name, command->name);
    print_escaped(out, command->synopsis, scdoc_letters);
    fprintf(out, "\n\n%c", command->summary[0] - 'a' + 'A');
    print_escaped(out, command->summary + 1, scdoc_letters);
    fputs(".\n", out);
    if (command->details != NULL) {
        fputc('\n', out);
        scdoc_text(out, command->details);
    }
    for (const struct verb_row *verb = command->verbs; verb != NULL && verb->name != NULL; verb++) {
        fprintf(out, "\n*%s*\n\t", verb->name);
        print_escaped(out, verb->doc, scdoc_letters);
        fputc('\n', out);
    }
    scdoc_options(out, command->options);
    fputs("\nExamples:\n\n```\n", out);
    for (size_t i = 0; i < EXAMPLE_COUNT; i++) {
        fprintf(out, "gdpa-jit %s\n", command->examples[i]);
    }
    fputs("```\n", out);
}

void help_print_scdoc(FILE *out)
{
    fputs("\n## Options of every command\n", out);
    scdoc_options(out, common_options);
    for (size_t i = 0; commands[i] != NULL; i++) {
        scdoc_command(out, commands[i]);
    }
}
