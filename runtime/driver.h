/*
 * The CUDA driver, found at run time: our own prototypes of the few functions that we call, no CUDA header.
 *
 * Opening loads libcuda and touches no GPU. Starting (cuInit) finds the devices; after that a fork leaves the child
 * without CUDA, so it happens only when a device is really asked for.
 */
#ifndef GDPA_RUNTIME_DRIVER_H
#define GDPA_RUNTIME_DRIVER_H

#include "gen/spec.h"
#include "runtime/error.h"

#include <stdint.h>
#include <sys/types.h>

struct CUctx_st;
struct CUkern_st;
struct CUlib_st;

/* As in cuda.h, for cuLaunchKernelEx. */
struct launch_config {
    unsigned grid_x, grid_y, grid_z;
    unsigned block_x, block_y, block_z;
    unsigned shared_bytes;
    struct CUstream_st *stream;
    void *attributes;
    unsigned attribute_count;
};

enum {
    CUDA_OK = 0,
    CUDA_NOT_INITIALIZED = 3,
    CUDA_NO_DEVICE = 100,
    CUDA_INVALID_IMAGE = 200,
    CUDA_INVALID_CONTEXT = 201,
    CUDA_NO_BINARY_FOR_GPU = 209,
    CUDA_UNSUPPORTED_PTX_VERSION = 222,
    CUDA_INVALID_SOURCE = 300,
    CUDA_ATTRIBUTE_SMS = 16,   /* CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT */
    CUDA_ATTRIBUTE_MAJOR = 75, /* CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR and MINOR */
    CUDA_ATTRIBUTE_MINOR = 76,
    CUDA_KERNEL_MAX_DYNAMIC_SHARED = 8, /* CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES */
    CUDA_INVALID_HANDLE = 400,
    CUDA_NOT_FOUND = 500,
    CUDA_CONTEXT_IS_DESTROYED = 709,
    CUDA_CAPTURE_NONE = 0, /* CU_STREAM_CAPTURE_STATUS_NONE */
    CUDA_CAPTURE_RELAXED = 2,
    CUDA_TENSOR_MAP_FLOAT16 = 6, /* CU_TENSOR_MAP_DATA_TYPE_FLOAT16 and BFLOAT16 */
    CUDA_TENSOR_MAP_BFLOAT16 = 9,
    CUDA_TENSOR_MAP_SWIZZLE_128B = 3,
    CUDA_TENSOR_MAP_L2_256B = 3 /* CU_TENSOR_MAP_L2_PROMOTION_L2_256B */
};

/* X(name, symbol, parameters). Needed. */
#define DRIVER_FUNCTIONS(X)                                                                                            \
    X(init, cuInit, (unsigned flags))                                                                                  \
    X(driver_version, cuDriverGetVersion, (int *version))                                                              \
    X(device_count, cuDeviceGetCount, (int *count))                                                                    \
    X(device_get, cuDeviceGet, (int *device, int ordinal))                                                             \
    X(device_name, cuDeviceGetName, (char *name, int length, int device))                                              \
    X(device_attribute, cuDeviceGetAttribute, (int *value, int attribute, int device))                                 \
    X(current_device, cuCtxGetDevice, (int *device))                                                                   \
    X(context_push, cuCtxPushCurrent_v2, (struct CUctx_st * context))                                                  \
    X(context_pop, cuCtxPopCurrent_v2, (struct CUctx_st * *context))                                                   \
    X(stream_context, cuStreamGetCtx, (struct CUstream_st * stream, struct CUctx_st * *context))                       \
    X(error_name, cuGetErrorName, (int result, const char **name))                                                     \
    X(error_string, cuGetErrorString, (int result, const char **text))                                                 \
    X(library_load, cuLibraryLoadData,                                                                                 \
      (struct CUlib_st * *library, const void *code, void *jit_options, void **jit_values, unsigned jit_count,         \
       void *options, void **values, unsigned count))                                                                  \
    X(library_unload, cuLibraryUnload, (struct CUlib_st * library))                                                    \
    X(library_kernel, cuLibraryGetKernel, (struct CUkern_st * *kernel, struct CUlib_st * library, const char *name))   \
    X(kernel_set, cuKernelSetAttribute, (int attribute, int value, struct CUkern_st *kernel, int device))              \
    X(launch, cuLaunchKernelEx,                                                                                        \
      (const struct launch_config *config, struct CUkern_st *kernel, void **parameters, void **extra))                 \
    X(fill_words, cuMemsetD32Async, (uint64_t address, unsigned value, size_t count, struct CUstream_st *stream))      \
    X(capture_mode, cuThreadExchangeStreamCaptureMode, (int *mode))

/* Used where it is there. */
#define DRIVER_OPTIONAL_FUNCTIONS(X)                                                                                   \
    X(kernel_function, cuKernelGetFunction, (void **function, struct CUkern_st *kernel))                               \
    X(is_capturing, cuStreamIsCapturing, (struct CUstream_st * stream, int *status))                                   \
    X(function_load, cuFuncLoad, (void *function)) /* CUDA 12.4 */                                                     \
    X(tensor_map_encode, cuTensorMapEncodeTiled,                                                                       \
      (void *map, int type, unsigned rank, void *data, const uint64_t *extents, const uint64_t *strides,               \
       const uint32_t *box, const uint32_t *steps, int interleave, int swizzle, int promotion,                         \
       int fill)) /* CUDA 12.0 */

struct device {
    int handle;     /* CUdevice */
    int capability; /* * 10 */
    int arch;       /* number of the row in archs.def whose code it runs; 0: none */
    int sms;        /* multiprocessors */
    char name[128];
};

struct driver {
#define DRIVER_POINTER(name, symbol, parameters) int(*name) parameters;
    DRIVER_FUNCTIONS(DRIVER_POINTER)
    DRIVER_OPTIONAL_FUNCTIONS(DRIVER_POINTER)
#undef DRIVER_POINTER
    int version; /* 13000 */
    char path[4096];
    /* Once started: */
    struct device *devices;
    int device_total;
    int common_arch;  /* of all devices; 0 when they differ */
    pid_t started_by; /* the process that called cuInit */
};

/* Loads the library `path` names, or libcuda.so.1. GDPA_E_NO_DRIVER with what was tried. Freed by driver_free. */
gdpa_status driver_open(const char *path, struct driver **driver, struct sbuf *why);

/* cuInit and the devices. GDPA_E_NO_DRIVER when there is none. */
gdpa_status driver_start(struct driver *driver, struct sbuf *why);
void driver_free(struct driver *driver);

/*
 * The architecture of the device that the stream (when not NULL) is on, else of the context current on this thread, else
 * of device 0. Fails with GDPA_E_UNSUPPORTED for a device that no row of archs.def is for.
 */
gdpa_status driver_arch(const struct driver *driver, struct CUstream_st *stream, int *arch, struct sbuf *why);

/* Whether code of a target runs on a device: the same chip for those with a suffix, else the same major version. */
bool device_runs(const struct device *device, const struct arch_row *row);

/* "what failed: CUDA_ERROR_X (209): text"; returns GDPA_E_DRIVER. */
gdpa_status driver_fail(const struct driver *driver, int result, struct sbuf *why, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* "0: NVIDIA H200 (9.0)" for each device, separated by commas. */
void driver_list_devices(const struct driver *driver, struct sbuf *text);

#endif
