/*
 * gdpa-jit completion: scripts for the shells, made from the rows of the commands and the words of a spec, so that they
 * offer what this very program takes.
 */
#include "tools/commands.h"
#include "tools/json.h"
#include "tools/tool.h"
#include "tools/vocabulary.h"

#include <stdlib.h>
#include <string.h>

static const struct verb_row verbs[] = {
    {"bash", "source <(gdpa-jit completion bash)"},
    {"zsh", "write it to _gdpa-jit in a folder of $fpath"},
    {"fish", "write it to completions/gdpa-jit.fish of fish's folder"},
    {NULL, NULL},
};

static const struct option_row options[] = {
    {.name = NULL},
};

/* Text with a backslash before each of the letters that mean something at this place. */
static void print_escaped(FILE *out, const char *text, const char *letters)
{
    for (; *text != 0; text++) {
        if (strchr(letters, *text) != NULL) {
            fputc('\\', out);
        }
        fputc(*text, out);
    }
}

/* Text inside single quotes of sh and zsh, where nothing but the end of the quotes can be said with a backslash. */
static void print_quoted(FILE *out, const char *text, const char *letters)
{
    for (; *text != 0; text++) {
        if (*text == '\'') {
            fputs("'\\''", out);
            continue;
        }
        if (strchr(letters, *text) != NULL) {
            fputc('\\', out);
        }
        fputc(*text, out);
    }
}

/* The words of "auto|always|never" with blanks between them, or nothing when the values are no such list. */
static void print_choices(FILE *out, const struct option_row *row)
{
    if (row->values == NULL || strchr(row->values, '|') == NULL) {
        return;
    }
    for (const char *letter = row->values; *letter != 0; letter++) {
        fputc(*letter == '|' ? ' ' : *letter, out);
    }
}

static bool has_choices(const struct option_row *row)
{
    return row->values != NULL && strchr(row->values, '|') != NULL;
}

static bool names_file(const struct option_row *row)
{
    return row->values != NULL && strcmp(row->values, "FILE") == 0;
}

static bool names_folder(const struct option_row *row)
{
    return row->values != NULL && strcmp(row->values, "DIR") == 0;
}

typedef void (*option_printer)(FILE *out, const struct command *command, const struct option_row *row);

static void for_each_option(FILE *out, const struct command *command, option_printer print)
{
    for (const struct option_row *row = command->options; row->name != NULL; row++) {
        print(out, command, row);
    }
    for (const struct option_row *row = common_options; row->name != NULL; row++) {
        print(out, command, row);
    }
}

/* Every "option=" of a spec, and the words that stand alone. */
static void print_spec_words(FILE *out)
{
    for (size_t i = 0; i < spec_word_count; i++) {
        const struct spec_word *word = &spec_words[i];
        const char *value = NULL;
        if (strcmp(word->name, "pass") != 0) {
            fprintf(out, " %s%s", word->name, strcmp(word->kind, "BOOL") == 0 ? "" : "=");
            continue;
        }
        for (size_t k = 0; (value = spec_word_value(word, k, NULL)) != NULL; k++) {
            fprintf(out, " %s", value);
        }
    }
}

static void print_command_names(FILE *out)
{
    for (size_t i = 0; commands[i] != NULL; i++) {
        fprintf(out, "%s ", commands[i]->name);
    }
    fputs("help", out);
}

/* ---------------------------------------------------------------------------------------------------------------
 * bash
 * ------------------------------------------------------------------------------------------------------------- */

static void bash_option_name(FILE *out, const struct command *command, const struct option_row *row)
{
    (void)command;
    fprintf(out, " --%s", row->name);
}

static void bash_option_values(FILE *out, const struct command *command, const struct option_row *row)
{
    if (row->kind == OPTION_FLAG) {
        return;
    }
    fprintf(out, "    '%s --%s'", command->name, row->name);
    if (row->letter != 0) {
        fprintf(out, " | '%s -%c'", command->name, row->letter);
    }
    if (names_file(row)) {
        fputs(") kind=file ;;\n", out);
    } else if (names_folder(row)) {
        fputs(") kind=folder ;;\n", out);
    } else {
        fputs(") words='", out);
        print_choices(out, row);
        fputs("' ;;\n", out);
    }
}

static void bash_spec_values(FILE *out)
{
    for (size_t i = 0; i < spec_word_count; i++) {
        const struct spec_word *word = &spec_words[i];
        const char *value = NULL;
        if (spec_word_value(word, 0, NULL) == NULL || strcmp(word->name, "pass") == 0) {
            continue;
        }
        fprintf(out, "    %s=*) words='", word->name);
        for (size_t k = 0; (value = spec_word_value(word, k, NULL)) != NULL; k++) {
            fprintf(out, "%s%s=%s", k == 0 ? "" : " ", word->name, value);
        }
        fputs("' ;;\n", out);
    }
}

static void bash_command(FILE *out, const struct command *command)
{
    fprintf(out, "    %s) words='", command->name);
    for (const struct verb_row *verb = command->verbs; verb != NULL && verb->name != NULL; verb++) {
        fprintf(out, "%s ", verb->name);
    }
    for_each_option(out, command, bash_option_name);
    if (command->takes_specs) {
        print_spec_words(out);
    }
    fputs("' ;;\n", out);
}

static void print_bash(FILE *out)
{
    fputs("# bash completion of gdpa-jit; made by `gdpa-jit completion bash`\n"
          "_gdpa_jit()\n{\n"
          "    # The line is split at blanks alone: bash itself also splits at \"=\".\n"
          "    local line=\"${COMP_LINE:0:COMP_POINT}\"\n"
          "    local current=\"${line##* }\" words='' kind=words\n"
          "    local -a before\n"
          "    read -ra before <<< \"${line% *}\"\n"
          "    local command=\"${before[1]:-}\" previous=\"${before[${#before[@]} - 1]}\"\n"
          "    case \"$command\" in\n    '') words='",
          out);
    print_command_names(out);
    fputs(" --help --version' ;;\n    help) words='", out);
    print_command_names(out);
    fputs("' ;;\n", out);
    for (size_t i = 0; commands[i] != NULL; i++) {
        bash_command(out, commands[i]);
    }
    fputs("    esac\n    case \"$current\" in\n", out);
    bash_spec_values(out);
    fputs("    esac\n    case \"$command $previous\" in\n", out);
    for (size_t i = 0; commands[i] != NULL; i++) {
        for_each_option(out, commands[i], bash_option_values);
    }
    fputs("    esac\n"
          "    case \"$kind\" in\n"
          "    file) mapfile -t COMPREPLY < <(compgen -f -- \"$current\") ;;\n"
          "    folder) mapfile -t COMPREPLY < <(compgen -d -- \"$current\") ;;\n"
          "    *) mapfile -t COMPREPLY < <(compgen -W \"$words\" -- \"$current\") ;;\n"
          "    esac\n"
          "    if [[ ${#COMPREPLY[@]} -eq 1 && ${COMPREPLY[0]} == *= ]]; then\n"
          "        compopt -o nospace 2>/dev/null\n"
          "    fi\n"
          "    if [[ $current == *=* && $COMP_WORDBREAKS == *=* ]]; then\n"
          "        COMPREPLY=(\"${COMPREPLY[@]#\"${current%%=*}=\"}\")\n"
          "    fi\n"
          "}\n"
          "complete -F _gdpa_jit gdpa-jit\n",
          out);
}

/* ---------------------------------------------------------------------------------------------------------------
 * zsh
 * ------------------------------------------------------------------------------------------------------------- */

static void zsh_option(FILE *out, const struct command *command, const struct option_row *row)
{
    (void)command;
    const char *many = row->kind == OPTION_REPEAT || row->kind == OPTION_FLAG ? "*" : "";
    for (int form = row->letter != 0 ? 0 : 1; form < 2; form++) {
        if (form == 0) {
            fprintf(out, "            '%s-%c[", many, row->letter);
        } else {
            fprintf(out, "            '%s--%s[", many, row->name);
        }
        print_quoted(out, row->doc, "[]:\\");
        fputc(']', out);
        if (row->kind != OPTION_FLAG) {
            fprintf(out, ":%s:", has_choices(row) ? row->name : row->values);
            if (names_file(row)) {
                fputs("_files", out);
            } else if (names_folder(row)) {
                fputs("_files -/", out);
            } else if (has_choices(row)) {
                fputc('(', out);
                print_choices(out, row);
                fputc(')', out);
            }
        }
        fputs("' \\\n", out);
    }
}

static void zsh_command(FILE *out, const struct command *command)
{
    fprintf(out, "    %s)\n        _arguments \\\n", command->name);
    for_each_option(out, command, zsh_option);
    if (command->verbs != NULL) {
        fputs("            '1:word:((", out);
        for (const struct verb_row *verb = command->verbs; verb->name != NULL; verb++) {
            fprintf(out, "%s%s\\:\"", verb == command->verbs ? "" : " ", verb->name);
            print_quoted(out, verb->doc, ":\"$`()\\");
            fputc('"', out);
        }
        fputs("))' \\\n", out);
    }
    fprintf(out, "            '*:%s'\n        ;;\n", command->takes_specs ? "spec:_gdpa_jit_spec" : "argument: ");
}

static void zsh_spec(FILE *out)
{
    fputs("_gdpa_jit_spec()\n{\n    case \"$PREFIX\" in\n", out);
    for (size_t i = 0; i < spec_word_count; i++) {
        const struct spec_word *word = &spec_words[i];
        const char *value = NULL;
        if (spec_word_value(word, 0, NULL) == NULL || strcmp(word->name, "pass") == 0) {
            continue;
        }
        fprintf(out, "    %s=*) compset -P '*='; compadd --", word->name);
        for (size_t k = 0; (value = spec_word_value(word, k, NULL)) != NULL; k++) {
            fprintf(out, " %s", value);
        }
        fputs(" ;;\n", out);
    }
    fputs("    *) compadd -S '' --", out);
    print_spec_words(out);
    fputs(" ;;\n    esac\n}\n\n", out);
}

static void print_zsh(FILE *out)
{
    fputs("#compdef gdpa-jit\n# zsh completion of gdpa-jit; made by `gdpa-jit completion zsh`\n", out);
    zsh_spec(out);
    fputs("_gdpa_jit()\n{\n"
          "    if (( CURRENT == 2 )); then\n"
          "        local -a names=(\n",
          out);
    for (size_t i = 0; commands[i] != NULL; i++) {
        fprintf(out, "            '%s:", commands[i]->name);
        print_quoted(out, commands[i]->summary, ":\\");
        fputs("'\n", out);
    }
    fputs("            'help:explain a command'\n        )\n"
          "        _describe command names\n"
          "        return\n"
          "    fi\n"
          "    local command=\"${words[2]}\"\n"
          "    shift words\n"
          "    (( CURRENT-- ))\n"
          "    case \"$command\" in\n    help) compadd -- ",
          out);
    print_command_names(out);
    fputs(" ;;\n", out);
    for (size_t i = 0; commands[i] != NULL; i++) {
        zsh_command(out, commands[i]);
    }
    fputs("    esac\n}\n_gdpa_jit \"$@\"\n", out);
}

/* ---------------------------------------------------------------------------------------------------------------
 * fish
 * ------------------------------------------------------------------------------------------------------------- */

static void fish_option(FILE *out, const struct command *command, const struct option_row *row)
{
    fprintf(out, "complete -c gdpa-jit -n '__fish_seen_subcommand_from %s' -l %s", command->name, row->name);
    if (row->letter != 0) {
        fprintf(out, " -s %c", row->letter);
    }
    if (names_file(row) || names_folder(row)) {
        fputs(" -r -F", out);
    } else if (has_choices(row)) {
        fputs(" -x -a '", out);
        print_choices(out, row);
        fputc('\'', out);
    } else if (row->kind != OPTION_FLAG) {
        fputs(" -x", out);
    }
    fputs(" -d '", out);
    print_escaped(out, row->doc, "'\\");
    fputs("'\n", out);
}

static void fish_words(FILE *out, const char *command, const char *words, const char *doc)
{
    fprintf(out, "complete -c gdpa-jit -n '__fish_seen_subcommand_from %s' -a '%s'", command, words);
    if (doc != NULL) {
        fputs(" -d '", out);
        print_escaped(out, doc, "'\\");
        fputc('\'', out);
    }
    fputc('\n', out);
}

static void fish_spec(FILE *out, const char *command)
{
    for (size_t i = 0; i < spec_word_count; i++) {
        const struct spec_word *word = &spec_words[i];
        const char *value = NULL;
        bool is_pass = strcmp(word->name, "pass") == 0;
        for (size_t k = 0; (value = spec_word_value(word, k, NULL)) != NULL; k++) {
            char *text = is_pass ? tool_strdup(value) : tool_format("%s=%s", word->name, value);
            fish_words(out, command, text, NULL);
            free(text);
        }
        if (spec_word_value(word, 0, NULL) == NULL) {
            char *text = tool_format("%s%s", word->name, strcmp(word->kind, "BOOL") == 0 ? "" : "=");
            fish_words(out, command, text, word->doc);
            free(text);
        }
    }
}

static void print_fish(FILE *out)
{
    fputs("# fish completion of gdpa-jit; made by `gdpa-jit completion fish`\ncomplete -c gdpa-jit -f\n", out);
    for (size_t i = 0; commands[i] != NULL; i++) {
        const struct command *command = commands[i];
        fprintf(out, "complete -c gdpa-jit -n __fish_use_subcommand -a %s -d '", command->name);
        print_escaped(out, command->summary, "'\\");
        fputs("'\n", out);
        for (const struct verb_row *verb = command->verbs; verb != NULL && verb->name != NULL; verb++) {
            fish_words(out, command->name, verb->name, verb->doc);
        }
        for_each_option(out, command, fish_option);
        if (command->takes_specs) {
            fish_spec(out, command->name);
        }
    }
    fputs("complete -c gdpa-jit -n __fish_use_subcommand -a help -d 'explain a command'\n", out);
    fputs("complete -c gdpa-jit -n '__fish_seen_subcommand_from help' -a '", out);
    print_command_names(out);
    fputs("'\n", out);
}

static int run(struct tool *tool)
{
    static void (*const printers[])(FILE * out) = {print_bash, print_zsh, print_fish};
    char why[512];
    const struct verb_row *verb = args_verb(&tool->args, why, sizeof why);
    if (verb == NULL) {
        return tool_usage(tool, "%s", why);
    }
    if (tool->args.word_count > 1) {
        return tool_usage(tool, "completion takes one shell");
    }
    if (!tool->json) {
        printers[verb - verbs](stdout);
        return EXIT_DONE;
    }
    char *script = NULL;
    size_t length = 0;
    FILE *memory = open_memstream(&script, &length);
    if (memory == NULL) {
        tool_error(tool, "out of memory");
        return EXIT_SOME_FAILED;
    }
    printers[verb - verbs](memory);
    fclose(memory);
    json_t *report = json_report("completion");
    json_set_text(report, "shell", verb->name);
    json_set_text(report, "script", script);
    json_print(stdout, report);
    free(script);
    return EXIT_DONE;
}

const struct command command_completion = {
    .name = "completion",
    .summary = "completion scripts for bash, zsh and fish",
    .synopsis = "bash|zsh|fish [OPTIONS]",
    .details = NULL,
    .verbs = verbs,
    .options = options,
    .examples = {"completion bash > /etc/bash_completion.d/gdpa-jit", "completion zsh > ~/.zfunc/_gdpa-jit",
                 "completion fish > ~/.config/fish/completions/gdpa-jit.fish"},
    .run = run,
};
