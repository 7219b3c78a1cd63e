/*
 * The trace: a file that gets a line for each kernel that this process asked for, as `gdpa-jit warm --trace` reads it.
 * Lines are appended in one write each, so that many processes may share a file.
 */
#ifndef GDPA_RUNTIME_TRACE_H
#define GDPA_RUNTIME_TRACE_H

#include "gen/spec.h"

#include <pthread.h>

struct trace {
    pthread_mutex_t lock;
    uint64_t *written; /* hashes of the specs that have their line, an open-addressing table */
    size_t capacity, count;
    int file; /* -1: not opened */
    bool failed;
};

void trace_init(struct trace *trace);
void trace_deinit(struct trace *trace);

/* False, once, when the file cannot be opened or written (errno says why). Equal specs get one line. */
bool trace_spec(struct trace *trace, const char *path, const gdpa_spec *normalised);

#endif
