/*
 * Conversions between fp32 and 16-bit types, round to nearest even. PTX ISA, "cvt".
 *
 * Packed results have `low` in the lower half. Values beyond the largest finite fp16 become infinities.
 */
#ifndef GDPA_PTX_CONVERT_CUH
#define GDPA_PTX_CONVERT_CUH

#include "types.cuh"

__device__ inline uint32_t cvt_rn_bf16x2_f32(float low, float high)
{
    uint32_t packed;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(high), "f"(low));
    return packed;
}

/* max(x, 0) on the way; NaN stays NaN. */
__device__ inline uint32_t cvt_rn_relu_bf16x2_f32(float low, float high)
{
    uint32_t packed;
    asm("cvt.rn.relu.bf16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(high), "f"(low));
    return packed;
}

__device__ inline uint32_t cvt_rn_f16x2_f32(float low, float high)
{
    uint32_t packed;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(high), "f"(low));
    return packed;
}

__device__ inline uint32_t cvt_rn_relu_f16x2_f32(float low, float high)
{
    uint32_t packed;
    asm("cvt.rn.relu.f16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(high), "f"(low));
    return packed;
}

__device__ inline float cvt_f32_f16(uint16_t value)
{
    float wide;
    asm("cvt.f32.f16 %0, %1;" : "=f"(wide) : "h"(value));
    return wide;
}

/* The bits of an fp32 as they are. PTX ISA, "mov.b32". */
__device__ inline uint32_t float_as_bits(float value)
{
    uint32_t bits;
    asm("mov.b32 %0, %1;" : "=r"(bits) : "f"(value));
    return bits;
}

__device__ inline float bits_as_float(uint32_t bits)
{
    float value;
    asm("mov.b32 %0, %1;" : "=f"(value) : "r"(bits));
    return value;
}

#endif
