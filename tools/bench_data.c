/*
 * Device memory for bench; see bench_data.h.
 */
#include "tools/bench_data.h"

#include "tests/support/half.h"
#include "tests/support/random.h"
#include "tests/support/reference.h"

#include <stdio.h>
#include <stdlib.h>

enum {
    DRAWN = 1 << 22,     /* elements drawn on the host for a tensor */
    PIECE = 1 << 20,     /* elements laid at a time */
    PIECE_STEP = 1 << 7, /* places that pieces come from, in elements: keeps copies aligned */
};

bool bench_random(struct gpu *gpu, int32_t dtype, int64_t count, uint64_t seed, struct CUstream_st *stream,
                  void **memory)
{
    size_t size = dtype_size(dtype);
    int64_t drawn = count < DRAWN ? count : DRAWN;
    void *elements = malloc((size_t)(drawn > 0 ? drawn : 1) * size);
    void *buffer = NULL;
    if (elements == NULL) {
        snprintf(gpu->why, sizeof gpu->why, "out of host memory");
        return false;
    }
    random_fill_normal(dtype, elements, drawn, 1, seed, 0);
    bool good =
        gpu_alloc(gpu, (size_t)count * size, &buffer) && gpu_upload(gpu, buffer, elements, (size_t)drawn * size);
    struct random_source source = {.seed = seed, .counter = 1};
    for (int64_t at = drawn; good && at < count; at += PIECE) {
        int64_t some = count - at < PIECE ? count - at : PIECE;
        int64_t from = random_between(&source, 0, (DRAWN - PIECE) / PIECE_STEP) * PIECE_STEP;
        good = gpu_copy(gpu, (char *)buffer + (size_t)at * size, (char *)buffer + (size_t)from * size,
                        (size_t)some * size, stream);
    }
    good = good && gpu_stream_wait(gpu, stream);
    free(elements);
    if (!good) {
        gpu_free(gpu, buffer);
        return false;
    }
    *memory = buffer;
    return true;
}

static bool offsets_upload(struct gpu *gpu, const int32_t *offsets, int64_t batch, void **memory)
{
    size_t bytes = sizeof *offsets * (size_t)(batch + 1);
    return offsets == NULL || (gpu_alloc(gpu, bytes, memory) && gpu_upload(gpu, *memory, offsets, bytes));
}

/* dout and the gradients. */
static bool gradients_make(struct gpu *gpu, const struct reference_sizes *sizes, int32_t dtype, int32_t out,
                           uint64_t seed, struct CUstream_st *stream, struct bench_data *data)
{
    void **buffers = &data->buffers[6];
    bool good = bench_random(gpu, dtype, sizes->o, random_hash(seed, 4), stream, &buffers[0]) &&
                gpu_alloc(gpu, (size_t)sizes->dq * dtype_size(out), &buffers[1]) &&
                gpu_alloc(gpu, (size_t)sizes->dk * dtype_size(out), &buffers[2]) &&
                gpu_alloc(gpu, (size_t)sizes->dv * dtype_size(out), &buffers[3]);
    data->args.dout.data = buffers[0];
    data->args.dq.data = buffers[1];
    data->args.dk.data = buffers[2];
    data->args.dv.data = buffers[3];
    return good;
}

bool bench_data_make(struct gpu *gpu, const struct bench_case *named, const struct bench_shape *shape, uint64_t seed,
                     struct CUstream_st *stream, struct bench_data *data)
{
    *data = (struct bench_data){.args = shape->args};
    struct reference_problem problem = {.spec = &named->spec, .args = &shape->args};
    struct reference_sizes sizes = reference_sizes_find(&problem);
    int32_t dtype = named->spec.dtype;
    bool backward = named->spec.pass == GDPA_PASS_BACKWARD;
    int32_t out = named->spec.out_dtype != 0 ? named->spec.out_dtype : dtype;
    bool good = bench_random(gpu, dtype, sizes.dq, random_hash(seed, 1), stream, &data->buffers[0]) &&
                bench_random(gpu, dtype, sizes.dk, random_hash(seed, 2), stream, &data->buffers[1]) &&
                bench_random(gpu, dtype, sizes.dv, random_hash(seed, 3), stream, &data->buffers[2]) &&
                (backward ? gradients_make(gpu, &sizes, dtype, out, seed, stream, data)
                          : gpu_alloc(gpu, (size_t)sizes.o * dtype_size(out), &data->buffers[3])) &&
                offsets_upload(gpu, shape->cu_seqlens_q, shape->args.batch, &data->buffers[4]) &&
                offsets_upload(gpu, shape->cu_seqlens_k, shape->args.batch, &data->buffers[5]);
    data->args.q.data = data->buffers[0];
    data->args.k.data = data->buffers[1];
    data->args.v.data = data->buffers[2];
    data->args.o.data = data->buffers[3];
    data->args.cu_seqlens_q = data->buffers[4];
    data->args.cu_seqlens_k = data->buffers[5];
    if (!good) {
        bench_data_free(gpu, data);
    }
    return good;
}

bool bench_data_workspace(struct gpu *gpu, gdpa_kernel *kernel, struct bench_data *data)
{
    if (gdpa_workspace_size(kernel, &data->args, &data->workspace_bytes) != GDPA_OK) {
        snprintf(gpu->why, sizeof gpu->why, "%s", gdpa_last_error());
        return false;
    }
    return data->workspace_bytes == 0 || gpu_alloc(gpu, data->workspace_bytes, &data->buffers[BENCH_BUFFERS - 1]);
}

bool bench_data_schedule(struct gpu *gpu, gdpa_ctx *ctx, const gdpa_spec *spec, struct CUstream_st *stream,
                         struct bench_data *data)
{
    if (spec->pass != GDPA_PASS_BACKWARD || spec->schedule < GDPA_SCHEDULE_ZIGZAG) {
        return true;
    }
    size_t bytes = 0;
    gdpa_status status = gdpa_schedule_size(ctx, spec, &data->args, &bytes);
    if (status == GDPA_OK && bytes > 0) {
        void **schedule = &data->buffers[BENCH_BUFFERS - 2];
        if (!gpu_alloc(gpu, bytes, schedule)) {
            return false;
        }
        status = gdpa_schedule_build(ctx, spec, &data->args, *schedule, bytes, stream);
        data->args.schedule = *schedule;
        data->args.schedule_bytes = bytes;
    }
    if (status != GDPA_OK) {
        snprintf(gpu->why, sizeof gpu->why, "%s", gdpa_last_error());
    }
    return status == GDPA_OK;
}

void bench_data_free(struct gpu *gpu, struct bench_data *data)
{
    for (int i = 0; i < BENCH_BUFFERS; i++) {
        gpu_free(gpu, data->buffers[i]);
        data->buffers[i] = NULL;
    }
}
