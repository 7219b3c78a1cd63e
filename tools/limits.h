/*
 * How many compiles a machine can do at a time: processors and memory that this process may use, cgroups included.
 */
#ifndef GDPA_TOOLS_LIMITS_H
#define GDPA_TOOLS_LIMITS_H

/* Processors of /proc's "Cpus_allowed_list:\t0-3,8"; 0 when there is none in the text. */
int limits_cpu_list(const char *status);
/* Whole processors of a cgroup's cpu.max ("150000 100000" is 1); 0: no limit. */
int limits_cpu_quota(const char *cpu_max);
/* Bytes of /proc/meminfo's MemAvailable; -1 when it is not in the text. */
long long limits_memory_available(const char *meminfo);

/* The default of --jobs, at least 1. */
int limits_default_jobs(void);

#endif
