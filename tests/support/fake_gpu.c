/*
 * libfake_gpu.so: fake_driver with memory, copies, streams and events on top, for commands that do more than launch. Device
 * memory is host memory, events hold the time of their recording, and kernels do nothing at all.
 *
 *     FAKE_GPU_FAIL_LAUNCH="2"    the third launch and all later ones fail
 */
#include "tests/support/fake_driver.c" /* NOLINT(bugprone-suspicious-include): one library out of both */

#include <time.h>

enum { LAUNCH_FAILED = 719, POOL_OF_EVENTS = 8192 };

struct CUevent_st {
    double milliseconds;
    bool used;
};
static struct CUevent_st events[POOL_OF_EVENTS];
static long waits;

static double milliseconds_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec * 1e-6;
}

static int context_check(void)
{
    return current_device() == CURRENT_NONE ? INVALID_CONTEXT : OK;
}

DRIVER(cuDeviceTotalMem_v2, (size_t * bytes, int device))
{
    (void)device;
    *bytes = (size_t)1 << 30;
    return OK;
}

DRIVER(cuDeviceGetPCIBusId, (char *text, int length, int device))
{
    snprintf(text, (size_t)length, "0000:%02x:00.0", device & 0xff);
    return OK;
}

DRIVER(cuDevicePrimaryCtxRetain, (void **context, int device))
{
    *context = &contexts[device];
    return OK;
}

DRIVER(cuDevicePrimaryCtxRelease_v2, (int device))
{
    (void)device;
    return OK;
}

DRIVER(cuCtxSetCurrent, (void *context))
{
    current_stack[current_depth] = context != NULL ? ((struct CUctx_st *)context)->device : CURRENT_NONE;
    return OK;
}

DRIVER(cuMemAlloc_v2, (uint64_t * memory, size_t bytes))
{
    /* As much as the device is said to have. */
    void *found = bytes <= (size_t)1 << 30 ? aligned_alloc(512, (bytes + 511) / 512 * 512) : NULL;
    *memory = (uint64_t)(uintptr_t)found;
    return context_check() != OK ? INVALID_CONTEXT : found != NULL ? OK : OUT_OF_MEMORY;
}

DRIVER(cuMemFree_v2, (uint64_t memory))
{
    free((void *)(uintptr_t)memory);
    return OK;
}

DRIVER(cuMemHostAlloc, (void **memory, size_t bytes, unsigned flags))
{
    (void)flags;
    *memory = malloc(bytes);
    return context_check() != OK ? INVALID_CONTEXT : *memory != NULL ? OK : OUT_OF_MEMORY;
}

DRIVER(cuMemFreeHost, (void *memory))
{
    free(memory);
    return OK;
}

DRIVER(cuMemGetInfo_v2, (size_t * free_bytes, size_t *total_bytes))
{
    *free_bytes = *total_bytes = (size_t)1 << 30;
    return context_check();
}

DRIVER(cuMemcpyHtoD_v2, (uint64_t to, const void *from, size_t bytes))
{
    memcpy((void *)(uintptr_t)to, from, bytes);
    return context_check();
}

DRIVER(cuMemcpyDtoH_v2, (void *to, uint64_t from, size_t bytes))
{
    memcpy(to, (const void *)(uintptr_t)from, bytes);
    return context_check();
}

DRIVER(cuMemcpyDtoDAsync_v2, (uint64_t to, uint64_t from, size_t bytes, struct CUstream_st *stream))
{
    (void)stream;
    memmove((void *)(uintptr_t)to, (const void *)(uintptr_t)from, bytes);
    return context_check();
}

DRIVER(cuMemsetD8Async, (uint64_t memory, unsigned char value, size_t bytes, struct CUstream_st *stream))
{
    (void)stream;
    memset((void *)(uintptr_t)memory, value, bytes);
    return context_check();
}

DRIVER(cuStreamCreate, (struct CUstream_st * *stream, unsigned flags))
{
    (void)flags;
    *stream = current_device() == CURRENT_NONE ? NULL : &streams[current_device()];
    return context_check();
}

DRIVER(cuStreamDestroy_v2, (struct CUstream_st * stream))
{
    return stream != NULL ? OK : INVALID_HANDLE;
}

/* Where a failing launch shows. Waiting for the default stream ends an upload and counts nothing. */
DRIVER(cuStreamSynchronize, (struct CUstream_st * stream))
{
    const char *limit = getenv("FAKE_GPU_FAIL_LAUNCH");
    bool failed = stream != NULL && limit != NULL && waits++ >= atol(limit);
    return failed ? LAUNCH_FAILED : context_check();
}

DRIVER(cuEventCreate, (struct CUevent_st * *event, unsigned flags))
{
    (void)flags;
    for (int i = 0; i < POOL_OF_EVENTS; i++) {
        if (!events[i].used) {
            events[i].used = true;
            *event = &events[i];
            return context_check();
        }
    }
    return OUT_OF_MEMORY;
}

DRIVER(cuEventDestroy_v2, (struct CUevent_st * event))
{
    event->used = false;
    return OK;
}

DRIVER(cuEventRecord, (struct CUevent_st * event, struct CUstream_st *stream))
{
    (void)stream;
    event->milliseconds = milliseconds_now();
    return context_check();
}

DRIVER(cuEventSynchronize, (struct CUevent_st * event))
{
    return event->used ? OK : INVALID_HANDLE;
}

DRIVER(cuEventElapsedTime, (float *milliseconds, const struct CUevent_st *from, const struct CUevent_st *to))
{
    *milliseconds = (float)(to->milliseconds - from->milliseconds);
    return OK;
}
