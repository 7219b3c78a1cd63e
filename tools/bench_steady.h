/*
 * The steady protocol: each piece of work alone for about 1.2 s, and the last half timed. That is the state in which a long
 * run leaves the card (power and clock have settled), and the only one in which ratios repeat to 1 %.
 */
#ifndef GDPA_TOOLS_BENCH_STEADY_H
#define GDPA_TOOLS_BENCH_STEADY_H

#include "tools/gpu.h"
#include "tools/nvml.h"

/* Queues the work once on the stream. False: why tells. */
typedef bool (*steady_queue)(void *user, struct CUstream_st *stream, const char **why);

struct steady_result {
    double ms;       /* median of the timed groups, for one call */
    double spread;   /* (90th - 10th percentile) / median */
    double first_ms; /* of the first group, about 25 ms on a card that was cooler */
    bool clocked;    /* the next two are known */
    double sm_mhz, watts;
    int calls; /* in all */
};

/* Runs work for `seconds`. nvml may be NULL. False, with the reason in gpu->why. */
bool steady_measure(struct gpu *gpu, const struct nvml *nvml, struct CUstream_st *stream, double seconds,
                    steady_queue queue, void *user, struct steady_result *result);

/* Calls in a group of about 25 ms, and groups, for a call that was seen to take estimate_ms. */
void steady_plan(double estimate_ms, double seconds, int *calls, int *groups);

/* Median and spread of the second half of `groups` times, each of `calls` calls. Sorts that half. */
void steady_summarise(double *group_ms, int groups, int calls, struct steady_result *result);

#endif
