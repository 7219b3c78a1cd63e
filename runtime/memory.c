/*
 * Host memory through the caller's allocator; see memory.h.
 */
#include "runtime/memory.h"

#include <stdlib.h>
#include <string.h>

static void *default_alloc(size_t bytes, void *user)
{
    (void)user;
    return malloc(bytes);
}

static void default_free(void *memory, void *user)
{
    (void)user;
    free(memory);
}

gdpa_allocator memory_allocator(const gdpa_allocator *wanted)
{
    if (wanted->alloc != NULL) {
        return *wanted;
    }
    return (gdpa_allocator){.alloc = default_alloc, .free = default_free, .user = NULL};
}

void *memory_alloc(const gdpa_allocator *allocator, size_t bytes)
{
    void *memory = allocator->alloc(bytes == 0 ? 1 : bytes, allocator->user);
    if (memory != NULL) {
        memset(memory, 0, bytes);
    }
    return memory;
}

void memory_free(const gdpa_allocator *allocator, void *memory)
{
    if (memory != NULL) {
        allocator->free(memory, allocator->user);
    }
}

char *memory_copy(const gdpa_allocator *allocator, const char *bytes, size_t length)
{
    char *copy = memory_alloc(allocator, length + 1);
    if (copy != NULL && length > 0) {
        memcpy(copy, bytes, length);
    }
    return copy;
}

char *memory_text(const gdpa_allocator *allocator, const char *text)
{
    return memory_copy(allocator, text, strlen(text));
}
