/*
 * Templates line by line: directives, includes and include guards (the grammar is in templates/README.md). The one
 * implementation of the grammar: gen/embed.c checks with it what gen/assemble.c reads with it.
 */
#ifndef GDPA_GEN_TEMPLATE_H
#define GDPA_GEN_TEMPLATE_H

#include "gen/sbuf.h"

/* The files of a build. `id` is their version together with that of the generator: 32 hex digits. */
struct template_file {
    const char *path; /* relative to templates/ */
    const char *text;
    size_t length;
};
struct template_set {
    const struct template_file *files; /* ordered by path */
    size_t count;
    const char *id;
};

/* Written by gen/embed.c. */
extern const struct template_set embedded_templates;

const struct template_file *template_find(const struct template_set *set, const char *path, size_t length);

/* TEMPLATE_OPTION_causal and so on. */
enum template_option {
#define TEMPLATE_OPTION(name, value, doc) TEMPLATE_OPTION_##name,
#include "gen/template_options.def"
#undef TEMPLATE_OPTION
    TEMPLATE_OPTION_COUNT
};

enum template_line_kind {
    TEMPLATE_TEXT,
    TEMPLATE_DIRECTIVE,      /* //@if, //@else, //@endif */
    TEMPLATE_GUARD,          /* a line of the include guard, or #pragma once */
    TEMPLATE_INCLUDE,        /* #include "file" */
    TEMPLATE_INCLUDE_SYSTEM, /* #include <file> */
    TEMPLATE_END,
    TEMPLATE_ERROR,
};

struct template_line {
    const char *text; /* without the newline */
    size_t length;
    bool has_code;    /* something else than comment is in it */
    const char *file; /* of an include */
    size_t file_length;
};

enum { TEMPLATE_DEEPEST = 2 };

struct template_reader {
    const struct template_file *file;
    const bool *values; /* of the options, by enum template_option */
    size_t offset;
    int line; /* number of the line read last; 1 is the first */
    int depth;
    struct {
        int line; /* of the //@if */
        enum template_option option;
        bool negated, has_else;
    } passages[TEMPLATE_DEEPEST];
    bool guard_begins, guard_open; /* a guard was found and its #define comes next; its #endif has not come */
    bool code_seen;                /* a line that is neither blank nor comment was read */
    bool in_comment;
    int conditions; /* #if without their #endif, the guard's not counted */
};

/* `values` may change between lines, and must hold for the life of the reader. */
void template_open(struct template_reader *reader, const struct template_file *file, const bool *values);

/* Reads a line. On TEMPLATE_ERROR `why` says "path:line: what is wrong". */
enum template_line_kind template_next(struct template_reader *reader, struct template_line *line, struct sbuf *why);

/* Whether the line read last belongs to the source that `values` ask for. */
bool template_is_active(const struct template_reader *reader);

/* Whether the line read last is in a passage that is only there for this option. */
bool template_is_inside(const struct template_reader *reader, enum template_option option);

#endif
