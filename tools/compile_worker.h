/*
 * Compiles in processes of their own, so that a compiler that crashes, takes all memory or never ends costs one kernel and
 * not the run; and so that several compiles share nothing.
 *
 *     parent: a line with a spec ──> worker: gdpa_kernel_get ──> parent: an answer
 *
 * A worker is this program, started anew with --compile-worker; it ends when its input does. Each is driven by one thread
 * at a time. Where no process can be started, the compile is done in this one.
 */
#ifndef GDPA_TOOLS_COMPILE_WORKER_H
#define GDPA_TOOLS_COMPILE_WORKER_H

#include "tools/tool.h"

#include <sys/types.h>

/* What became of one kernel; texts are malloced, NULL where there is none. */
struct outcome {
    gdpa_status status;
    bool hit;
    char *error; /* of a failing status */
    char *spec, *name, *key, *target;
    int registers, spill_bytes, smem_dynamic, threads, binary_bytes;
    double generate_ms, compile_ms;
};

void outcome_deinit(struct outcome *outcome);

struct compile_crew {
    struct tool *tool;
    pthread_mutex_t lock;
    struct compile_worker *idle;
    long long peak_bytes; /* largest resident set of a worker that has ended */
};

void compile_crew_init(struct compile_crew *crew, struct tool *tool);
/* Ends the workers and waits for them. */
void compile_crew_deinit(struct compile_crew *crew);

/* Any thread. timeout: seconds, 0 for none; what takes longer is killed and GDPA_E_TIMEOUT. */
void compile_crew_run(struct compile_crew *crew, const char *spec, double timeout, struct outcome *outcome);

/* How many kernels are compiled at a time: --jobs, else GDPAJIT_JOBS, else what processors and memory allow. */
int compile_jobs(const struct tool *tool);

/* The worker: reads specs from standard input, writes answers to standard output. An exit code. */
int compile_worker_main(struct tool *tool);

#endif
