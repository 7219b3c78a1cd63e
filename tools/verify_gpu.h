/*
 * The device of verify that is a GPU: kernels through the public calls of the library, on a stream of its own.
 */
#ifndef GDPA_TOOLS_VERIFY_GPU_H
#define GDPA_TOOLS_VERIFY_GPU_H

#include "tools/gpu.h"
#include "tools/verify_run.h"

struct tool;

struct verify_gpu {
    struct verify_device device; /* hand out a pointer to this one; self points back */
    struct tool *tool;
    int ordinal;
    struct gpu gpu;
    struct CUstream_st *stream;
    gdpa_kernel *kernel;
    gdpa_spec spec; /* of the kernel */
    void *staging;  /* NULL until it is needed */
    void *workspace;
    size_t workspace_bytes;
    char why[1024];
};

void verify_gpu_init(struct verify_gpu *gpu, struct tool *tool, int ordinal);
/* Gives back what opening and running took; also good for one that was never opened. */
void verify_gpu_deinit(struct verify_gpu *gpu);

/* Fills facts from a kernel. */
void kernel_facts_fill(gdpa_kernel *kernel, struct kernel_facts *facts);

#endif
