/*
 * The command line of gdpa-jit. A command is one row: name, summary, verbs, options, examples, function. The rows feed the
 * parser, --help, `gdpa-jit completion`, and the tests that hold the man page and docs/cli.md against them.
 *
 * Long options are --name VALUE or --name=VALUE, letters are -j 4 or -j4 and may be joined (-qk); -- ends the options.
 * Options come after the command, before, between or after its other words.
 */
#ifndef GDPA_TOOLS_ARGS_H
#define GDPA_TOOLS_ARGS_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

struct tool;

/* What gdpa-jit ends with. */
enum exit_code {
    EXIT_DONE = 0,
    EXIT_SOME_FAILED = 1,
    EXIT_USAGE = 2,
    EXIT_NO_DEVICE = 3, /* no usable GPU, driver or compiler */
    EXIT_CACHE_TROUBLE = 4,
    EXIT_INTERRUPTED = 130
};

enum option_kind {
    OPTION_FLAG,    /* stands alone; may be repeated */
    OPTION_TEXT,    /* any text; the last one counts */
    OPTION_REPEAT,  /* any text; every one counts, in order */
    OPTION_INTEGER, /* a whole number from lowest to highest */
    OPTION_NUMBER,  /* a decimal number from lowest to highest */
    OPTION_CHOICE   /* one of the words in `values` */
};

struct option_row {
    const char *name; /* without the dashes; NULL ends a list */
    char letter;      /* 0: none */
    enum option_kind kind;
    const char *values; /* "N", "FILE"; of a choice its words: "auto|always|never"; NULL for a flag */
    const char *doc;    /* one line of at most 70 characters, with the default */
    long lowest, highest;
};

/* A first word that a command chooses by, such as `source` in `gdpa-jit show source`. */
struct verb_row {
    const char *name; /* NULL ends a list */
    const char *doc;
};

struct command {
    const char *name;
    const char *summary;              /* one line, lower case, no full stop */
    const char *synopsis;             /* what follows "gdpa-jit NAME" */
    const char *details;              /* lines of at most 100 characters, or NULL */
    const struct verb_row *verbs;     /* NULL: none */
    const struct option_row *options; /* its own; the common ones below are added to every command */
    bool takes_specs;                 /* completion offers the words of a spec */
    const char *examples[3];          /* what follows "gdpa-jit " */
    int (*run)(struct tool *tool);    /* returns an enum exit_code */
};

/* --json --quiet --verbose --color --cache-dir --help, which every command has. */
extern const struct option_row common_options[];

/* Every command, in the order of the help text; NULL ends the list. In commands.c. */
extern const struct command *const commands[];

struct args_value {
    const struct option_row *row;
    const char *text; /* NULL for a flag */
};

/* A parsed command line. Texts point into argv. */
struct args {
    const struct command *command;
    struct args_value *values;
    size_t value_count;
    const char **words; /* what is no option */
    size_t word_count;
};

/* argv without the program's and the command's name. False, with the reason in why (a line), for a bad command line. */
bool args_parse(const struct command *command, int argc, char *const *argv, struct args *args, char *why,
                size_t why_size);
void args_deinit(struct args *args);

/* Values by option name; asking for a name that the command does not have aborts: that is a fault of this program. */
size_t args_count(const struct args *args, const char *name);
bool args_flag(const struct args *args, const char *name);
const char *args_text(const struct args *args, const char *name, const char *fallback);
const char *args_repeat(const struct args *args, const char *name, size_t index); /* NULL after the last one */
long args_integer(const struct args *args, const char *name, long fallback);
double args_number(const struct args *args, const char *name, double fallback);

const struct command *command_find(const char *name); /* NULL: unknown */
const char *command_nearest(const char *name);        /* NULL: nothing near */
const struct option_row *command_option(const struct command *command, const char *name);

/* The verb that the first word names; NULL, with the reason in why, when it is missing or unknown. */
const struct verb_row *args_verb(const struct args *args, char *why, size_t why_size);

/* At most 60 lines. */
void help_print(FILE *out);
void help_print_command(FILE *out, const struct command *command);
/* Every command, verb and option, as one object. */
json_t *help_json(void);
/* The same as the reference part of docs/cli.md and of the man page. */
void help_print_markdown(FILE *out);
void help_print_scdoc(FILE *out);

#endif
