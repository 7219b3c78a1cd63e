/*
 * Kernels from specs by the real NVRTC, for tests that look at what the compiler made.
 */
#ifndef GDPA_TESTS_SUPPORT_KERNEL_BUILD_H
#define GDPA_TESTS_SUPPORT_KERNEL_BUILD_H

#include "gen/plan.h"
#include "runtime/compile.h"

/* The library of GDPAJIT_NVRTC, else of the usual places. NULL, with where it looked in *why, when there is none. */
struct nvrtc *kernel_build_nvrtc(struct sbuf *why);

struct kernel_build {
    gdpa_spec spec; /* normalised */
    struct kernel_plan plan;
    struct sbuf text; /* canonical */
    struct sbuf name;
    struct compile_result result;
};

/* Fills spec, plan and text of a build; kernel_build_make compiles it. Ended by kernel_build_deinit, also after a failure. */
gdpa_status kernel_build_init(struct kernel_build *build, const char *spec, struct sbuf *why);
gdpa_status kernel_build_make(struct kernel_build *build, const struct nvrtc *nvrtc, struct sbuf *why);
void kernel_build_deinit(struct kernel_build *build);

#endif
