/*
 * What the experiments of driver_probe share: the driver and NVRTC by dlopen, code that was compiled once, answers.
 */
#ifndef GDPA_BENCH_DRIVER_PROBE_H
#define GDPA_BENCH_DRIVER_PROBE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* X(name, symbol, parameters) */
#define PROBE_DRIVER(X)                                                                                                \
    X(init, cuInit, (unsigned))                                                                                        \
    X(version, cuDriverGetVersion, (int *))                                                                            \
    X(device_get, cuDeviceGet, (int *, int))                                                                           \
    X(device_count, cuDeviceGetCount, (int *))                                                                         \
    X(device_attribute, cuDeviceGetAttribute, (int *, int, int))                                                       \
    X(device_name, cuDeviceGetName, (char *, int, int))                                                                \
    X(context_retain, cuDevicePrimaryCtxRetain, (void **, int))                                                        \
    X(context_reset, cuDevicePrimaryCtxReset_v2, (int))                                                                \
    X(context_set, cuCtxSetCurrent, (void *))                                                                          \
    X(synchronize, cuCtxSynchronize, (void))                                                                           \
    X(stream_create, cuStreamCreate, (void **, unsigned))                                                              \
    X(stream_sync, cuStreamSynchronize, (void *))                                                                      \
    X(capture_begin, cuStreamBeginCapture_v2, (void *, int))                                                           \
    X(capture_end, cuStreamEndCapture, (void *, void **))                                                              \
    X(capture_mode, cuThreadExchangeStreamCaptureMode, (int *))                                                        \
    X(memory_info, cuMemGetInfo_v2, (size_t *, size_t *))                                                              \
    X(memory_alloc, cuMemAlloc_v2, (uint64_t *, size_t))                                                               \
    X(library_load, cuLibraryLoadData, (void **, const void *, void *, void *, unsigned, void *, void *, unsigned))    \
    X(library_unload, cuLibraryUnload, (void *))                                                                       \
    X(library_kernel, cuLibraryGetKernel, (void **, void *, const char *))                                             \
    X(kernel_function, cuKernelGetFunction, (void **, void *))                                                         \
    X(kernel_set, cuKernelSetAttribute, (int, int, void *, int))                                                       \
    X(function_load, cuFuncLoad, (void *))                                                                             \
    X(launch_ex, cuLaunchKernelEx, (const void *, void *, void **, void **))                                           \
    X(launch, cuLaunchKernel,                                                                                          \
      (void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **, void **))        \
    X(event_create, cuEventCreate, (void **, unsigned))                                                                \
    X(event_record, cuEventRecord, (void *, void *))                                                                   \
    X(event_sync, cuEventSynchronize, (void *))                                                                        \
    X(event_elapsed, cuEventElapsedTime, (float *, void *, void *))                                                    \
    X(tensor_map, cuTensorMapEncodeTiled,                                                                              \
      (void *, int, unsigned, void *, const uint64_t *, const uint64_t *, const uint32_t *, const uint32_t *, int,     \
       int, int, int))                                                                                                 \
    X(error_name, cuGetErrorName, (int, const char **))

#define PROBE_NVRTC(X)                                                                                                 \
    X(create, nvrtcCreateProgram,                                                                                      \
      (void **, const char *, const char *, int, const char *const *, const char *const *))                            \
    X(compile, nvrtcCompileProgram, (void *, int, const char *const *))                                                \
    X(destroy, nvrtcDestroyProgram, (void **))                                                                         \
    X(cubin_size, nvrtcGetCUBINSize, (void *, size_t *))                                                               \
    X(cubin, nvrtcGetCUBIN, (void *, char *))                                                                          \
    X(nvrtc_version, nvrtcVersion, (int *, int *))

struct probe_calls {
#define PROBE_POINTER(name, symbol, parameters) int(*name) parameters;
    PROBE_DRIVER(PROBE_POINTER)
    PROBE_NVRTC(PROBE_POINTER)
#undef PROBE_POINTER
};

enum { CODE_SMALL, CODE_MIDDLE, CODE_LARGE, CODE_PLAIN_ARCH, CODE_OLDER_ARCH, CODE_NEWER_ARCH, CODE_COUNT };

struct probe_code {
    size_t size; /* 0: could not be compiled */
    char bytes[1 << 20];
};

/* Memory that all children share with the parent. */
struct probe_shared {
    struct probe_code code[CODE_COUNT];
    int capability; /* compute capability * 10; 0: no GPU */
    int position;   /* of an experiment that goes on behind a crash */
    int crashes;
    bool silent;     /* that there is no driver was said */
    char doing[128]; /* in the middle of what a child is */
};

extern struct probe_calls *const calls;
extern struct probe_shared *shared;
extern const char *nvrtc_path, *driver_path; /* of the command line, or NULL */

/* One answer, as a line of text and a record. */
void answer(const char *probe, const char *key, const char *format, ...) __attribute__((format(printf, 3, 4)));

bool driver_load(void);
bool nvrtc_load(void);

/* cuInit, device 0, its primary context, a stream. False, with an answer, when that fails. */
bool device_open(const char *probe, void **stream);

/* "CUDA_SUCCESS" and so on. */
const char *result_name(int result);

/* Malloced; NULL when it does not compile. */
char *compile_cubin(const char *source, const char *arch, const char *more, size_t *size);

double seconds_now(void);
double median_of(double *values, int count);

/* Loads and finds the kernel "k"; 0 or the error of the first call that failed. */
int code_load(const void *code, void **library, void **kernel);

/* The experiments, by the numbers of the open questions. */
void probe_compile(void);         /* makes the code that the others use */
void probe_bad_code(void);        /* 1 */
void probe_load_cost(void);       /* 2 */
void probe_launch_cost(void);     /* 3 */
void probe_capture(void);         /* 4 */
void probe_nvrtc_and_cuda(void);  /* 5 */
void probe_reset(void);           /* 6 */
void probe_second_device(void);   /* 6 */
void probe_arch_suffix(void);     /* 7 */
void probe_compile_threads(void); /* 8 */

#endif
