/*
 * Runs one case of verify on a device and judges everything that the launch left behind:
 *
 *     the output, or the gradients, against the float64 reference, by the accuracy rule of tests/support/compare.h;
 *     rows that see no key, and gradients of keys that no row sees: +0, bit for bit;
 *     a second launch: the same bits, but for dq unless the kernel is deterministic; then 49 more launches;
 *     output elements outside sequences, gaps between strides, guards, inputs: untouched, bit for bit.
 *
 * A case whose reference would take too long is compared in a sample: all blocks (64 rows of a head) of the first, the
 * last and the longest sequence, and random ones up to SAMPLE_FLOPS; all the rest of the above is still checked whole, and
 * no element may be left unwritten or not finite.
 *
 * The device is a table of functions, so that tests run the same code on host memory with kernels full of planted faults.
 */
#ifndef GDPA_TOOLS_VERIFY_RUN_H
#define GDPA_TOOLS_VERIFY_RUN_H

#include "tools/verify_case.h"

/* What is known of a kernel; "" and 0 where it is not. */
struct kernel_facts {
    char spec[512]; /* canonical text */
    char source[40];
    char nvrtc[32];
    char target[32];
    int registers, spill_bytes, smem_bytes;
};

struct verify_device {
    void *self;
    /* Those that give a bool: false, and why() tells the reason. */
    bool (*open)(void *self);
    bool (*alloc)(void *self, size_t bytes, void **memory);
    bool (*fill)(void *self, void *memory, unsigned char value, size_t bytes);
    bool (*upload)(void *self, void *to, const void *from, size_t bytes);
    bool (*download)(void *self, void *to, const void *from, size_t bytes);
    /* Fills what is known without a compiler, spec alone: a kernel that cannot be made is recorded, too. */
    void (*describe)(void *self, const char *spec, struct kernel_facts *facts);
    bool (*prepare)(void *self, const char *spec, gdpa_spec *parsed, struct kernel_facts *facts);
    bool (*launch)(void *self, const gdpa_args *args); /* the prepared kernel; returns when it has run */
    void (*release)(void *self, void *memory);
    /* Host memory for copies, the device's own; NULL, and why() tells the reason, when there is none. */
    void *(*staging)(void *self, size_t *bytes);
    const char *(*why)(void *self);
    /* Filled by open, for records. */
    char gpu[128], slug[64], driver[64];
};

struct case_result {
    bool good;
    bool lost; /* the device failed: nothing more can be run on it */
    bool sampled;
    long long elements; /* compared */
    long long
        at_kinks; /* of them: gradients that hang on a score at a kink of the activation (tests/support/reference.h) */
    long long excused; /* of those: too far off but for what that allows */
    double max_error, bound, ratio, frobenius;
    char message[480]; /* of the first thing that is wrong */
};

struct run_options {
    int threads;         /* of the reference; 0: one a processor */
    double sample_flops; /* 0: SAMPLE_FLOPS */
    uint64_t seed;
};
#define SAMPLE_FLOPS 40e9

struct case_result case_run(const struct verify_device *device, struct verify_case *made,
                            const struct run_options *options);

#endif
