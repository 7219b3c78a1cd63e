/*
 * Device memory for bench: random elements, offsets, and the arguments that point to them.
 *
 * Elements are normal: 4 million are drawn on the host for each tensor and laid into it piece by piece from random places,
 * so that no tensor repeats another and gigabytes cost no time. Constant data would draw less power and look faster.
 */
#ifndef GDPA_TOOLS_BENCH_DATA_H
#define GDPA_TOOLS_BENCH_DATA_H

#include "tools/bench_case.h"
#include "tools/gpu.h"

enum { BENCH_BUFFERS = 12 };

struct bench_data {
    /* q, k, v, o, cu_seqlens_q, cu_seqlens_k, dout, dq, dk, dv, schedule, workspace; NULL: none */
    void *buffers[BENCH_BUFFERS];
    gdpa_args args; /* with device pointers */
    size_t workspace_bytes;
};

/* False, with the reason in gpu->why. */
bool bench_data_make(struct gpu *gpu, const struct bench_case *named, const struct bench_shape *shape, uint64_t seed,
                     struct CUstream_st *stream, struct bench_data *data);
/* The workspace that a launch of the kernel needs. */
bool bench_data_workspace(struct gpu *gpu, gdpa_kernel *kernel, struct bench_data *data);
/* Makes the schedule of a backward that follows one, since its kernels make none, and lets the arguments have it. */
bool bench_data_schedule(struct gpu *gpu, gdpa_ctx *ctx, const gdpa_spec *spec, struct CUstream_st *stream,
                         struct bench_data *data);
void bench_data_free(struct gpu *gpu, struct bench_data *data);

/* One buffer of `count` random elements of a 16-bit type. */
bool bench_random(struct gpu *gpu, int32_t dtype, int64_t count, uint64_t seed, struct CUstream_st *stream,
                  void **memory);

#endif
