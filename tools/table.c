/*
 * Tables of results; see table.h.
 */
#include "tools/table.h"

#include "tools/json.h"
#include "tools/term.h"
#include "tools/tool.h"

#include <stdlib.h>
#include <string.h>

struct cell {
    bool set;
    char *text;
    long long integer;
    double real;
};

struct table {
    const struct table_column *columns;
    size_t column_count;
    struct cell **rows;
    size_t row_count, row_capacity;
    size_t *chosen; /* columns to print */
    size_t chosen_count;
};

struct table *table_create(const struct table_column *columns, size_t count)
{
    struct table *table = tool_alloc(sizeof *table);
    table->columns = columns;
    table->column_count = count;
    table->rows = NULL;
    table->row_count = 0;
    table->row_capacity = 0;
    table->chosen = tool_alloc(count * sizeof *table->chosen);
    table->chosen_count = count;
    for (size_t i = 0; i < count; i++) {
        table->chosen[i] = i;
    }
    return table;
}

void table_truncate(struct table *table, size_t row_count)
{
    for (; table->row_count > row_count; table->row_count--) {
        struct cell *cells = table->rows[table->row_count - 1];
        for (size_t i = 0; i < table->column_count; i++) {
            free(cells[i].text);
        }
        free(cells);
    }
}

void table_destroy(struct table *table)
{
    if (table == NULL) {
        return;
    }
    table_truncate(table, 0);
    free(table->rows);
    free(table->chosen);
    free(table);
}

void table_row(struct table *table)
{
    if (table->row_count == table->row_capacity) {
        table->row_capacity = table->row_capacity == 0 ? 64 : 2 * table->row_capacity;
        table->rows = tool_realloc(table->rows, table->row_capacity * sizeof *table->rows);
    }
    struct cell *cells = tool_alloc(table->column_count * sizeof *cells);
    memset(cells, 0, table->column_count * sizeof *cells);
    table->rows[table->row_count++] = cells;
}

size_t table_row_count(const struct table *table)
{
    return table->row_count;
}

const struct table_column *table_column_find(const struct table_column *columns, size_t count, const char *name)
{
    for (size_t i = 0; i < count; i++) {
        if (strcmp(columns[i].name, name) == 0) {
            return &columns[i];
        }
    }
    return NULL;
}

const char *table_column_nearest(const struct table_column *columns, size_t count, const char *name)
{
    struct nearest nearest = NEAREST_INIT(name);
    for (size_t i = 0; i < count; i++) {
        nearest_offer(&nearest, columns[i].name);
    }
    return nearest.best;
}

/* The cell of the last row; a column that is not there, or is of another kind, is a fault of this program. */
static struct cell *last_cell(struct table *table, const char *name, enum table_kind kind)
{
    const struct table_column *column = table_column_find(table->columns, table->column_count, name);
    if (column == NULL || column->kind != kind || table->row_count == 0) {
        fprintf(stderr, "gdpa-jit: fault: no cell of that kind in the column %s\n", name);
        abort();
    }
    return &table->rows[table->row_count - 1][column - table->columns];
}

void table_set_text(struct table *table, const char *column, const char *text)
{
    struct cell *cell = last_cell(table, column, TABLE_TEXT);
    free(cell->text);
    cell->text = text == NULL ? NULL : tool_strdup(text);
    cell->set = text != NULL;
}

void table_set_integer(struct table *table, const char *column, long long value)
{
    struct cell *cell = last_cell(table, column, TABLE_INTEGER);
    cell->integer = value;
    cell->set = true;
}

void table_set_real(struct table *table, const char *column, double value)
{
    struct cell *cell = last_cell(table, column, TABLE_REAL);
    cell->real = value;
    cell->set = true;
}

static int cell_compare(const struct cell *left, const struct cell *right, enum table_kind kind)
{
    if (kind == TABLE_TEXT) {
        return strcmp(left->text, right->text);
    }
    if (kind == TABLE_INTEGER) {
        return (left->integer > right->integer) - (left->integer < right->integer);
    }
    return (left->real > right->real) - (left->real < right->real);
}

/* Whether the row `later` belongs before `earlier`. */
static bool out_of_order(const struct cell *earlier, const struct cell *later, enum table_kind kind, bool descending)
{
    if (!earlier->set || !later->set) {
        return !earlier->set && later->set;
    }
    int order = cell_compare(earlier, later, kind);
    return descending ? order < 0 : order > 0;
}

/* Merges the sorted runs [0, middle) and [middle, count) of rows; stable. */
static void merge(struct cell **rows, size_t middle, size_t count, struct cell **scratch, size_t column,
                  enum table_kind kind, bool descending)
{
    size_t left = 0;
    size_t right = middle;
    for (size_t i = 0; i < count; i++) {
        bool take_right = left == middle ||
                          (right < count && out_of_order(&rows[left][column], &rows[right][column], kind, descending));
        scratch[i] = take_right ? rows[right++] : rows[left++];
    }
    memcpy(rows, scratch, count * sizeof *rows);
}

static void sort_rows(struct cell **rows, size_t count, struct cell **scratch, size_t column, enum table_kind kind,
                      bool descending)
{
    if (count < 2) {
        return;
    }
    size_t middle = count / 2;
    sort_rows(rows, middle, scratch, column, kind, descending);
    sort_rows(rows + middle, count - middle, scratch, column, kind, descending);
    merge(rows, middle, count, scratch, column, kind, descending);
}

bool table_sort(struct table *table, const char *name, bool descending)
{
    const struct table_column *column = table_column_find(table->columns, table->column_count, name);
    if (column == NULL) {
        return false;
    }
    struct cell **scratch = tool_alloc((table->row_count + 1) * sizeof *scratch);
    sort_rows(table->rows, table->row_count, scratch, (size_t)(column - table->columns), column->kind, descending);
    free(scratch);
    return true;
}

bool table_choose(struct table *table, const char *names, char *unknown, size_t unknown_size)
{
    if (names == NULL) {
        return true;
    }
    size_t count = 0;
    for (const char *at = names; *at != 0;) {
        size_t length = strcspn(at, ",");
        char name[64];
        snprintf(name, sizeof name, "%.*s", (int)length, at);
        const struct table_column *column = table_column_find(table->columns, table->column_count, name);
        if (column == NULL) {
            snprintf(unknown, unknown_size, "%s", name);
            return false;
        }
        size_t index = (size_t)(column - table->columns);
        bool repeated = false;
        for (size_t i = 0; i < count; i++) {
            repeated = repeated || table->chosen[i] == index;
        }
        if (!repeated) {
            table->chosen[count++] = index;
        }
        at += length + (at[length] == ',' ? 1 : 0);
    }
    table->chosen_count = count;
    return true;
}

static void format_cell(const struct cell *cell, const struct table_column *column, char *buffer, size_t size)
{
    if (!cell->set) {
        snprintf(buffer, size, "-");
    } else if (column->kind == TABLE_INTEGER) {
        snprintf(buffer, size, "%lld", cell->integer);
    } else if (column->kind == TABLE_REAL) {
        snprintf(buffer, size, "%.*f", column->decimals, cell->real);
    } else {
        snprintf(buffer, size, "%s", cell->text);
    }
}

static int column_width(const struct table *table, size_t index)
{
    char buffer[1024];
    size_t width = strlen(table->columns[index].name);
    for (size_t row = 0; row < table->row_count; row++) {
        format_cell(&table->rows[row][index], &table->columns[index], buffer, sizeof buffer);
        width = strlen(buffer) > width ? strlen(buffer) : width;
    }
    return (int)width;
}

/* Numbers stand to the right, texts to the left; nothing is padded at the end of a line. */
static void print_cell(FILE *out, const char *text, bool to_right, int width, bool last)
{
    if (to_right) {
        fprintf(out, "%*s", width, text);
    } else if (last) {
        fputs(text, out);
    } else {
        fprintf(out, "%-*s", width, text);
    }
    fputs(last ? "\n" : "  ", out);
}

void table_print(const struct table *table, FILE *out, bool color)
{
    int *widths = tool_alloc((table->chosen_count + 1) * sizeof *widths);
    for (size_t i = 0; i < table->chosen_count; i++) {
        widths[i] = column_width(table, table->chosen[i]);
    }
    fputs(color ? TERM_BOLD : "", out);
    for (size_t i = 0; i < table->chosen_count; i++) {
        const struct table_column *column = &table->columns[table->chosen[i]];
        bool last = i + 1 == table->chosen_count;
        if (last && color) {
            fprintf(out, "%*s%s\n", column->kind != TABLE_TEXT ? widths[i] : 0, column->name, TERM_RESET);
        } else {
            print_cell(out, column->name, column->kind != TABLE_TEXT, widths[i], last);
        }
    }
    for (size_t row = 0; row < table->row_count; row++) {
        for (size_t i = 0; i < table->chosen_count; i++) {
            const struct table_column *column = &table->columns[table->chosen[i]];
            char buffer[1024];
            format_cell(&table->rows[row][table->chosen[i]], column, buffer, sizeof buffer);
            print_cell(out, buffer, column->kind != TABLE_TEXT, widths[i], i + 1 == table->chosen_count);
        }
    }
    free(widths);
}

json_t *table_json(const struct table *table)
{
    json_t *array = json_array();
    for (size_t row = 0; row < table->row_count; row++) {
        json_t *object = json_object();
        for (size_t i = 0; i < table->chosen_count; i++) {
            const struct table_column *column = &table->columns[table->chosen[i]];
            const struct cell *cell = &table->rows[row][table->chosen[i]];
            if (!cell->set) {
                json_set(object, column->name, json_null());
            } else if (column->kind == TABLE_INTEGER) {
                json_set_integer(object, column->name, cell->integer);
            } else if (column->kind == TABLE_REAL) {
                json_set_real(object, column->name, cell->real);
            } else {
                json_set_text(object, column->name, cell->text);
            }
        }
        json_array_append_new(array, object);
    }
    return array;
}
