/*
 * Kernels made by workers: requests that a caller waits for or forgets, and the limit of compiles at a time.
 *
 *     request ──> queue ──> worker ──> kernel_borrow (joins whoever makes the same kernel) ──> request is done
 *
 * Workers start when there is work and end when there is none. They belong to a context, and gdpa_ctx_destroy waits for
 * those that are in the middle of a kernel.
 */
#ifndef GDPA_RUNTIME_REQUEST_H
#define GDPA_RUNTIME_REQUEST_H

#include "include/gdpajit.h"

#include <pthread.h>
#include <stdbool.h>

struct crew {
    pthread_mutex_t lock;
    pthread_cond_t changed; /* a request is done, a worker has ended, a slot is free */
    gdpa_request *requests; /* not done; the oldest first */
    int workers, waiting;   /* threads; requests that no worker has begun */
    int slots_used;         /* compiles that run, of workers and of callers */
    bool stop;              /* begin no more */
};

void crew_init(struct crew *crew);
void crew_deinit(struct crew *crew);

/* Drops what was not begun, and waits for what was. */
void crew_stop(gdpa_ctx *ctx);

/* After a fork: no workers, no compiles, and requests that will not be done. */
void crew_in_child(gdpa_ctx *ctx);

/* Around a compile: waits until fewer than ctx->jobs run. */
void slot_take(gdpa_ctx *ctx);
void slot_give(gdpa_ctx *ctx);

#endif
