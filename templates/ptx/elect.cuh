/*
 * One lane of a warp. PTX ISA, "elect.sync" (sm_90).
 */
#ifndef GDPA_PTX_ELECT_CUH
#define GDPA_PTX_ELECT_CUH

#include "types.cuh"

/* True in one lane, the same one whenever the warp asks. Called by all lanes. */
__device__ inline bool elect_sync()
{
    uint32_t elected;
    asm volatile("{ .reg .pred p; elect.sync _|p, 0xffffffff; selp.u32 %0, 1, 0, p; }" : "=r"(elected)::"memory");
    return elected != 0;
}

#endif
