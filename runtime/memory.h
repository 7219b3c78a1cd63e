/*
 * Host memory of objects that live: contexts, kernels and what belongs to them, from the allocator of the context.
 * (Working memory of one call, SQLite and the compiler use malloc.)
 */
#ifndef GDPA_RUNTIME_MEMORY_H
#define GDPA_RUNTIME_MEMORY_H

#include "include/gdpajit.h"

#include <stdbool.h>

/* The caller's, or malloc and free when it is all zero. */
gdpa_allocator memory_allocator(const gdpa_allocator *wanted);

/* Zeroed memory, or NULL. */
void *memory_alloc(const gdpa_allocator *allocator, size_t bytes);
void memory_free(const gdpa_allocator *allocator, void *memory);

/* A copy with a final 0 that `length` does not count; NULL for lack of memory. */
char *memory_copy(const gdpa_allocator *allocator, const char *bytes, size_t length);
char *memory_text(const gdpa_allocator *allocator, const char *text);

#endif
