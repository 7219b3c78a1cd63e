/*
 * Host bodies of templates/ptx/fma_rz.cuh.
 */
#ifndef GDPA_EMU_PTX_FMA_RZ_HPP
#define GDPA_EMU_PTX_FMA_RZ_HPP

#include "tests/emu/float_formats.hpp"

#include <cmath>

inline float fma_rz_f32(float a, float b, float c)
{
    const double odd = emu::fused_round_to_odd(static_cast<double>(a), static_cast<double>(b), static_cast<double>(c));
    const float nearest = static_cast<float>(odd);
    if (nearest != nearest) {
        return emu::float_of(0x7fffffffu);
    }
    return std::fabs(static_cast<double>(nearest)) > std::fabs(odd) ? std::nextafter(nearest, 0.0f) : nearest;
}

#endif
