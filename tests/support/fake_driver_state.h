/*
 * What the fake driver knows: its handles, its settings, what it counted. Of fake_driver.c alone.
 */
#ifndef GDPA_TESTS_SUPPORT_FAKE_DRIVER_STATE_H
#define GDPA_TESTS_SUPPORT_FAKE_DRIVER_STATE_H

#include "tests/support/fake_driver.h"
#include "tests/support/fake_driver_names.h"

#include <pthread.h>
#include <stdint.h>

#define EXPORT __attribute__((visibility("default")))
#define DEVICES_MAX 16
#define CURRENT_NONE (-1)
#define CAPTURE_RELAXED 2

struct CUctx_st {
    int device;
};
struct CUstream_st {
    int device;
};
struct CUkern_st {
    char name[256];
    int arch;
    struct CUlib_st *library;
};
struct CUlib_st {
    uint32_t magic;
    struct CUlib_st *next; /* of all that are loaded, so that those of before a reset are not lost */
    int epoch;
    struct CUkern_st kernels[2]; /* the second one of a backward pass has a suffix */
};
#define LIBRARY_MAGIC UINT32_C(0x6c696221)

struct config {
    unsigned grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes;
    struct CUstream_st *stream;
    void *attributes;
    unsigned attribute_count;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static struct {
    int device_count, capabilities[DEVICES_MAX];
    int version;
    bool initialised, needs_current, launched;
    bool starts_without_devices; /* cuInit works, and then there is none */
    bool of_parent;              /* this is a child of a process that was initialised: nothing works */
    long calls[FUNCTION_COUNT], skip[FUNCTION_COUNT];
    int result[FUNCTION_COUNT];
    long attribute_calls[DEVICES_MAX], loaded, mode_at_load;
    bool capturing, poisoned; /* a stream of this process captures; something was done that it does not allow */
    int epoch;                /* of the devices: what was loaded before a reset is void */
    size_t params_size;
    struct fake_launch last, before_last;
    long launches;
    fake_refuse refuse;
    bool filled;
    struct fake_fill fill;
} state;

static struct CUlib_st *libraries;
static struct CUctx_st contexts[DEVICES_MAX];
static struct CUstream_st streams[DEVICES_MAX];
static _Thread_local int current_stack[16] = {CURRENT_NONE};
static _Thread_local int current_depth;
static _Thread_local int thread_mode;

#endif
