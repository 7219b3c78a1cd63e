/*
 * An NVRTC that compiles nothing (libfake_nvrtc.so): it answers with cubins of the right form, PTX and a log, counts
 * compiles, and fails when told to. Programs under test are steered by the environment:
 *     FAKE_NVRTC_VERSION="12.4"       default 13.0
 *     FAKE_NVRTC_ARCHS="80,90"        default: all of CUDA 13
 *     FAKE_NVRTC_FAIL="6"             result of every compile
 *     FAKE_NVRTC_CRASH="d40"          kernels with this in their name end the process
 *     FAKE_NVRTC_HANG="d40"           kernels with this in their name never end
 */
#ifndef GDPA_TESTS_SUPPORT_FAKE_NVRTC_H
#define GDPA_TESTS_SUPPORT_FAKE_NVRTC_H

#include <stdbool.h>

/* What goes wrong in an otherwise good compile. */
enum fake_output {
    FAKE_OUTPUT_GOOD,
    FAKE_OUTPUT_NO_CUBIN,
    FAKE_OUTPUT_WRONG_TARGET,
    FAKE_OUTPUT_WRONG_ENTRY,
    FAKE_OUTPUT_TRUNCATED,
    FAKE_OUTPUT_NO_RESOURCES,
    FAKE_OUTPUT_SPILLS
};

/* The exported object `fake_nvrtc`. Any thread may call. */
struct fake_nvrtc {
    void (*reset)(void);
    void (*version)(int major, int minor);
    void (*archs)(int count, const int *archs);
    void (*fault)(const char *function, int result); /* nvrtcCompileProgram and so on; 0: no longer */
    void (*output)(enum fake_output output);
    void (*delay)(int milliseconds); /* of a compile */
    long (*calls)(const char *function);
    long (*programs)(void);                  /* made and not destroyed */
    bool (*option_seen)(const char *option); /* in the last compile */
    void (*seed)(int seed);                  /* goes into the code: another compiler of the same version */
    int (*most_at_a_time)(void);             /* compiles that ran side by side */
};

#endif
