/*
 * Runs the kernels of verify in child processes, so that one that crashes, loses the GPU or never ends costs only itself.
 *
 *     parent: forks, waits for messages with a limit of time for each case, kills, forks again after the bad kernel
 *     child:  opens the device, and for each kernel: describe, prepare, then for each shape: make, run, judge, tell
 *
 * The parent must not have touched CUDA, and never does.
 */
#ifndef GDPA_TOOLS_VERIFY_WORKER_H
#define GDPA_TOOLS_VERIFY_WORKER_H

#include "tools/verify_run.h"

struct worker_kernel {
    const char *spec;
    unsigned long long shapes; /* bits, by row of the table of shapes */
};

struct kernel_result {
    bool good;
    int cases, failed; /* shapes run, and how many of them were wrong */
    int sampled;       /* of them, compared in samples */
    double seconds;
    double max_error, bound, ratio;        /* of the case with the largest ratio */
    double frobenius;                      /* the largest */
    long long elements, at_kinks, excused; /* compared; see struct case_result */
    struct kernel_facts facts;
    char gpu[128], slug[64], driver[64];
    char message[640]; /* "shape: what was wrong", of the first one */
};

struct worker_plan {
    const struct verify_device *device; /* not opened yet */
    const struct worker_kernel *kernels;
    size_t count;
    struct run_options options;
    double timeout;  /* seconds a case, or the preparation of a kernel, may take */
    bool in_process; /* no children and no limit: for debuggers and sanitizers that watch one process */
    /* One at a time, on the calling thread. begun: a case starts; shape "" while the kernel is prepared. May be NULL. */
    void (*begun)(size_t kernel, const char *shape, void *user);
    /* A case was run and judged. May be NULL. */
    void (*judged)(size_t kernel, const char *shape, const struct case_result *result, double seconds, void *user);
    bool (*done)(size_t kernel, const struct kernel_result *result, void *user); /* false: stop */
    bool (*interrupted)(void);                                                   /* may be NULL */
    void *user;
};

enum worker_end {
    WORKER_ALL_DONE,
    WORKER_STOPPED,     /* done said so */
    WORKER_INTERRUPTED, /* a kernel in work is dropped */
    WORKER_NO_DEVICE,   /* the device could not be opened */
    WORKER_NO_PROCESS   /* no child could be started */
};

enum worker_end workers_run(const struct worker_plan *plan, char *why, size_t capacity);

/* The seed of a kernel's data: the same for the same spec (its canonical text is handed in), whatever else is run. */
uint64_t worker_kernel_seed(uint64_t seed, const char *spec);

#endif
