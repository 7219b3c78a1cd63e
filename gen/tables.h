/*
 * The .def tables as data: options of a spec, and the names that each choice has.
 */
#ifndef GDPA_GEN_TABLES_H
#define GDPA_GEN_TABLES_H

#include "gen/spec.h"

enum option_kind {
    OPTION_KIND_INT,
    OPTION_KIND_BOOL,
    OPTION_KIND_CHOICE_PASS,
    OPTION_KIND_CHOICE_DTYPE,
    OPTION_KIND_CHOICE_ACTIVATION,
    OPTION_KIND_CHOICE_ALIGN,
    OPTION_KIND_CHOICE_LAYOUT,
    OPTION_KIND_CHOICE_SCHEDULE,
    OPTION_KIND_CHOICE_FAMILY,
    OPTION_KIND_CHOICE_ARCH,
};

/* OPTION_ID_head_dim and so on: the index of a row. */
enum option_id {
#define OPTION(field, kind, aliases, lowest, highest, step, doc) OPTION_ID_##field,
#include "gen/options.def"
#undef OPTION
    OPTION_COUNT
};

struct option_row {
    enum option_id id;
    const char *name, *aliases, *doc;
    enum option_kind kind;
    int32_t lowest, highest, step;
    size_t offset; /* of the field in gdpa_spec */
};

struct choice {
    int32_t number;
    const char *name, *aliases, *doc;
};

struct choice_table {
    const struct choice *rows;
    size_t count;
};

extern const struct option_row option_rows[OPTION_COUNT];

int32_t option_get(const struct option_row *row, const gdpa_spec *spec);
void option_set(const struct option_row *row, gdpa_spec *spec, int32_t value);

/* The row with this name or alias, or NULL. */
const struct option_row *option_find(const char *word, size_t length);

/* The names of a choice; an empty table for OPTION_KIND_INT and OPTION_KIND_BOOL. */
struct choice_table choice_table(enum option_kind kind);

/* The row with this number, or with this name or alias; NULL when there is none. */
const struct choice *choice_by_number(enum option_kind kind, int32_t number);
const struct choice *choice_by_word(enum option_kind kind, const char *word, size_t length);

/* Whether a value other than 0 (the default of most fields) is legal; if not, the reason and what is. */
gdpa_status option_check(const struct option_row *row, int32_t value, struct sbuf *why);

/* Returns status with the reason that no option has this name, the nearest one that exists, and all of them. */
gdpa_status option_unknown(const char *word, size_t length, gdpa_status status, struct sbuf *why);

/* Whether a space-separated list holds the word. */
bool word_list_has(const char *list, const char *word, size_t length);

#endif
