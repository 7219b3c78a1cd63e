/*
 * Host bodies of templates/ptx/math.cuh.
 */
#ifndef GDPA_EMU_PTX_MATH_HPP
#define GDPA_EMU_PTX_MATH_HPP

#include "tests/emu/float_formats.hpp"

#include <cmath>

/* The NaN that the hardware makes. */
inline float nan_f32()
{
    return emu::float_of(0x7fffffffu);
}

inline float fma_rn_f32(float a, float b, float c)
{
    const float d = std::fma(a, b, c);
    return d == d ? d : nan_f32();
}

inline float fma_rn_sat_f32(float a, float b, float c)
{
    const float d = std::fma(a, b, c);
    return d > 0.0f ? (d < 1.0f ? d : 1.0f) : 0.0f;
}

/* -0 is below +0. */
inline float max_f32(float a, float b)
{
    if (a != a || b != b) {
        return a != a ? (b != b ? nan_f32() : b) : a;
    }
    return a == b ? (std::signbit(a) ? b : a) : (a > b ? a : b);
}

inline float abs_f32(float a)
{
    return std::fabs(a);
}

inline float max_nan_f32(float a, float b)
{
    return a != a || b != b ? nan_f32() : max_f32(a, b);
}

inline float min_nan_f32(float a, float b)
{
    if (a != a || b != b) {
        return nan_f32();
    }
    return a == b ? (std::signbit(a) ? a : b) : (a < b ? a : b);
}

inline float flush_subnormal(float value)
{
    return std::fpclassify(value) == FP_SUBNORMAL ? std::copysign(0.0f, value) : value;
}

inline float ex2_approx_ftz_f32(float a)
{
    return flush_subnormal(std::exp2(flush_subnormal(a)));
}

inline float lg2_approx_ftz_f32(float a)
{
    return flush_subnormal(std::log2(flush_subnormal(a)));
}

inline float rcp_approx_ftz_f32(float a)
{
    return flush_subnormal(1.0f / flush_subnormal(a));
}

inline float tanh_approx_f32(float a)
{
    return std::tanh(a);
}

#endif
