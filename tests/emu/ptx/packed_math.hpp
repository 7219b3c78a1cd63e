/*
 * Host bodies of templates/ptx/packed_math.cuh.
 */
#ifndef GDPA_EMU_PTX_PACKED_MATH_HPP
#define GDPA_EMU_PTX_PACKED_MATH_HPP

#include "tests/emu/float_formats.hpp"

#include <cmath>
#include <cstdint>

/* f on the lower and on the upper halves of three registers. */
template <typename Function> inline uint32_t by_halves(uint32_t a, uint32_t b, uint32_t c, Function f)
{
    const auto half = [](uint32_t pair, int i) { return static_cast<uint16_t>(pair >> 16 * i); };
    const uint32_t low = f(half(a, 0), half(b, 0), half(c, 0));
    const uint32_t high = f(half(a, 1), half(b, 1), half(c, 1));
    return low | high << 16;
}

inline uint32_t fma_rn_bf16x2(uint32_t a, uint32_t b, uint32_t c)
{
    return by_halves(a, b, c, [](uint16_t x, uint16_t y, uint16_t z) {
        return emu::double_to_bf16(emu::fused_round_to_odd(static_cast<double>(emu::bf16_to_float(x)),
                                                           static_cast<double>(emu::bf16_to_float(y)),
                                                           static_cast<double>(emu::bf16_to_float(z))));
    });
}

inline uint32_t fma_rn_f16x2(uint32_t a, uint32_t b, uint32_t c)
{
    return by_halves(a, b, c, [](uint16_t x, uint16_t y, uint16_t z) {
        return emu::double_to_fp16(emu::fused_round_to_odd(static_cast<double>(emu::fp16_to_float(x)),
                                                           static_cast<double>(emu::fp16_to_float(y)),
                                                           static_cast<double>(emu::fp16_to_float(z))));
    });
}

inline uint32_t tanh_approx_bf16x2(uint32_t a)
{
    return by_halves(a, 0, 0, [](uint16_t x, uint16_t, uint16_t) {
        return emu::double_to_bf16(std::tanh(static_cast<double>(emu::bf16_to_float(x))));
    });
}

inline uint32_t tanh_approx_f16x2(uint32_t a)
{
    return by_halves(a, 0, 0, [](uint16_t x, uint16_t, uint16_t) {
        return emu::double_to_fp16(std::tanh(static_cast<double>(emu::fp16_to_float(x))));
    });
}

#endif
