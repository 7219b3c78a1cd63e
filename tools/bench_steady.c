/*
 * The steady protocol; see bench_steady.h.
 */
#include "tools/bench_steady.h"

#include "tools/progress.h"

#include <stdio.h>
#include <stdlib.h>

enum {
    GROUP_MS = 25,
    LEAST_GROUPS = 4,
    MOST_GROUPS = 4096,
    AHEAD = 3, /* groups that may be queued before the oldest has run */
};

static int ascending(const void *left, const void *right)
{
    double a = *(const double *)left;
    double b = *(const double *)right;
    return (a > b) - (a < b);
}

void steady_plan(double estimate_ms, double seconds, int *calls, int *groups)
{
    double estimate = estimate_ms > 1e-3 ? estimate_ms : 1e-3;
    *calls = (int)(GROUP_MS / estimate) > 1 ? (int)(GROUP_MS / estimate) : 1;
    int wanted = (int)(seconds * 1e3 / (*calls * estimate));
    *groups = wanted < LEAST_GROUPS ? LEAST_GROUPS : wanted > MOST_GROUPS ? MOST_GROUPS : wanted;
}

/* By linear interpolation between the nearest two of sorted values. */
static double percentile(const double *sorted, int count, double part)
{
    double at = part * (count - 1);
    int below = (int)at;
    int above = below + 1 < count ? below + 1 : below;
    return sorted[below] + (at - below) * (sorted[above] - sorted[below]);
}

void steady_summarise(double *group_ms, int groups, int calls, struct steady_result *result)
{
    result->first_ms = group_ms[0] / calls;
    double *late = group_ms + groups / 2;
    int count = groups - groups / 2;
    qsort(late, (size_t)count, sizeof *late, ascending);
    double median = percentile(late, count, 0.5);
    result->ms = median / calls;
    result->spread = (percentile(late, count, 0.9) - percentile(late, count, 0.1)) / median;
}

static bool queue_calls(struct gpu *gpu, struct CUstream_st *stream, steady_queue queue, void *user, int calls)
{
    for (int i = 0; i < calls; i++) {
        const char *why = "";
        if (!queue(user, stream, &why)) {
            snprintf(gpu->why, sizeof gpu->why, "%s", why);
            return false;
        }
    }
    return true;
}

/* One call to settle, two to see how long it takes. */
static bool estimate(struct gpu *gpu, struct CUstream_st *stream, steady_queue queue, void *user,
                     struct CUevent_st *const *events, double *ms)
{
    double both = 0;
    bool good = queue_calls(gpu, stream, queue, user, 1) && gpu_stream_wait(gpu, stream) &&
                gpu_event_record(gpu, events[0], stream) && queue_calls(gpu, stream, queue, user, 2) &&
                gpu_event_record(gpu, events[1], stream) && gpu_event_wait(gpu, events[1]) &&
                gpu_event_milliseconds(gpu, events[0], events[1], &both);
    *ms = both / 2;
    return good;
}

static bool groups_run(struct gpu *gpu, struct CUstream_st *stream, steady_queue queue, void *user,
                       struct CUevent_st *const *events, int groups, int calls)
{
    if (!gpu_event_record(gpu, events[0], stream)) {
        return false;
    }
    for (int i = 0; i < groups; i++) {
        if (!queue_calls(gpu, stream, queue, user, calls) || !gpu_event_record(gpu, events[i + 1], stream) ||
            (i >= AHEAD && !gpu_event_wait(gpu, events[i + 1 - AHEAD]))) {
            return false;
        }
    }
    return gpu_stream_wait(gpu, stream);
}

static bool groups_read(struct gpu *gpu, struct CUevent_st *const *events, int groups, int calls,
                        struct steady_result *result)
{
    double *times = calloc((size_t)groups, sizeof *times);
    if (times == NULL) {
        snprintf(gpu->why, sizeof gpu->why, "out of host memory");
        return false;
    }
    bool good = true;
    for (int i = 0; i < groups && good; i++) {
        good = gpu_event_milliseconds(gpu, events[i], events[i + 1], &times[i]);
    }
    if (good) {
        steady_summarise(times, groups, calls, result);
        result->calls = groups * calls;
    }
    free(times);
    return good;
}

static bool measure(struct gpu *gpu, const struct nvml *nvml, struct CUstream_st *stream, double seconds,
                    steady_queue queue, void *user, struct CUevent_st **events, struct steady_result *result)
{
    double once = 0;
    if (!estimate(gpu, stream, queue, user, events, &once)) {
        return false;
    }
    int calls = 1;
    int groups = LEAST_GROUPS;
    steady_plan(once, seconds, &calls, &groups);
    for (int i = 0; i <= groups; i++) {
        if (events[i] == NULL && !gpu_event_create(gpu, &events[i])) {
            return false;
        }
    }
    struct nvml_sampler sampler = {.running = false};
    if (nvml != NULL) {
        nvml_sampler_start(&sampler, nvml);
    }
    double start = clock_seconds();
    bool good = groups_run(gpu, stream, queue, user, events, groups, calls);
    double middle = (start + clock_seconds()) / 2;
    result->clocked = nvml_sampler_stop(&sampler, middle, &result->sm_mhz, &result->watts);
    return good && groups_read(gpu, events, groups, calls, result);
}

bool steady_measure(struct gpu *gpu, const struct nvml *nvml, struct CUstream_st *stream, double seconds,
                    steady_queue queue, void *user, struct steady_result *result)
{
    struct CUevent_st **events = calloc(MOST_GROUPS + 1, sizeof *events);
    if (events == NULL) {
        snprintf(gpu->why, sizeof gpu->why, "out of host memory");
        return false;
    }
    bool good = gpu_event_create(gpu, &events[0]) && gpu_event_create(gpu, &events[1]) &&
                measure(gpu, nvml, stream, seconds, queue, user, events, result);
    for (int i = 0; i <= MOST_GROUPS; i++) {
        gpu_event_destroy(gpu, events[i]);
    }
    free(events);
    return good;
}
