/*
 * See trace.h. Nothing here is on the way of a hit: a kernel is traced when it is made or read from the disk.
 */
#include "runtime/trace.h"
#include "runtime/kernel_table.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void trace_init(struct trace *trace)
{
    memset(trace, 0, sizeof *trace);
    trace->file = -1;
    pthread_mutex_init(&trace->lock, NULL);
}

void trace_deinit(struct trace *trace)
{
    if (trace->file >= 0) {
        close(trace->file);
    }
    free(trace->written);
    pthread_mutex_destroy(&trace->lock);
}

static void hash_put(uint64_t *table, size_t capacity, uint64_t hash)
{
    size_t i = (size_t)hash & (capacity - 1);
    while (table[i] != 0 && table[i] != hash) {
        i = (i + 1) & (capacity - 1);
    }
    table[i] = hash;
}

static bool table_grow(struct trace *trace)
{
    const size_t capacity = trace->capacity == 0 ? 64 : 2 * trace->capacity;
    uint64_t *grown = calloc(capacity, sizeof *grown);
    if (grown == NULL) {
        return false;
    }
    for (size_t i = 0; i < trace->capacity; i++) {
        if (trace->written[i] != 0) {
            hash_put(grown, capacity, trace->written[i]);
        }
    }
    free(trace->written);
    trace->written = grown;
    trace->capacity = capacity;
    return true;
}

/* True the first time. Without memory every time: a line too many does no harm. */
static bool is_new(struct trace *trace, uint64_t hash)
{
    hash += hash == 0;
    if (2 * (trace->count + 1) > trace->capacity && !table_grow(trace)) {
        return true;
    }
    size_t i = (size_t)hash & (trace->capacity - 1);
    while (trace->written[i] != 0 && trace->written[i] != hash) {
        i = (i + 1) & (trace->capacity - 1);
    }
    if (trace->written[i] == hash) {
        return false;
    }
    trace->written[i] = hash;
    trace->count++;
    return true;
}

static bool line_write(struct trace *trace, const char *path, const gdpa_spec *spec)
{
    struct sbuf line;
    if (trace->file < 0) {
        trace->file = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOCTTY, 0600);
    }
    if (trace->file < 0) {
        return false;
    }
    sbuf_init(&line, 4096);
    spec_print(spec, &line);
    sbuf_addstr(&line, "\n");
    errno = ENOMEM;
    const bool good = !line.overflow && write(trace->file, line.text, line.length) == (ssize_t)line.length;
    sbuf_deinit(&line);
    return good;
}

bool trace_spec(struct trace *trace, const char *path, const gdpa_spec *normalised)
{
    pthread_mutex_lock(&trace->lock);
    bool good = true;
    if (!trace->failed && is_new(trace, kernel_table_hash(normalised))) {
        good = line_write(trace, path, normalised);
        trace->failed = !good;
    }
    pthread_mutex_unlock(&trace->lock);
    return good;
}
