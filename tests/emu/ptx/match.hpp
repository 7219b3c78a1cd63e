/*
 * Host bodies of templates/ptx/match.cuh.
 */
#ifndef GDPA_EMU_PTX_MATCH_HPP
#define GDPA_EMU_PTX_MATCH_HPP

#include "tests/emu/device.hpp"

inline uint32_t match_sync_any(uint32_t value)
{
    uint32_t lanes = 0;
    for (uint32_t lane = 0; lane < 32; ++lane) {
        lanes |= static_cast<uint32_t>(emu::shuffle("match_sync_any", value, lane) == value) << lane;
    }
    return lanes;
}

#endif
