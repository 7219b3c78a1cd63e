/*
 * Clock, power and driver version from NVML. See nvml.h.
 */
#include "tools/nvml.h"

#include "tools/progress.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    CLOCK_OF_SM = 1,
    SAMPLE_NANOSECONDS = 20 * 1000 * 1000,
    NUMBERS_PER_SAMPLE = 3, /* time, MHz, watts */
};

/* As in the NVML reference: every function returns an int, 0 is success, a device is a pointer. */
struct nvml_functions {
    void *library;
    int (*init)(void);
    int (*shutdown)(void);
    int (*driver_version)(char *version, unsigned length);
    int (*device_by_bus_id)(const char *bus_id, void **device);
    int (*clock)(void *device, int kind, unsigned *mhz);
    int (*power)(void *device, unsigned *milliwatts);
    const char *(*error_text)(int result);
};

static bool symbol_find(void *library, const char *name, void *function)
{
    void *found = dlsym(library, name);
    memcpy(function, &found, sizeof found);
    return found != NULL;
}

static bool functions_load(struct nvml *nvml, const char *path)
{
    struct nvml_functions *functions = calloc(1, sizeof *functions);
    nvml->functions = functions;
    if (functions == NULL) {
        snprintf(nvml->why, sizeof nvml->why, "out of host memory");
        return false;
    }
    functions->library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (functions->library == NULL) {
        const char *reason = dlerror();
        snprintf(nvml->why, sizeof nvml->why, "%s", reason != NULL ? reason : path);
        return false;
    }
    void *library = functions->library;
    bool complete = symbol_find(library, "nvmlInit_v2", &functions->init) &&
                    symbol_find(library, "nvmlShutdown", &functions->shutdown) &&
                    symbol_find(library, "nvmlSystemGetDriverVersion", &functions->driver_version) &&
                    symbol_find(library, "nvmlDeviceGetHandleByPciBusId_v2", &functions->device_by_bus_id) &&
                    symbol_find(library, "nvmlDeviceGetClockInfo", &functions->clock) &&
                    symbol_find(library, "nvmlDeviceGetPowerUsage", &functions->power) &&
                    symbol_find(library, "nvmlErrorString", &functions->error_text);
    if (!complete) {
        snprintf(nvml->why, sizeof nvml->why, "%s lacks a function that is needed", path);
    }
    return complete;
}

static bool succeeded(struct nvml *nvml, int result, const char *what)
{
    if (result != 0) {
        snprintf(nvml->why, sizeof nvml->why, "%s: %s (%d)", what, nvml->functions->error_text(result), result);
    }
    return result == 0;
}

bool nvml_open(struct nvml *nvml, const char *library, const char *bus_id)
{
    *nvml = (struct nvml){.functions = NULL};
    bool loaded = functions_load(nvml, library != NULL ? library : "libnvidia-ml.so.1");
    bool started = loaded && succeeded(nvml, nvml->functions->init(), "nvmlInit");
    if (started &&
        succeeded(nvml, nvml->functions->driver_version(nvml->driver, sizeof nvml->driver),
                  "nvmlSystemGetDriverVersion") &&
        succeeded(nvml, nvml->functions->device_by_bus_id(bus_id, &nvml->device), "nvmlDeviceGetHandleByPciBusId")) {
        return true;
    }
    if (started) {
        nvml->functions->shutdown();
    }
    free(nvml->functions);
    nvml->functions = NULL;
    return false;
}

void nvml_close(struct nvml *nvml)
{
    if (nvml->functions != NULL) {
        nvml->functions->shutdown();
        free(nvml->functions);
        nvml->functions = NULL;
    }
}

bool nvml_read(const struct nvml *nvml, double *sm_mhz, double *watts)
{
    unsigned mhz = 0;
    unsigned milliwatts = 0;
    if (nvml->functions == NULL || nvml->functions->clock(nvml->device, CLOCK_OF_SM, &mhz) != 0 ||
        nvml->functions->power(nvml->device, &milliwatts) != 0) {
        return false;
    }
    *sm_mhz = mhz;
    *watts = milliwatts / 1e3;
    return true;
}

static bool sample_keep(struct nvml_sampler *sampler, double time, double sm_mhz, double watts)
{
    if ((sampler->count + 1) * NUMBERS_PER_SAMPLE > sampler->capacity) {
        size_t capacity = sampler->capacity > 0 ? 2 * sampler->capacity : (size_t)256 * NUMBERS_PER_SAMPLE;
        double *larger = realloc(sampler->samples, capacity * sizeof *larger);
        if (larger == NULL) {
            return false;
        }
        sampler->samples = larger;
        sampler->capacity = capacity;
    }
    double *sample = sampler->samples + sampler->count * NUMBERS_PER_SAMPLE;
    sample[0] = time;
    sample[1] = sm_mhz;
    sample[2] = watts;
    sampler->count++;
    return true;
}

static void *sampler_main(void *argument)
{
    struct nvml_sampler *sampler = argument;
    pthread_mutex_lock(&sampler->lock);
    while (!sampler->stop) {
        double sm_mhz;
        double watts;
        if (nvml_read(sampler->nvml, &sm_mhz, &watts) && !sample_keep(sampler, clock_seconds(), sm_mhz, watts)) {
            break;
        }
        struct timespec until;
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_nsec += SAMPLE_NANOSECONDS;
        if (until.tv_nsec >= 1000000000L) {
            until.tv_nsec -= 1000000000L;
            until.tv_sec++;
        }
        while (!sampler->stop && pthread_cond_timedwait(&sampler->wake, &sampler->lock, &until) == 0) {
        }
    }
    pthread_mutex_unlock(&sampler->lock);
    return NULL;
}

bool nvml_sampler_start(struct nvml_sampler *sampler, const struct nvml *nvml)
{
    *sampler = (struct nvml_sampler){.nvml = nvml};
    if (nvml->functions == NULL) {
        return false;
    }
    pthread_mutex_init(&sampler->lock, NULL);
    pthread_cond_init(&sampler->wake, NULL);
    sampler->running = pthread_create(&sampler->thread, NULL, sampler_main, sampler) == 0;
    if (!sampler->running) {
        pthread_cond_destroy(&sampler->wake);
        pthread_mutex_destroy(&sampler->lock);
    }
    return sampler->running;
}

/* Means over the samples from `begin` on. */
static void means(const struct nvml_sampler *sampler, size_t begin, double *sm_mhz, double *watts)
{
    double clocks = 0;
    double powers = 0;
    for (size_t i = begin; i < sampler->count; i++) {
        clocks += sampler->samples[i * NUMBERS_PER_SAMPLE + 1];
        powers += sampler->samples[i * NUMBERS_PER_SAMPLE + 2];
    }
    *sm_mhz = clocks / (double)(sampler->count - begin);
    *watts = powers / (double)(sampler->count - begin);
}

bool nvml_sampler_stop(struct nvml_sampler *sampler, double from, double *sm_mhz, double *watts)
{
    if (!sampler->running) {
        return false;
    }
    pthread_mutex_lock(&sampler->lock);
    sampler->stop = true;
    pthread_cond_signal(&sampler->wake);
    pthread_mutex_unlock(&sampler->lock);
    pthread_join(sampler->thread, NULL);
    pthread_cond_destroy(&sampler->wake);
    pthread_mutex_destroy(&sampler->lock);
    sampler->running = false;
    size_t begin = 0;
    while (begin < sampler->count && sampler->samples[begin * NUMBERS_PER_SAMPLE] < from) {
        begin++;
    }
    bool any = sampler->count > 0;
    if (any) {
        means(sampler, begin < sampler->count ? begin : 0, sm_mhz, watts);
    }
    free(sampler->samples);
    sampler->samples = NULL;
    return any;
}
