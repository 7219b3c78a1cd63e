/*
 * The functions of the fake driver, the results that they give, and the names of both.
 */
#ifndef GDPA_TESTS_SUPPORT_FAKE_DRIVER_NAMES_H
#define GDPA_TESTS_SUPPORT_FAKE_DRIVER_NAMES_H

#include <stddef.h>

#define FAKE_ERRORS(X)                                                                                                 \
    X(INVALID_VALUE, 1)                                                                                                \
    X(OUT_OF_MEMORY, 2)                                                                                                \
    X(NOT_INITIALIZED, 3)                                                                                              \
    X(NO_DEVICE, 100)                                                                                                  \
    X(INVALID_IMAGE, 200)                                                                                              \
    X(INVALID_CONTEXT, 201)                                                                                            \
    X(NO_BINARY_FOR_GPU, 209)                                                                                          \
    X(INVALID_HANDLE, 400)                                                                                             \
    X(NOT_FOUND, 500)                                                                                                  \
    X(CONTEXT_IS_DESTROYED, 709)                                                                                       \
    X(STREAM_CAPTURE_UNSUPPORTED, 900)

enum fake_error {
    OK = 0,
#define FAKE_ERROR_ENUM(name, number) name = (number),
    FAKE_ERRORS(FAKE_ERROR_ENUM)
#undef FAKE_ERROR_ENUM
};

#define FUNCTIONS(X)                                                                                                   \
    X(cuInit)                                                                                                          \
    X(cuDriverGetVersion)                                                                                              \
    X(cuDeviceGetCount)                                                                                                \
    X(cuDeviceGet)                                                                                                     \
    X(cuDeviceGetName)                                                                                                 \
    X(cuDeviceGetAttribute)                                                                                            \
    X(cuCtxGetDevice)                                                                                                  \
    X(cuCtxPushCurrent_v2)                                                                                             \
    X(cuCtxPopCurrent_v2)                                                                                              \
    X(cuStreamGetCtx)                                                                                                  \
    X(cuGetErrorName)                                                                                                  \
    X(cuGetErrorString)                                                                                                \
    X(cuLibraryLoadData)                                                                                               \
    X(cuLibraryUnload)                                                                                                 \
    X(cuLibraryGetKernel)                                                                                              \
    X(cuKernelSetAttribute)                                                                                            \
    X(cuKernelGetFunction)                                                                                             \
    X(cuFuncLoad)                                                                                                      \
    X(cuLaunchKernelEx)                                                                                                \
    X(cuMemsetD32Async)                                                                                                \
    X(cuTensorMapEncodeTiled)                                                                                          \
    X(cuThreadExchangeStreamCaptureMode)                                                                               \
    X(cuStreamIsCapturing)

enum function {
#define FUNCTION_ENUM(name) F_##name,
    FUNCTIONS(FUNCTION_ENUM)
#undef FUNCTION_ENUM
        FUNCTION_COUNT
};

static const char *const function_names[FUNCTION_COUNT] = {
#define FUNCTION_NAME(name) #name,
    FUNCTIONS(FUNCTION_NAME)
#undef FUNCTION_NAME
};

/* NULL: none of them. */
static inline const char *error_name(int number)
{
    switch (number) {
    case OK:
        return "CUDA_SUCCESS";
#define FAKE_ERROR_CASE(name, number)                                                                                  \
    case number:                                                                                                       \
        return "CUDA_ERROR_" #name;
        FAKE_ERRORS(FAKE_ERROR_CASE)
#undef FAKE_ERROR_CASE
    default:
        return NULL;
    }
}

#endif
