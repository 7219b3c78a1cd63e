/*
 * The little of the CUDA driver that verify and bench need. See gpu.h.
 */
#include "tools/gpu.h"

#include <ctype.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* As in the driver API reference: a result is an int, a device an int, a device address 64 bits wide. */
typedef int driver_result;
typedef uint64_t device_address;

enum {
    ATTRIBUTE_PROCESSORS = 16,
    ATTRIBUTE_CAPABILITY_MAJOR = 75,
    ATTRIBUTE_CAPABILITY_MINOR = 76,
    STREAM_NON_BLOCKING = 1,
};

/* X(field, symbol, parameters): every driver function used. */
#define DRIVER_FUNCTIONS(X)                                                                                            \
    X(init, "cuInit", (unsigned flags))                                                                                \
    X(driver_version, "cuDriverGetVersion", (int *version))                                                            \
    X(error_name, "cuGetErrorName", (driver_result result, const char **name))                                         \
    X(error_text, "cuGetErrorString", (driver_result result, const char **text))                                       \
    X(device_count, "cuDeviceGetCount", (int *count))                                                                  \
    X(device_get, "cuDeviceGet", (int *device, int ordinal))                                                           \
    X(device_name, "cuDeviceGetName", (char *name, int length, int device))                                            \
    X(device_attribute, "cuDeviceGetAttribute", (int *value, int attribute, int device))                               \
    X(device_memory, "cuDeviceTotalMem_v2", (size_t * bytes, int device))                                              \
    X(device_bus_id, "cuDeviceGetPCIBusId", (char *text, int length, int device))                                      \
    X(context_retain, "cuDevicePrimaryCtxRetain", (void **context, int device))                                        \
    X(context_release, "cuDevicePrimaryCtxRelease_v2", (int device))                                                   \
    X(context_set, "cuCtxSetCurrent", (void *context))                                                                 \
    X(memory_alloc, "cuMemAlloc_v2", (device_address * memory, size_t bytes))                                          \
    X(memory_free, "cuMemFree_v2", (device_address memory))                                                            \
    X(host_alloc, "cuMemHostAlloc", (void **memory, size_t bytes, unsigned flags))                                     \
    X(host_free, "cuMemFreeHost", (void *memory))                                                                      \
    X(memory_info, "cuMemGetInfo_v2", (size_t * free_bytes, size_t * total_bytes))                                     \
    X(copy_up, "cuMemcpyHtoD_v2", (device_address to, const void *from, size_t bytes))                                 \
    X(copy_down, "cuMemcpyDtoH_v2", (void *to, device_address from, size_t bytes))                                     \
    X(copy, "cuMemcpyDtoDAsync_v2",                                                                                    \
      (device_address to, device_address from, size_t bytes, struct CUstream_st * stream))                             \
    X(fill, "cuMemsetD8Async", (device_address memory, unsigned char value, size_t bytes, struct CUstream_st *stream)) \
    X(stream_create, "cuStreamCreate", (struct CUstream_st * *stream, unsigned flags))                                 \
    X(stream_destroy, "cuStreamDestroy_v2", (struct CUstream_st * stream))                                             \
    X(stream_wait, "cuStreamSynchronize", (struct CUstream_st * stream))                                               \
    X(event_create, "cuEventCreate", (struct CUevent_st * *event, unsigned flags))                                     \
    X(event_destroy, "cuEventDestroy_v2", (struct CUevent_st * event))                                                 \
    X(event_record, "cuEventRecord", (struct CUevent_st * event, struct CUstream_st * stream))                         \
    X(event_wait, "cuEventSynchronize", (struct CUevent_st * event))                                                   \
    X(event_elapsed, "cuEventElapsedTime", (float *milliseconds, struct CUevent_st *from, struct CUevent_st *to))

struct gpu_functions {
    void *library;
#define DECLARE_FUNCTION(field, symbol, parameters) driver_result(*field) parameters;
    DRIVER_FUNCTIONS(DECLARE_FUNCTION)
#undef DECLARE_FUNCTION
};

/* POSIX lets a function pointer be read out of what dlsym returns; ISO C has no cast for it. */
static bool symbol_find(void *library, const char *name, void *function)
{
    void *found = dlsym(library, name);
    memcpy(function, &found, sizeof found);
    return found != NULL;
}

static bool functions_load(struct gpu *gpu, const char *path)
{
    struct gpu_functions *driver = calloc(1, sizeof *driver);
    if (driver == NULL) {
        snprintf(gpu->why, sizeof gpu->why, "out of host memory");
        return false;
    }
    gpu->driver = driver;
    driver->library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (driver->library == NULL) {
        const char *reason = dlerror();
        snprintf(gpu->why, sizeof gpu->why,
                 "no CUDA driver: %s; install the NVIDIA driver, or name its libcuda in GDPAJIT_LIBCUDA",
                 reason != NULL ? reason : path);
        return false;
    }
#define LOAD_FUNCTION(field, symbol, parameters)                                                                       \
    if (!symbol_find(driver->library, symbol, &driver->field)) {                                                       \
        snprintf(gpu->why, sizeof gpu->why, "%s has no %s: the driver is too old", path, symbol);                      \
        return false;                                                                                                  \
    }
    DRIVER_FUNCTIONS(LOAD_FUNCTION)
#undef LOAD_FUNCTION
    return true;
}

/* Keeps the reason of a failing call; true when it did not fail. */
static bool succeeded(struct gpu *gpu, driver_result result, const char *what)
{
    if (result == 0) {
        return true;
    }
    const char *name = NULL;
    const char *text = NULL;
    gpu->driver->error_name(result, &name);
    gpu->driver->error_text(result, &text);
    snprintf(gpu->why, sizeof gpu->why, "%s: %s (%d): %s", what, name != NULL ? name : "unknown error", result,
             text != NULL ? text : "no description");
    return false;
}

void gpu_slug(const char *name, char *slug, size_t capacity)
{
    static const char vendor[] = "NVIDIA ";
    if (strncmp(name, vendor, sizeof vendor - 1) == 0) {
        name += sizeof vendor - 1;
    }
    size_t length = 0;
    for (; *name != 0 && length + 1 < capacity; name++) {
        bool plain = isalnum((unsigned char)*name) != 0;
        if (plain || (length > 0 && slug[length - 1] != '_')) {
            slug[length++] = plain ? (char)tolower((unsigned char)*name) : '_';
        }
    }
    while (length > 0 && slug[length - 1] == '_') {
        length--;
    }
    slug[length] = 0;
}

static bool device_describe(struct gpu *gpu)
{
    struct gpu_functions *driver = gpu->driver;
    int major = 0;
    int minor = 0;
    size_t memory = 0;
    bool good =
        succeeded(gpu, driver->device_name(gpu->name, sizeof gpu->name, gpu->device), "cuDeviceGetName") &&
        succeeded(gpu, driver->device_attribute(&major, ATTRIBUTE_CAPABILITY_MAJOR, gpu->device),
                  "cuDeviceGetAttribute") &&
        succeeded(gpu, driver->device_attribute(&minor, ATTRIBUTE_CAPABILITY_MINOR, gpu->device),
                  "cuDeviceGetAttribute") &&
        succeeded(gpu, driver->device_attribute(&gpu->processors, ATTRIBUTE_PROCESSORS, gpu->device),
                  "cuDeviceGetAttribute") &&
        succeeded(gpu, driver->device_memory(&memory, gpu->device), "cuDeviceTotalMem") &&
        succeeded(gpu, driver->device_bus_id(gpu->bus_id, sizeof gpu->bus_id, gpu->device), "cuDeviceGetPCIBusId");
    gpu->capability = major * 10 + minor;
    gpu->memory = memory;
    gpu_slug(gpu->name, gpu->slug, sizeof gpu->slug);
    return good;
}

static bool device_open(struct gpu *gpu, int ordinal)
{
    struct gpu_functions *driver = gpu->driver;
    int count = 0;
    if (!succeeded(gpu, driver->init(0), "cuInit") ||
        !succeeded(gpu, driver->driver_version(&gpu->driver_api), "cuDriverGetVersion") ||
        !succeeded(gpu, driver->device_count(&count), "cuDeviceGetCount")) {
        return false;
    }
    if (ordinal < 0 || ordinal >= count) {
        snprintf(gpu->why, sizeof gpu->why, "no GPU number %d: the driver sees %d (CUDA_VISIBLE_DEVICES hides others)",
                 ordinal, count);
        return false;
    }
    return succeeded(gpu, driver->device_get(&gpu->device, ordinal), "cuDeviceGet") && device_describe(gpu) &&
           succeeded(gpu, driver->context_retain(&gpu->context, gpu->device), "cuDevicePrimaryCtxRetain") &&
           succeeded(gpu, driver->context_set(gpu->context), "cuCtxSetCurrent");
}

bool gpu_open(struct gpu *gpu, const char *driver_path, int ordinal)
{
    *gpu = (struct gpu){.device = -1};
    const char *path = driver_path != NULL ? driver_path : getenv("GDPAJIT_LIBCUDA");
    if (path == NULL || path[0] == 0) {
        path = "libcuda.so.1";
    }
    if (functions_load(gpu, path) && device_open(gpu, ordinal)) {
        return true;
    }
    gpu_close(gpu);
    return false;
}

void gpu_close(struct gpu *gpu)
{
    if (gpu->context != NULL) {
        gpu->driver->context_set(NULL);
        gpu->driver->context_release(gpu->device);
        gpu->context = NULL;
    }
    /* The driver library stays loaded: it does not support being unloaded. */
    free(gpu->driver);
    gpu->driver = NULL;
}

static device_address address_of(const void *memory)
{
    return (device_address)(uintptr_t)memory;
}

bool gpu_alloc(struct gpu *gpu, size_t bytes, void **memory)
{
    device_address address = 0;
    if (!succeeded(gpu, gpu->driver->memory_alloc(&address, bytes > 0 ? bytes : 1), "cuMemAlloc")) {
        size_t length = strlen(gpu->why);
        snprintf(gpu->why + length, sizeof gpu->why - length, "; %zu bytes were asked for", bytes);
        return false;
    }
    *memory = (void *)(uintptr_t)address;
    return true;
}

void gpu_free(struct gpu *gpu, void *memory)
{
    if (memory != NULL) {
        gpu->driver->memory_free(address_of(memory));
    }
}

bool gpu_host_alloc(struct gpu *gpu, size_t bytes, void **memory)
{
    return succeeded(gpu, gpu->driver->host_alloc(memory, bytes, 0), "cuMemHostAlloc");
}

void gpu_host_free(struct gpu *gpu, void *memory)
{
    if (memory != NULL) {
        gpu->driver->host_free(memory);
    }
}

bool gpu_memory_free(struct gpu *gpu, size_t *bytes)
{
    size_t total = 0;
    return succeeded(gpu, gpu->driver->memory_info(bytes, &total), "cuMemGetInfo");
}

/*
 * A copy from pageable memory returns once its source may be reused, perhaps before it has arrived, and a non-blocking stream does
 * not wait for it: so it is waited for here.
 */
bool gpu_upload(struct gpu *gpu, void *to, const void *from, size_t bytes)
{
    return bytes == 0 || (succeeded(gpu, gpu->driver->copy_up(address_of(to), from, bytes), "cuMemcpyHtoD") &&
                          succeeded(gpu, gpu->driver->stream_wait(NULL), "cuStreamSynchronize"));
}

bool gpu_download(struct gpu *gpu, void *to, const void *from, size_t bytes)
{
    return bytes == 0 || succeeded(gpu, gpu->driver->copy_down(to, address_of(from), bytes), "cuMemcpyDtoH");
}

bool gpu_copy(struct gpu *gpu, void *to, const void *from, size_t bytes, struct CUstream_st *stream)
{
    return bytes == 0 ||
           succeeded(gpu, gpu->driver->copy(address_of(to), address_of(from), bytes, stream), "cuMemcpyDtoDAsync");
}

bool gpu_fill(struct gpu *gpu, void *memory, unsigned char value, size_t bytes, struct CUstream_st *stream)
{
    return bytes == 0 || succeeded(gpu, gpu->driver->fill(address_of(memory), value, bytes, stream), "cuMemsetD8Async");
}

bool gpu_stream_create(struct gpu *gpu, struct CUstream_st **stream)
{
    return succeeded(gpu, gpu->driver->stream_create(stream, STREAM_NON_BLOCKING), "cuStreamCreate");
}

void gpu_stream_destroy(struct gpu *gpu, struct CUstream_st *stream)
{
    if (stream != NULL) {
        gpu->driver->stream_destroy(stream);
    }
}

bool gpu_stream_wait(struct gpu *gpu, struct CUstream_st *stream)
{
    return succeeded(gpu, gpu->driver->stream_wait(stream), "cuStreamSynchronize");
}

bool gpu_event_create(struct gpu *gpu, struct CUevent_st **event)
{
    return succeeded(gpu, gpu->driver->event_create(event, 0), "cuEventCreate");
}

void gpu_event_destroy(struct gpu *gpu, struct CUevent_st *event)
{
    if (event != NULL) {
        gpu->driver->event_destroy(event);
    }
}

bool gpu_event_record(struct gpu *gpu, struct CUevent_st *event, struct CUstream_st *stream)
{
    return succeeded(gpu, gpu->driver->event_record(event, stream), "cuEventRecord");
}

bool gpu_event_wait(struct gpu *gpu, struct CUevent_st *event)
{
    return succeeded(gpu, gpu->driver->event_wait(event), "cuEventSynchronize");
}

bool gpu_event_milliseconds(struct gpu *gpu, struct CUevent_st *from, struct CUevent_st *to, double *milliseconds)
{
    float elapsed = 0;
    if (!succeeded(gpu, gpu->driver->event_elapsed(&elapsed, from, to), "cuEventElapsedTime")) {
        return false;
    }
    *milliseconds = (double)elapsed;
    return true;
}
