/*
 * Instructions for activations that run on the host: those of the emulator, but that the approximate ones are off by a part of the error that
 * the PTX manual allows them, in the direction that the test asks for.
 */
#ifndef GDPA_TESTS_TEMPLATES_HOST_ACTIVATION_HPP
#define GDPA_TESTS_TEMPLATES_HOST_ACTIVATION_HPP

/* The emulator's bodies of the approximate ones get other names, and are not used. */
#define ex2_approx_ftz_f32 exact_ex2
#define lg2_approx_ftz_f32 exact_lg2
#define rcp_approx_ftz_f32 exact_rcp
#define tanh_approx_f32 exact_tanh
#define tanh_approx_bf16x2 exact_tanh_bf16x2
#define tanh_approx_f16x2 exact_tanh_f16x2
#include "tests/emu/ptx/convert.hpp"
#include "tests/emu/ptx/math.hpp"
#include "tests/emu/ptx/packed_math.hpp"
#undef ex2_approx_ftz_f32
#undef lg2_approx_ftz_f32
#undef rcp_approx_ftz_f32
#undef tanh_approx_f32
#undef tanh_approx_bf16x2
#undef tanh_approx_f16x2

#include "tests/templates/host_activation.h"

#include <algorithm>
#include <cmath>

#define __device__

/* Set by the test. */
extern "C" {
host_approximation approximation;
}

/* 2^-22 of the result. */
inline float ex2_approx_ftz_f32(float a)
{
    const double result = std::exp2(static_cast<double>(flush_subnormal(a)));
    return flush_subnormal(static_cast<float>(result * (1 + approximation.ex2 * 0x1p-22)));
}

/* 2^-22, of the result where that is larger than 1. */
inline float lg2_approx_ftz_f32(float a)
{
    const double result = std::log2(static_cast<double>(flush_subnormal(a)));
    const double size = std::isfinite(result) ? std::max(1.0, std::fabs(result)) : 0;
    return flush_subnormal(static_cast<float>(result + approximation.lg2 * 0x1p-22 * size));
}

/* One unit in the last place. */
inline float rcp_approx_ftz_f32(float a)
{
    const double result = 1 / static_cast<double>(flush_subnormal(a));
    return flush_subnormal(static_cast<float>(result * (1 + approximation.rcp * 0x1p-24)));
}

inline double within_one(double value)
{
    return value < -1 ? -1 : value > 1 ? 1 : value; // NaN stays
}

/*
 * 2^-11 of the result, which does not leave [-1, 1]. That of a Hopper is within 9/8 2^-17 of tanh (7.99e-6 was measured), and far out, where f' hangs
 * on it most, within 9/8 2^-15 / |a|: tests/gpu/test_tanh.c asserts both for all arguments.
 */
inline float tanh_approx_f32(float a)
{
    const double result = std::tanh(static_cast<double>(a));
    const double size = std::fabs(static_cast<double>(a));
    const double hopper = std::fmin(0x1.2p-17, 0x1.2p-15 / size);
    return static_cast<float>(
        within_one(result * (1 + approximation.tanh * 0x1p-11) + approximation.hopper_tanh * hopper));
}

/* A 16-bit number that is off by at most `shift`, its own rounding included. */
template <typename Narrow, typename Widen> uint16_t tanh_off_by(double shift, double exact, Narrow narrow, Widen widen)
{
    const uint16_t far = narrow(within_one(exact + shift));
    const bool too_far = std::fabs(static_cast<double>(widen(far)) - exact) > std::fabs(shift);
    return shift != 0 && too_far ? narrow(within_one(exact + shift / 2)) : far;
}

/* 2^-8. */
inline uint32_t tanh_approx_bf16x2(uint32_t a)
{
    return by_halves(a, 0, 0, [](uint16_t x, uint16_t, uint16_t) {
        const double exact = std::tanh(static_cast<double>(emu::bf16_to_float(x)));
        return tanh_off_by(approximation.tanh * 0x1p-8, exact, emu::double_to_bf16, emu::bf16_to_float);
    });
}

/* 2^-10.987. */
inline uint32_t tanh_approx_f16x2(uint32_t a)
{
    return by_halves(a, 0, 0, [](uint16_t x, uint16_t, uint16_t) {
        const double exact = std::tanh(static_cast<double>(emu::fp16_to_float(x)));
        return tanh_off_by(approximation.tanh * 0x1.024p-11, exact, emu::double_to_fp16, emu::fp16_to_float);
    });
}

#endif
