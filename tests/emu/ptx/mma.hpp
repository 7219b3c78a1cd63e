/*
 * Host bodies of templates/ptx/mma.cuh.
 */
#ifndef GDPA_EMU_PTX_MMA_HPP
#define GDPA_EMU_PTX_MMA_HPP

#include "tests/emu/device.hpp"

inline void mma_m16n8k16_bf16(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1)
{
    emu::multiply_16x8x16("mma_m16n8k16_bf16", d, a, b0, b1, true);
}

inline void mma_m16n8k16_f16(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1)
{
    emu::multiply_16x8x16("mma_m16n8k16_f16", d, a, b0, b1, false);
}

#endif
