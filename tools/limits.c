/*
 * Processors and memory; see limits.h.
 */
#include "tools/limits.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* NVRTC takes 100 to 200 MB for one of these kernels; the rest is room for growth. */
static const long long kBytesPerCompile = 400LL << 20;

int limits_cpu_list(const char *status)
{
    static const char label[] = "Cpus_allowed_list:";
    const char *at = strstr(status, label);
    if (at == NULL) {
        return 0;
    }
    at += sizeof label - 1;
    long count = 0;
    for (;;) {
        char *end = NULL;
        long first = strtol(at, &end, 10);
        if (end == at) {
            break;
        }
        long last = first;
        if (*end == '-') {
            last = strtol(end + 1, &end, 10);
        }
        count += last >= first ? last - first + 1 : 0;
        if (*end != ',') {
            break;
        }
        at = end + 1;
    }
    return count > 100000 ? 100000 : (int)count;
}

int limits_cpu_quota(const char *cpu_max)
{
    long long quota = 0;
    long long period = 0;
    if (sscanf(cpu_max, "%lld %lld", &quota, &period) != 2 || quota <= 0 || period <= 0) {
        return 0; /* "max 100000": no limit */
    }
    long long whole = quota / period;
    if (whole < 1) {
        whole = 1;
    }
    return whole > 100000 ? 100000 : (int)whole;
}

long long limits_memory_available(const char *meminfo)
{
    static const char label[] = "MemAvailable:";
    const char *at = strstr(meminfo, label);
    long long kilobytes = 0;
    if (at == NULL || sscanf(at + sizeof label - 1, "%lld", &kilobytes) != 1) {
        return -1;
    }
    return kilobytes << 10;
}

/* The start of a small file; "" when it cannot be read. */
static const char *read_text(const char *path, char *buffer, size_t size)
{
    FILE *file = fopen(path, "r");
    size_t length = 0;
    if (file != NULL) {
        length = fread(buffer, 1, size - 1, file);
        fclose(file);
    }
    buffer[length] = 0;
    return buffer;
}

/* Bytes left of the memory limit of the control group this process is in; -1: no limit. */
static long long cgroup_memory_left(void)
{
    char buffer[64];
    long long limit = 0;
    long long used = 0;
    if (sscanf(read_text("/sys/fs/cgroup/memory.max", buffer, sizeof buffer), "%lld", &limit) != 1 ||
        sscanf(read_text("/sys/fs/cgroup/memory.current", buffer, sizeof buffer), "%lld", &used) != 1) {
        return -1;
    }
    return limit > used ? limit - used : 0;
}

int limits_default_jobs(void)
{
    char buffer[8192];
    int jobs = limits_cpu_list(read_text("/proc/self/status", buffer, sizeof buffer));
    int quota = limits_cpu_quota(read_text("/sys/fs/cgroup/cpu.max", buffer, sizeof buffer));
    if (quota > 0 && quota < jobs) {
        jobs = quota;
    }
    long long memory = limits_memory_available(read_text("/proc/meminfo", buffer, sizeof buffer));
    long long group = cgroup_memory_left();
    if (group >= 0 && (memory < 0 || group < memory)) {
        memory = group;
    }
    if (memory >= 0 && memory / kBytesPerCompile < jobs) {
        jobs = (int)(memory / kBytesPerCompile);
    }
    return jobs < 1 ? 1 : jobs;
}
