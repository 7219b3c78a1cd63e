/*
 * Host bodies of templates/ptx/warp.cuh.
 */
#ifndef GDPA_EMU_PTX_WARP_HPP
#define GDPA_EMU_PTX_WARP_HPP

#include "tests/emu/device.hpp"

inline uint32_t vote_sync_ballot(bool predicate)
{
    return emu::ballot("vote_sync_ballot", predicate);
}

inline uint32_t shfl_sync_idx(uint32_t value, uint32_t source)
{
    return emu::shuffle("shfl_sync_idx", value, source);
}

inline void bar_warp_sync()
{
    emu::sync_warp("bar_warp_sync");
}

#endif
