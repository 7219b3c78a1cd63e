/*
 * Parsing of a command line against the row of its command; see args.h.
 */
#include "tools/args.h"

#include "tools/term.h"
#include "tools/tool.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

const struct option_row common_options[] = {
    {.name = "json", .kind = OPTION_FLAG, .doc = "results as JSON, one object a line"},
    {.name = "quiet", .letter = 'q', .kind = OPTION_FLAG, .doc = "errors and results only"},
    {.name = "verbose", .letter = 'v', .kind = OPTION_FLAG, .doc = "more on stderr; twice: what the library does"},
    {.name = "color",
     .kind = OPTION_CHOICE,
     .values = "auto|always|never",
     .doc = "colour; auto (default): on a terminal unless NO_COLOR is set"},
    {.name = "cache-dir",
     .kind = OPTION_TEXT,
     .values = "DIR",
     .doc = "folder of the kernel cache; default GDPAJIT_CACHE_DIR"},
    {.name = "help", .letter = 'h', .kind = OPTION_FLAG, .doc = "show this text"},
    {.name = NULL},
};

const struct command *command_find(const char *name)
{
    for (size_t i = 0; commands[i] != NULL; i++) {
        if (strcmp(commands[i]->name, name) == 0) {
            return commands[i];
        }
    }
    return NULL;
}

const char *command_nearest(const char *name)
{
    struct nearest nearest = NEAREST_INIT(name);
    for (size_t i = 0; commands[i] != NULL; i++) {
        nearest_offer(&nearest, commands[i]->name);
    }
    nearest_offer(&nearest, "help");
    return nearest.best;
}

static const struct option_row *row_by_name(const struct option_row *rows, const char *name, size_t length)
{
    for (; rows != NULL && rows->name != NULL; rows++) {
        if (strlen(rows->name) == length && strncmp(rows->name, name, length) == 0) {
            return rows;
        }
    }
    return NULL;
}

static const struct option_row *row_by_letter(const struct option_row *rows, char letter)
{
    for (; rows != NULL && rows->name != NULL; rows++) {
        if (rows->letter == letter) {
            return rows;
        }
    }
    return NULL;
}

const struct option_row *command_option(const struct command *command, const char *name)
{
    const struct option_row *row = row_by_name(command->options, name, strlen(name));
    return row != NULL ? row : row_by_name(common_options, name, strlen(name));
}

/* Reads the words of "auto|always|never" one by one; false after the last. */
static bool next_choice(const char **rest, char *word, size_t size)
{
    if (**rest == 0) {
        return false;
    }
    size_t length = strcspn(*rest, "|");
    snprintf(word, size, "%.*s", (int)length, *rest);
    *rest += length + ((*rest)[length] == '|' ? 1 : 0);
    return true;
}

static bool check_choice(const struct option_row *row, const char *text, char *why, size_t why_size)
{
    char word[64];
    char best[64] = "";
    struct nearest nearest = NEAREST_INIT(text);
    for (const char *rest = row->values; next_choice(&rest, word, sizeof word);) {
        if (strcmp(word, text) == 0) {
            return true;
        }
        nearest_offer(&nearest, word);
        if (nearest.best == word) {
            snprintf(best, sizeof best, "%s", word);
            nearest.best = best;
        }
    }
    char hint[96];
    snprintf(why, why_size, "--%s %s is not one of %s%s", row->name, text, row->values,
             nearest_hint(&nearest, hint, sizeof hint));
    return false;
}

static bool check_number(const struct option_row *row, const char *text, char *why, size_t why_size)
{
    char *end = NULL;
    errno = 0;
    double value = row->kind == OPTION_INTEGER ? (double)strtol(text, &end, 10) : strtod(text, &end);
    if (end == text || *end != 0 || errno != 0 || !(value >= (double)row->lowest && value <= (double)row->highest)) {
        snprintf(why, why_size, "--%s %s is not a %snumber from %ld to %ld", row->name, text,
                 row->kind == OPTION_INTEGER ? "whole " : "", row->lowest, row->highest);
        return false;
    }
    return true;
}

static bool add_value(struct args *args, const struct option_row *row, const char *text, char *why, size_t why_size)
{
    bool is_number = row->kind == OPTION_INTEGER || row->kind == OPTION_NUMBER;
    if (text != NULL && row->kind == OPTION_CHOICE && !check_choice(row, text, why, why_size)) {
        return false;
    }
    if (text != NULL && is_number && !check_number(row, text, why, why_size)) {
        return false;
    }
    args->values[args->value_count].row = row;
    args->values[args->value_count].text = text;
    args->value_count++;
    return true;
}

static bool unknown_option(const struct command *command, const char *name, size_t length, char *why, size_t why_size)
{
    char word[128];
    snprintf(word, sizeof word, "%.*s", (int)length, name);
    struct nearest nearest = NEAREST_INIT(word);
    for (const struct option_row *row = command->options; row != NULL && row->name != NULL; row++) {
        nearest_offer(&nearest, row->name);
    }
    for (const struct option_row *row = common_options; row->name != NULL; row++) {
        nearest_offer(&nearest, row->name);
    }
    if (nearest.best != NULL) {
        snprintf(why, why_size, "%s has no option --%s (did you mean --%s?)", command->name, word, nearest.best);
    } else {
        snprintf(why, why_size, "%s has no option --%s", command->name, word);
    }
    return false;
}

/* --name, --name=value, --name value. *index stays at the last argument used. */
static bool parse_long(struct args *args, int argc, char *const *argv, int *index, char *why, size_t why_size)
{
    const char *name = argv[*index] + 2;
    size_t length = strcspn(name, "=");
    const struct option_row *row = row_by_name(args->command->options, name, length);
    if (row == NULL) {
        row = row_by_name(common_options, name, length);
    }
    if (row == NULL) {
        return unknown_option(args->command, name, length, why, why_size);
    }
    if (row->kind == OPTION_FLAG) {
        if (name[length] == '=') {
            snprintf(why, why_size, "--%s takes no value", row->name);
            return false;
        }
        return add_value(args, row, NULL, why, why_size);
    }
    if (name[length] == '=') {
        return add_value(args, row, name + length + 1, why, why_size);
    }
    if (*index + 1 >= argc) {
        snprintf(why, why_size, "--%s needs a value: %s", row->name, row->values);
        return false;
    }
    *index += 1;
    return add_value(args, row, argv[*index], why, why_size);
}

/* -q, -qk, -j4, -j 4. */
static bool parse_letters(struct args *args, int argc, char *const *argv, int *index, char *why, size_t why_size)
{
    for (const char *letter = argv[*index] + 1; *letter != 0; letter++) {
        const struct option_row *row = row_by_letter(args->command->options, *letter);
        if (row == NULL) {
            row = row_by_letter(common_options, *letter);
        }
        if (row == NULL) {
            snprintf(why, why_size, "%s has no option -%c", args->command->name, *letter);
            return false;
        }
        if (row->kind == OPTION_FLAG) {
            if (!add_value(args, row, NULL, why, why_size)) {
                return false;
            }
            continue;
        }
        if (letter[1] != 0) {
            return add_value(args, row, letter + 1, why, why_size);
        }
        if (*index + 1 >= argc) {
            snprintf(why, why_size, "-%c needs a value: %s", *letter, row->values);
            return false;
        }
        *index += 1;
        return add_value(args, row, argv[*index], why, why_size);
    }
    return true;
}

bool args_parse(const struct command *command, int argc, char *const *argv, struct args *args, char *why,
                size_t why_size)
{
    size_t letters = 1;
    for (int i = 0; i < argc; i++) {
        letters += strlen(argv[i]) + 1;
    }
    args->command = command;
    args->values = tool_alloc(letters * sizeof *args->values);
    args->words = tool_alloc(((size_t)argc + 1) * sizeof *args->words);
    args->value_count = 0;
    args->word_count = 0;
    bool options_end = false;
    for (int i = 0; i < argc; i++) {
        bool good = true;
        if (options_end || argv[i][0] != '-' || argv[i][1] == 0) {
            args->words[args->word_count++] = argv[i];
        } else if (strcmp(argv[i], "--") == 0) {
            options_end = true;
        } else if (argv[i][1] == '-') {
            good = parse_long(args, argc, argv, &i, why, why_size);
        } else {
            good = parse_letters(args, argc, argv, &i, why, why_size);
        }
        if (!good) {
            args_deinit(args);
            return false;
        }
    }
    return true;
}

void args_deinit(struct args *args)
{
    free(args->values);
    free((void *)args->words);
    args->values = NULL;
    args->words = NULL;
    args->value_count = 0;
    args->word_count = 0;
}

/* The option's row; a name that the command does not have is a fault of the program, not of its user. */
static const struct option_row *own_row(const struct args *args, const char *name)
{
    const struct option_row *row = command_option(args->command, name);
    if (row == NULL) {
        fprintf(stderr, "gdpa-jit: fault: %s asked for its option --%s, which is in no table\n", args->command->name,
                name);
        abort();
    }
    return row;
}

static const char *last_text(const struct args *args, const char *name)
{
    const struct option_row *row = own_row(args, name);
    const char *text = NULL;
    for (size_t i = 0; i < args->value_count; i++) {
        if (args->values[i].row == row) {
            text = args->values[i].text;
        }
    }
    return text;
}

size_t args_count(const struct args *args, const char *name)
{
    const struct option_row *row = own_row(args, name);
    size_t count = 0;
    for (size_t i = 0; i < args->value_count; i++) {
        count += args->values[i].row == row ? 1U : 0U;
    }
    return count;
}

bool args_flag(const struct args *args, const char *name)
{
    return args_count(args, name) > 0;
}

const char *args_text(const struct args *args, const char *name, const char *fallback)
{
    const char *text = last_text(args, name);
    return text != NULL ? text : fallback;
}

const char *args_repeat(const struct args *args, const char *name, size_t index)
{
    const struct option_row *row = own_row(args, name);
    for (size_t i = 0; i < args->value_count; i++) {
        if (args->values[i].row == row && index-- == 0) {
            return args->values[i].text;
        }
    }
    return NULL;
}

long args_integer(const struct args *args, const char *name, long fallback)
{
    const char *text = last_text(args, name);
    return text != NULL ? strtol(text, NULL, 10) : fallback;
}

double args_number(const struct args *args, const char *name, double fallback)
{
    const char *text = last_text(args, name);
    return text != NULL ? strtod(text, NULL) : fallback;
}

const struct verb_row *args_verb(const struct args *args, char *why, size_t why_size)
{
    const struct command *command = args->command;
    char names[256] = "";
    struct nearest nearest = NEAREST_INIT(args->word_count > 0 ? args->words[0] : "");
    for (const struct verb_row *verb = command->verbs; verb->name != NULL; verb++) {
        if (args->word_count > 0 && strcmp(verb->name, args->words[0]) == 0) {
            return verb;
        }
        nearest_offer(&nearest, verb->name);
        size_t length = strlen(names);
        snprintf(names + length, sizeof names - length, "%s%s", length == 0 ? "" : ", ", verb->name);
    }
    char hint[96];
    if (args->word_count == 0) {
        snprintf(why, why_size, "%s needs one of %s", command->name, names);
    } else {
        snprintf(why, why_size, "%s %s: not one of %s%s", command->name, args->words[0], names,
                 nearest_hint(&nearest, hint, sizeof hint));
    }
    return NULL;
}
