/*
 * The element types as the kernel sees them: two 16-bit elements in a register, lower index in the lower half.
 */
#ifndef GDPA_NUMERIC_CUH
#define GDPA_NUMERIC_CUH

#include "config_default.cuh"
#include "ptx/convert.cuh"
#include "ptx/math.cuh"
#include "ptx/packed_math.cuh"

//@if bf16
__device__ inline uint32_t pack_input(float low, float high)
{
    return cvt_rn_bf16x2_f32(low, high);
}

__device__ inline uint32_t pack_input_relu(float low, float high)
{
    return cvt_rn_relu_bf16x2_f32(low, high);
}

__device__ inline float unpack_input_low(uint32_t packed)
{
    return bits_as_float(packed << 16);
}

__device__ inline float unpack_input_high(uint32_t packed)
{
    return bits_as_float(packed & 0xffff0000u);
}

__device__ inline uint32_t packed_fma(uint32_t a, uint32_t b, uint32_t c)
{
    return fma_rn_bf16x2(a, b, c);
}

/* Before sm_90 there is no bf16 tanh: each half takes the way through fp32. */
__device__ inline uint32_t packed_tanh(uint32_t a)
{
    if constexpr (kArch >= 90) {
        return tanh_approx_bf16x2(a);
    } else {
        return pack_input(tanh_approx_f32(unpack_input_low(a)), tanh_approx_f32(unpack_input_high(a)));
    }
}
//@else
__device__ inline uint32_t pack_input(float low, float high)
{
    return cvt_rn_f16x2_f32(low, high);
}

__device__ inline uint32_t pack_input_relu(float low, float high)
{
    return cvt_rn_relu_f16x2_f32(low, high);
}

__device__ inline float unpack_input_low(uint32_t packed)
{
    return cvt_f32_f16(static_cast<uint16_t>(packed));
}

__device__ inline float unpack_input_high(uint32_t packed)
{
    return cvt_f32_f16(static_cast<uint16_t>(packed >> 16));
}

__device__ inline uint32_t packed_fma(uint32_t a, uint32_t b, uint32_t c)
{
    return fma_rn_f16x2(a, b, c);
}

__device__ inline uint32_t packed_tanh(uint32_t a)
{
    return tanh_approx_f16x2(a);
}
//@endif

__device__ inline uint32_t packed_constant(float value)
{
    return pack_input(value, value);
}

/* The final factor. Adding +0 makes the empty sum +0 whatever the sign of the factor is. */
__device__ inline float scale_output(float sum, float factor)
{
    return fma_rn_f32(sum, factor, 0.0f);
}

//@if out_bf16
__device__ inline uint32_t pack_output(float low, float high)
{
    return cvt_rn_bf16x2_f32(low, high);
}
//@endif
//@if out_fp16
__device__ inline uint32_t pack_output(float low, float high)
{
    return cvt_rn_f16x2_f32(low, high);
}
//@endif

#endif
