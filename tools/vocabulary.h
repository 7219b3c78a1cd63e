/*
 * The words of a spec, from the tables of gen/: what an option is called, which values it takes and which one is in effect.
 */
#ifndef GDPA_TOOLS_VOCABULARY_H
#define GDPA_TOOLS_VOCABULARY_H

#include "include/gdpajit.h"

#include <stdbool.h>
#include <stddef.h>

/* One option of a spec. "pass" is the first one, and the only one that stands as a bare value. */
struct spec_word {
    const char *name, *aliases, *doc;
    const char *kind; /* "INT", "BOOL" or "CHOICE_" and a table */
    int lowest, highest;
    size_t offset; /* of the field in gdpa_spec */
};
extern const struct spec_word spec_words[];
extern const size_t spec_word_count;

/* By name or alias; NULL for a word that is none. */
const struct spec_word *spec_word_find(const char *name, size_t length);

/*
 * The legal values of a choice by index, NULL after the last one (and for an option that is no choice). *aliases (may be
 * NULL) gets its other names, separated by blanks.
 */
const char *spec_word_value(const struct spec_word *word, size_t index, const char **aliases);

/* The number that an option has in effect, with its default filled in. */
int spec_word_number(const struct spec_word *word, const gdpa_spec *spec);

/* "sm_80,90a,all" -> numbers of gen/archs.def, each once; malloced. False, with the reason, for an unknown one. */
bool arch_list_parse(const char *text, int **archs, size_t *count, char *why, size_t why_size);

/* What a chip offers its blocks; see gen/archs.def. */
struct arch_limits {
    int number;
    const char *target, *aliases, *description;
    int smem_block, smem_sm, regs_sm, warps_sm;
};
const struct arch_limits *arch_limits_find(int number); /* NULL for a number that is none */

#endif
