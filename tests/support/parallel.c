/*
 * parallel_for. See parallel.h.
 */
#define _GNU_SOURCE
#include "tests/support/parallel.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stddef.h>

struct job {
    _Atomic int64_t next;
    int64_t count;
    void (*work)(int64_t item, int thread, void *user);
    void *user;
};

struct helper {
    pthread_t thread;
    struct job *job;
    int number;
};

int parallel_processors(void)
{
    cpu_set_t allowed;
    CPU_ZERO(&allowed);
    if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) {
        return 1;
    }
    int count = CPU_COUNT(&allowed);
    return count < 1 ? 1 : count;
}

int parallel_threads(int64_t count, int threads)
{
    int wanted = threads > 0 ? threads : parallel_processors();
    wanted = wanted < PARALLEL_MAX_THREADS ? wanted : PARALLEL_MAX_THREADS;
    if ((int64_t)wanted > count) {
        wanted = (int)count;
    }
    return wanted < 1 ? 1 : wanted;
}

static void run_items(struct job *job, int number)
{
    for (;;) {
        int64_t item = atomic_fetch_add_explicit(&job->next, 1, memory_order_relaxed);
        if (item >= job->count) {
            return;
        }
        job->work(item, number, job->user);
    }
}

static void *helper_main(void *argument)
{
    struct helper *helper = argument;
    run_items(helper->job, helper->number);
    return NULL;
}

void parallel_for(int64_t count, int threads, void (*work)(int64_t item, int thread, void *user), void *user)
{
    struct job job = {.count = count, .work = work, .user = user};
    struct helper helpers[PARALLEL_MAX_THREADS];
    int wanted = parallel_threads(count, threads) - 1;
    int started = 0;
    while (started < wanted) {
        helpers[started].job = &job;
        helpers[started].number = started + 1;
        if (pthread_create(&helpers[started].thread, NULL, helper_main, &helpers[started]) != 0) {
            break;
        }
        started++;
    }
    run_items(&job, 0);
    for (int i = 0; i < started; i++) {
        pthread_join(helpers[i].thread, NULL);
    }
}
