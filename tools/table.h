/*
 * A table of results: one model, two printers (aligned text, JSON array of objects). Cells are typed, so that sorting and
 * JSON see numbers.
 */
#ifndef GDPA_TOOLS_TABLE_H
#define GDPA_TOOLS_TABLE_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

enum table_kind { TABLE_TEXT, TABLE_INTEGER, TABLE_REAL };

struct table_column {
    const char *name; /* heading, JSON field and the word for --sort and --columns */
    enum table_kind kind;
    int decimals;    /* of TABLE_REAL, in text */
    const char *doc; /* one line */
};

struct table;

struct table *table_create(const struct table_column *columns, size_t count);
void table_destroy(struct table *table);

/* A row starts with table_row and holds nothing ("-", null) until it is set. */
void table_row(struct table *table);
void table_set_text(struct table *table, const char *column, const char *text);
void table_set_integer(struct table *table, const char *column, long long value);
void table_set_real(struct table *table, const char *column, double value);
size_t table_row_count(const struct table *table);
void table_truncate(struct table *table, size_t row_count); /* drops the rows after the first row_count */

/* Stable; empty cells last. Returns false for an unknown column. */
bool table_sort(struct table *table, const char *column, bool descending);

/* Names of columns to print, in order; NULL: all. False, with the word, when one is unknown. */
bool table_choose(struct table *table, const char *comma_separated, char *unknown, size_t unknown_size);

/* The column with this name or NULL, and the nearest name to a wrong one or NULL. */
const struct table_column *table_column_find(const struct table_column *columns, size_t count, const char *name);
const char *table_column_nearest(const struct table_column *columns, size_t count, const char *name);

void table_print(const struct table *table, FILE *out, bool color);
json_t *table_json(const struct table *table);

#endif
