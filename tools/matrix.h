/*
 * The matrices that `verify` runs and `warm --matrix` compiles: lists of kernels, and of the shapes and data that each one
 * is run with. Everything is made from tables in matrix.c and shapes.c and is the same on every machine.
 */
#ifndef GDPA_TOOLS_MATRIX_H
#define GDPA_TOOLS_MATRIX_H

#include <stdbool.h>
#include <stddef.h>

struct matrix_row {
    const char *name; /* NULL ends the table */
    const char *doc;
};
extern const struct matrix_row matrices[];

/* Why *name* is none, with the names that are and the nearest one; at most capacity bytes. */
void matrix_unknown(const char *name, char *why, size_t capacity);

/*
 * Calls visit for the spec text of every kernel of a matrix, in order, no text twice. arch (may be NULL) is appended as
 * " arch=<arch>". False for an unknown name, or when visit returned false.
 */
bool matrix_specs(const char *name, const char *arch, bool (*visit)(const char *text, void *user), void *user);

/* Number of kernels; 0 for an unknown name. */
size_t matrix_count(const char *name);

/*
 * The names of the shapes (tools/shapes.h) that kernel number `index` of a matrix runs, as a bit set: bit n is row n of
 * the table of shapes.
 */
unsigned long long matrix_shapes(const char *name, size_t index);

#endif
