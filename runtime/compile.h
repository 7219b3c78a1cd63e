/*
 * A generated source -> code for one target: options, one compile, resources from the log, checks of the code.
 */
#ifndef GDPA_RUNTIME_COMPILE_H
#define GDPA_RUNTIME_COMPILE_H

#include "runtime/nvrtc.h"

#define COMPILE_OPTIONS_MAX 16

struct compile_options {
    char text[COMPILE_OPTIONS_MAX][80];
    const char *list[COMPILE_OPTIONS_MAX];
    int count;
};

/* What a kernel needs of the machine, from the log of the assembler. */
struct resources {
    int32_t registers;   /* a thread */
    int32_t spill_bytes; /* stored and loaded, of all functions together */
    int32_t stack_bytes;
    int32_t smem_static; /* a block */
};

struct compile_request {
    const char *source;
    const char *source_hash; /* seeds the names that the compiler makes up, so that equal sources give equal code */
    const char *name;        /* entry symbol */
    const char *target;      /* "sm_90a" */
    int arch;                /* 90 */
};

struct compile_result {
    struct nvrtc_output output;
    struct resources resources;
    double milliseconds;
};

/* The options in their exact order: what this version of NVRTC understands. Part of the cache key. */
void compile_options_make(int nvrtc_major, int nvrtc_minor, const char *target, const char *seed,
                          struct compile_options *options);

/* Compiles and checks. Freed by compile_result_deinit, also after a failure (the log may be there). */
gdpa_status compile_source(const struct nvrtc *nvrtc, const struct compile_request *request,
                           struct compile_result *result, struct sbuf *why);
void compile_result_deinit(struct compile_result *result);

/* Reads the lines of `ptxas -v` on the entry `name`. False when they are not there. */
bool resources_parse(const char *log, const char *name, struct resources *resources);

#endif
