/*
 * The little of the CUDA driver that verify and bench need, by dlopen: a context, memory, copies, streams, events. Kernels
 * are the library's business. No CUDA header, nothing linked: on a machine without a driver gpu_open says what is missing.
 *
 * Functions return false with the reason in gpu->why. One object is used by one thread at a time, and its context is
 * current on the thread that opened it. Never open before a fork.
 */
#ifndef GDPA_TOOLS_GPU_H
#define GDPA_TOOLS_GPU_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct CUstream_st;
struct CUevent_st;
struct gpu_functions;

struct gpu {
    struct gpu_functions *driver;
    void *context;
    int device;
    char name[128];  /* "NVIDIA H200" */
    char slug[64];   /* "h200": for names of record files */
    char bus_id[32]; /* as NVML wants it */
    int capability;  /* compute capability * 10 */
    int processors;  /* SMs */
    int driver_api;  /* 13000 for CUDA 13.0 */
    uint64_t memory; /* bytes */
    char why[512];
};

/* Opens device number `ordinal` with its primary context. driver_path NULL: GDPAJIT_LIBCUDA, then libcuda.so.1. */
bool gpu_open(struct gpu *gpu, const char *driver_path, int ordinal);
void gpu_close(struct gpu *gpu);

bool gpu_alloc(struct gpu *gpu, size_t bytes, void **memory); /* aligned to 256 bytes; 0 bytes give one that holds 1 */
void gpu_free(struct gpu *gpu, void *memory);
/* Host memory that copies go to and come from at full speed. */
bool gpu_host_alloc(struct gpu *gpu, size_t bytes, void **memory);
void gpu_host_free(struct gpu *gpu, void *memory);
bool gpu_memory_free(struct gpu *gpu, size_t *bytes);

/* Whole when they return. */
bool gpu_upload(struct gpu *gpu, void *to, const void *from, size_t bytes);
bool gpu_download(struct gpu *gpu, void *to, const void *from, size_t bytes);

/* Queued on the stream. */
bool gpu_copy(struct gpu *gpu, void *to, const void *from, size_t bytes, struct CUstream_st *stream);
bool gpu_fill(struct gpu *gpu, void *memory, unsigned char value, size_t bytes, struct CUstream_st *stream);

/* A stream that does not wait for the default one. */
bool gpu_stream_create(struct gpu *gpu, struct CUstream_st **stream);
void gpu_stream_destroy(struct gpu *gpu, struct CUstream_st *stream);
bool gpu_stream_wait(struct gpu *gpu, struct CUstream_st *stream);

bool gpu_event_create(struct gpu *gpu, struct CUevent_st **event);
void gpu_event_destroy(struct gpu *gpu, struct CUevent_st *event);
bool gpu_event_record(struct gpu *gpu, struct CUevent_st *event, struct CUstream_st *stream);
bool gpu_event_wait(struct gpu *gpu, struct CUevent_st *event);
bool gpu_event_milliseconds(struct gpu *gpu, struct CUevent_st *from, struct CUevent_st *to, double *milliseconds);

/* "NVIDIA H200 NVL" -> "h200_nvl"; at most capacity bytes with the final 0. */
void gpu_slug(const char *name, char *slug, size_t capacity);

#endif
