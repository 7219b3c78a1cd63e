/*
 * Many items of work on several threads, with a limit of time for each. An item that takes too long is given up: its thread
 * cannot be stopped, so it is left alone, its result is dropped when it comes, and another thread takes its place.
 */
#ifndef GDPA_TOOLS_POOL_H
#define GDPA_TOOLS_POOL_H

#include <stdbool.h>
#include <stddef.h>

enum pool_state { POOL_WAITING, POOL_RUNNING, POOL_DONE, POOL_TIMED_OUT };

struct pool_work {
    size_t count;       /* items, numbered from 0, begun in order */
    int threads;        /* at least 1 */
    double timeout;     /* seconds an item; 0: no limit */
    size_t result_size; /* bytes */
    /* On a thread of its own; result is zeroed memory that belongs to this call. */
    void (*run)(size_t item, void *result, void *user);
    /* One at a time: an item is over. result is NULL when it timed out. False: begin no more items. */
    bool (*over)(size_t item, void *result, void *user);
    /* About ten times a second, never together with `over`: running is an item in work, or count. False: begin no more. */
    bool (*tick)(size_t done, size_t running, void *user);
    void *user;
};

/*
 * Runs until every item that was begun is over. states (count of them) gets what became of each. Returns how many threads
 * were left behind: when it is not 0, what `user` points to must stay alive until the process ends.
 */
size_t pool_run(const struct pool_work *work, enum pool_state *states);

#endif
