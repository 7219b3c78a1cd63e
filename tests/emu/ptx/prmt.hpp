/*
 * Host bodies of templates/ptx/prmt.cuh.
 */
#ifndef GDPA_EMU_PTX_PRMT_HPP
#define GDPA_EMU_PTX_PRMT_HPP

#include "tests/emu/device.hpp"

inline uint32_t prmt_b32(uint32_t a, uint32_t b, uint32_t selector)
{
    const uint64_t bytes = static_cast<uint64_t>(b) << 32 | a;
    uint32_t result = 0;
    for (uint32_t i = 0; i < 4; ++i) {
        const uint32_t choice = selector >> 4 * i & 0xf;
        const auto byte = static_cast<uint32_t>(bytes >> 8 * (choice & 7) & 0xff);
        const uint32_t chosen = (choice & 8) != 0 ? (byte >= 0x80 ? 0xffu : 0u) : byte;
        result |= chosen << 8 * i;
    }
    return result;
}

#endif
