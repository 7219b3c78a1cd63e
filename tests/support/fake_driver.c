/*
 * libfake_driver.so; see fake_driver.h.
 */
#include "tests/support/fake_driver.h"
#include "tests/support/fake_driver_control.h"
#include "tests/support/fake_driver_state.h"

#include <elf.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Takes the lock, counts, and gives the result that was asked for. */
static int enter(enum function function)
{
    pthread_mutex_lock(&lock);
    state.calls[function]++;
    if (state.result[function] == OK) {
        return OK;
    }
    if (state.skip[function] > 0) {
        state.skip[function]--;
        return OK;
    }
    return state.result[function];
}

static int leave(int result)
{
    pthread_mutex_unlock(&lock);
    return result;
}

/* enter() for what needs cuInit. */
static int enter_started(enum function function)
{
    const int result = enter(function);
    return result == OK && (!state.initialised || state.of_parent) ? NOT_INITIALIZED : result;
}

/* enter_started() for what a capture allows in the relaxed mode alone. */
static int enter_uncaptured(enum function function)
{
    const int result = enter_started(function);
    if (result == OK && state.capturing && thread_mode != CAPTURE_RELAXED) {
        state.poisoned = true;
        return STREAM_CAPTURE_UNSUPPORTED;
    }
    return result;
}

static int current_device(void)
{
    return current_stack[current_depth];
}

static bool runs(int capability, int arch)
{
    return capability / 10 == arch / 10 && capability >= arch;
}

/* What is exported has a prototype, though nothing includes one. */
#define DRIVER(name, parameters)                                                                                       \
    int name parameters;                                                                                               \
    EXPORT int name parameters

DRIVER(cuInit, (unsigned flags))
{
    int result = enter(F_cuInit);
    if (result == OK) {
        result = state.of_parent                                            ? NOT_INITIALIZED
                 : flags != 0                                               ? INVALID_VALUE
                 : state.device_count == 0 && !state.starts_without_devices ? NO_DEVICE
                                                                            : OK;
        state.initialised = result == OK || state.of_parent;
    }
    return leave(result);
}

DRIVER(cuDriverGetVersion, (int *version))
{
    const int result = enter(F_cuDriverGetVersion);
    *version = state.version;
    return leave(result);
}

DRIVER(cuDeviceGetCount, (int *count))
{
    const int result = enter_started(F_cuDeviceGetCount);
    *count = state.device_count;
    return leave(result);
}

DRIVER(cuDeviceGet, (int *device, int ordinal))
{
    int result = enter_started(F_cuDeviceGet);
    if (result == OK && (ordinal < 0 || ordinal >= state.device_count)) {
        result = INVALID_VALUE;
    }
    *device = ordinal;
    return leave(result);
}

DRIVER(cuDeviceGetName, (char *name, int length, int device))
{
    const int result = enter_started(F_cuDeviceGetName);
    if (result == OK) {
        snprintf(name, (size_t)length, "Fake GPU %d", state.capabilities[device]);
    }
    return leave(result);
}

DRIVER(cuDeviceGetAttribute, (int *value, int attribute, int device))
{
    int result = enter_started(F_cuDeviceGetAttribute);
    if (result == OK) {
        const int capability = state.capabilities[device];
        *value = attribute == 16 ? 132 : attribute == 75 ? capability / 10 : capability % 10;
        result = attribute == 16 || attribute == 75 || attribute == 76 ? OK : INVALID_VALUE;
    }
    return leave(result);
}

DRIVER(cuCtxGetDevice, (int *device))
{
    int result = enter_started(F_cuCtxGetDevice);
    if (result == OK) {
        *device = current_device();
        result = current_device() == CURRENT_NONE ? INVALID_CONTEXT : OK;
    }
    return leave(result);
}

DRIVER(cuCtxPushCurrent_v2, (struct CUctx_st * context))
{
    const int result = enter_started(F_cuCtxPushCurrent_v2);
    if (result == OK) {
        current_stack[++current_depth] = context->device;
    }
    return leave(result);
}

DRIVER(cuCtxPopCurrent_v2, (struct CUctx_st * *context))
{
    int result = enter_started(F_cuCtxPopCurrent_v2);
    if (result == OK && current_depth == 0) {
        result = INVALID_CONTEXT;
    } else if (result == OK) {
        *context = &contexts[current_device()];
        current_depth--;
    }
    return leave(result);
}

DRIVER(cuStreamGetCtx, (struct CUstream_st * stream, struct CUctx_st **context))
{
    const int result = enter_started(F_cuStreamGetCtx);
    if (result == OK) {
        *context = &contexts[stream->device];
    }
    return leave(result);
}

DRIVER(cuGetErrorName, (int result, const char **name))
{
    *name = error_name(result);
    const int own = enter(F_cuGetErrorName);
    return leave(own != OK ? own : *name == NULL ? INVALID_VALUE : OK);
}

DRIVER(cuGetErrorString, (int result, const char **text))
{
    *text = result == OK ? "no error" : "a fault of the fake driver";
    return leave(enter(F_cuGetErrorString));
}

DRIVER(cuLibraryLoadData, (struct CUlib_st * *library, const void *code, void *jit_options, void **jit_values,
                           unsigned jit_count, void *options, void **values, unsigned count))
{
    int result = enter_uncaptured(F_cuLibraryLoadData);
    Elf64_Ehdr header;
    memcpy(&header, code, sizeof header);
    state.mode_at_load = thread_mode;
    if (result == OK && (jit_options != NULL || jit_values != NULL || jit_count != 0 || options != NULL ||
                         values != NULL || count != 0)) {
        result = INVALID_VALUE;
    }
    if (result == OK && (memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_machine != 190)) {
        result = INVALID_IMAGE;
    }
    if (result == OK && state.refuse != NULL) {
        result = state.refuse(code);
    }
    struct CUlib_st *loaded = result == OK ? calloc(1, sizeof *loaded) : NULL;
    if (loaded != NULL) {
        loaded->magic = LIBRARY_MAGIC;
        loaded->epoch = state.epoch;
        for (int i = 0; i < 2; i++) {
            loaded->kernels[i].library = loaded;
            loaded->kernels[i].arch =
                (int)((header.e_ident[EI_ABIVERSION] >= 8 ? header.e_flags >> 8 : header.e_flags) & 0xff);
        }
        loaded->next = libraries;
        libraries = loaded;
        state.loaded++;
        *library = loaded;
    }
    return leave(result);
}

DRIVER(cuLibraryUnload, (struct CUlib_st * library))
{
    int result = enter_uncaptured(F_cuLibraryUnload);
    if (result == OK && (library->magic != LIBRARY_MAGIC || library->epoch != state.epoch)) {
        result = INVALID_HANDLE;
    }
    if (result == OK) {
        struct CUlib_st **link = &libraries;
        while (*link != library) {
            link = &(*link)->next;
        }
        *link = library->next;
        library->magic = 0;
        state.loaded--;
        free(library);
    }
    return leave(result);
}

static bool ends_with(const char *name, const char *end)
{
    const size_t length = strlen(name);
    return length > strlen(end) && strcmp(name + length - strlen(end), end) == 0;
}

/* The names of second kernels of a source. */
static bool is_second(const char *name)
{
    return ends_with(name, "_dq") || ends_with(name, "_schedule");
}

DRIVER(cuLibraryGetKernel, (struct CUkern_st * *kernel, struct CUlib_st *library, const char *name))
{
    int result = enter_started(F_cuLibraryGetKernel);
    if (result == OK && library->magic != LIBRARY_MAGIC) {
        result = INVALID_HANDLE;
    }
    if (result == OK) {
        struct CUkern_st *found = &library->kernels[is_second(name)];
        snprintf(found->name, sizeof found->name, "%s", name);
        *kernel = found;
    }
    return leave(result);
}

DRIVER(cuKernelSetAttribute, (int attribute, int value, struct CUkern_st *kernel, int device))
{
    int result = enter_uncaptured(F_cuKernelSetAttribute);
    if (device >= 0 && device < DEVICES_MAX) {
        state.attribute_calls[device]++;
    }
    if (result == OK && (kernel->library->magic != LIBRARY_MAGIC || attribute != 8 || value < 0 || device < 0 ||
                         device >= state.device_count)) {
        result = INVALID_VALUE;
    }
    return leave(result);
}

DRIVER(cuKernelGetFunction, (void **function, struct CUkern_st *kernel))
{
    int result = enter_started(F_cuKernelGetFunction);
    if (result == OK && current_device() == CURRENT_NONE) {
        result = INVALID_CONTEXT;
    }
    *function = kernel;
    return leave(result);
}

DRIVER(cuFuncLoad, (void *function))
{
    const int result = enter_uncaptured(F_cuFuncLoad);
    return leave(function == NULL ? INVALID_HANDLE : result);
}

static int launch_check(const struct config *config, const struct CUkern_st *kernel, int device)
{
    if (config->stream == NULL ? device == CURRENT_NONE : state.needs_current && current_device() == CURRENT_NONE) {
        return INVALID_CONTEXT;
    }
    if (kernel->library->magic != LIBRARY_MAGIC) {
        return INVALID_HANDLE;
    }
    if (kernel->library->epoch != state.epoch) {
        return CONTEXT_IS_DESTROYED;
    }
    if (!runs(state.capabilities[device], kernel->arch)) {
        return NO_BINARY_FOR_GPU;
    }
    const bool sane = config->grid_x >= 1 && config->grid_x <= 0x7fffffffu && config->grid_y >= 1 &&
                      config->grid_y <= 65535 && config->grid_z == 1 && config->block_x >= 1 &&
                      config->block_x <= 1024 && config->block_y == 1 && config->block_z == 1 &&
                      config->attribute_count == 0;
    return sane ? OK : INVALID_VALUE;
}

DRIVER(cuLaunchKernelEx, (const struct config *config, struct CUkern_st *kernel, void **parameters, void **extra))
{
    int result = enter_started(F_cuLaunchKernelEx);
    const int device = config->stream != NULL ? config->stream->device : current_device();
    if (result == OK) {
        result = extra != NULL ? INVALID_VALUE : launch_check(config, kernel, device);
    }
    if (result == OK && state.params_size > 0) {
        state.launched = true;
        state.launches++;
        state.before_last = state.last;
        state.last = (struct fake_launch){.grid = config->grid_x,
                                          .grid_y = config->grid_y,
                                          .block = config->block_x,
                                          .shared_bytes = config->shared_bytes,
                                          .stream = config->stream,
                                          .device = device};
        memcpy(state.last.kernel, kernel->name, sizeof state.last.kernel);
        memcpy(state.last.params, parameters[0],
               state.params_size < sizeof state.last.params ? state.params_size : sizeof state.last.params);
    }
    return leave(result);
}

DRIVER(cuMemsetD32Async, (uint64_t address, unsigned value, size_t count, struct CUstream_st *stream))
{
    int result = enter_started(F_cuMemsetD32Async);
    if (result == OK && (stream == NULL || state.needs_current) && current_device() == CURRENT_NONE) {
        result = INVALID_CONTEXT;
    }
    if (result == OK && (address % 4 != 0 || count == 0)) {
        result = INVALID_VALUE;
    }
    if (result == OK) {
        state.filled = true;
        state.fill = (struct fake_fill){address, value, count, stream, state.launches};
    }
    return leave(result);
}

DRIVER(cuStreamIsCapturing, (struct CUstream_st * stream, int *status))
{
    const int result = enter_started(F_cuStreamIsCapturing);
    *status = stream != NULL && state.capturing ? 1 : 0;
    return leave(result);
}

DRIVER(cuThreadExchangeStreamCaptureMode, (int *mode))
{
    const int result = enter(F_cuThreadExchangeStreamCaptureMode);
    if (result == OK) {
        const int previous = thread_mode;
        thread_mode = *mode;
        *mode = previous;
    }
    return leave(result);
}

/* Refuses what the manual of cuTensorMapEncodeTiled refuses for 16-bit types; the map names its address and rank. */
DRIVER(cuTensorMapEncodeTiled,
       (void *map, int type, unsigned rank, void *data, const uint64_t *extents, const uint64_t *strides,
        const uint32_t *box, const uint32_t *steps, int interleave, int swizzle, int promotion, int fill))
{
    int result = enter(F_cuTensorMapEncodeTiled);
    bool good = (uintptr_t)map % 64 == 0 && (uintptr_t)data % 16 == 0 && data != NULL && rank >= 1 && rank <= 5 &&
                (type == 6 || type == 9) && interleave == 0 && swizzle >= 0 && swizzle <= 3 && promotion >= 0 &&
                promotion <= 3 && fill == 0;
    for (unsigned i = 0; good && i < rank; i++) {
        good = extents[i] >= 1 && extents[i] <= (UINT64_C(1) << 32) && box[i] >= 1 && box[i] <= 256 && steps[i] == 1 &&
               (i == 0 || (strides[i - 1] % 16 == 0 && strides[i - 1] < (UINT64_C(1) << 40)));
    }
    if (result == OK && !good) {
        result = INVALID_VALUE;
    }
    if (result == OK) {
        memset(map, 0, 128);
        memcpy(map, &data, sizeof data);
        memcpy((char *)map + sizeof data, &rank, sizeof rank);
    }
    return leave(result);
}
