/*
 * A CUDA driver without a GPU (libfake_driver.so): counts calls, fails when told to, keeps the last launch.
 *
 * It refuses what the real one refuses: handles it did not give, code for other devices, launches without a context,
 * anything in a child of a process that called cuInit.
 * Programs under test are steered by the environment:
 *     FAKE_DRIVER_DEVICES="90,80"        compute capabilities; none: "90"
 *     FAKE_DRIVER_FAIL="cuInit:100"      this function gives this result
 */
#ifndef GDPA_TESTS_SUPPORT_FAKE_DRIVER_H
#define GDPA_TESTS_SUPPORT_FAKE_DRIVER_H

#include <stdbool.h>
#include <stddef.h>

struct CUstream_st;

struct fake_launch {
    unsigned grid, grid_y, block, shared_bytes;
    struct CUstream_st *stream;
    int device;
    unsigned char params[1280]; /* what the first kernel parameter points to; its size is the caller's to know */
    char kernel[256];
};

/* Of cuMemsetD32Async. */
struct fake_fill {
    unsigned long long address;
    unsigned value;
    size_t words;
    struct CUstream_st *stream;
    long launches; /* that were queued before it */
};

/* What loading some code gives: 0, or a result of the driver. */
typedef int (*fake_refuse)(const void *code);

/* The exported object `fake_driver`. Any thread may call. */
struct fake_driver {
    void (*reset)(void); /* as after loading, with the devices of the environment; loaded libraries stay */
    void (*devices)(int count, const int *capabilities);        /* none: cuInit works all the same */
    void (*version)(int version);                               /* 13000 */
    void (*fault)(const char *function, int result, long skip); /* after `skip` more calls; result 0: no longer */
    long (*calls)(const char *function);                        /* NULL: of all functions */
    void (*current)(int device);                                /* -1: no context is current on this thread */
    struct CUstream_st *(*stream)(int device);
    void (*needs_current)(bool needed); /* launches need a current context even with a stream */
    bool (*last_launch)(struct fake_launch *launch);
    long (*loaded)(void);                              /* libraries that were not unloaded */
    int (*attribute_calls)(int device);                /* cuKernelSetAttribute for it */
    int (*capture_mode)(void);                         /* of this thread */
    int (*capture_mode_at_load)(void);                 /* of the thread that loaded last */
    void (*params_size)(size_t bytes);                 /* to copy at a launch; 0: none */
    bool (*launch_before)(struct fake_launch *launch); /* the last launch */
    bool (*last_fill)(struct fake_fill *fill);
    void (*capture)(bool capturing);  /* streams capture from now on: loading is refused but in the relaxed mode */
    bool (*capture_poisoned)(void);   /* something was refused for that reason */
    void (*device_reset)(void);       /* what was loaded is void from now on */
    void (*refuse)(fake_refuse code); /* NULL: none */
};

#endif
