/*
 * Host bodies of templates/ptx/convert.cuh.
 */
#ifndef GDPA_EMU_PTX_CONVERT_HPP
#define GDPA_EMU_PTX_CONVERT_HPP

#include "tests/emu/float_formats.hpp"

#include <cstdint>

/* NaN stays NaN, everything below +0 becomes +0. */
inline float relu_of(float value)
{
    return value > 0.0f || value != value ? value : 0.0f;
}

inline uint32_t cvt_rn_bf16x2_f32(float low, float high)
{
    return emu::float_to_bf16(low) | static_cast<uint32_t>(emu::float_to_bf16(high)) << 16;
}

inline uint32_t cvt_rn_relu_bf16x2_f32(float low, float high)
{
    return cvt_rn_bf16x2_f32(relu_of(low), relu_of(high));
}

inline uint32_t cvt_rn_f16x2_f32(float low, float high)
{
    return emu::float_to_fp16(low) | static_cast<uint32_t>(emu::float_to_fp16(high)) << 16;
}

inline uint32_t cvt_rn_relu_f16x2_f32(float low, float high)
{
    return cvt_rn_f16x2_f32(relu_of(low), relu_of(high));
}

inline float cvt_f32_f16(uint16_t value)
{
    return emu::fp16_to_float(value);
}

inline uint32_t float_as_bits(float value)
{
    return emu::bits_of(value);
}

inline float bits_as_float(uint32_t bits)
{
    return emu::float_of(bits);
}

#endif
