/*
 * parallel_for: the items 0 .. count-1 on several threads, taken one by one from a shared counter.
 */
#ifndef GDPA_TESTS_SUPPORT_PARALLEL_H
#define GDPA_TESTS_SUPPORT_PARALLEL_H

#include <stdint.h>

enum {
    PARALLEL_MAX_THREADS = 256,
};

/* Processors this process may use, at least 1. */
int parallel_processors(void);

/* Threads that parallel_for uses at most: threads, or one a processor when it is 0, and never more than items. */
int parallel_threads(int64_t count, int threads);

/*
 * Calls work(item, thread, user) once for every item; thread counts from 0 and is below parallel_threads(). Runs on the
 * calling thread alone when no other can be started. Returns when all items are done.
 */
void parallel_for(int64_t count, int threads, void (*work)(int64_t item, int thread, void *user), void *user);

#endif
