/*
 * Clock, power and driver version from NVML, by dlopen. A machine without it gets no figures, and everything else works.
 */
#ifndef GDPA_TOOLS_NVML_H
#define GDPA_TOOLS_NVML_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

struct nvml_functions;

struct nvml {
    struct nvml_functions *functions;
    void *device;
    char driver[64]; /* "580.95.05" */
    char why[256];   /* why there are no figures */
};

/* bus_id as gpu.h gives it; library NULL: libnvidia-ml.so.1. False: nvml->why tells. */
bool nvml_open(struct nvml *nvml, const char *library, const char *bus_id);
void nvml_close(struct nvml *nvml);

bool nvml_read(const struct nvml *nvml, double *sm_mhz, double *watts);

/* Reads every 20 ms on a thread of its own, from start to stop. */
struct nvml_sampler {
    const struct nvml *nvml;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t wake;
    bool running, stop;
    double *samples; /* time, MHz, watts; one after the other */
    size_t count, capacity;
};
bool nvml_sampler_start(struct nvml_sampler *sampler, const struct nvml *nvml);

/*
 * Means over the samples taken after the time `from` (of clock_seconds); over all when there is none after it. False when
 * there are no samples at all.
 */
bool nvml_sampler_stop(struct nvml_sampler *sampler, double from, double *sm_mhz, double *watts);

#endif
