/*
 * A multiply-add that rounds towards zero: it never overflows to infinity. PTX ISA, "fma".
 */
#ifndef GDPA_PTX_FMA_RZ_CUH
#define GDPA_PTX_FMA_RZ_CUH

/* Where the result is too large for fp32, that is the largest finite number with its sign. */
__device__ inline float fma_rz_f32(float a, float b, float c)
{
    float d;
    asm("fma.rz.f32 %0, %1, %2, %3;" : "=f"(d) : "f"(a), "f"(b), "f"(c));
    return d;
}

#endif
