/*
 * Host bodies of templates/ptx/barrier.cuh.
 */
#ifndef GDPA_EMU_PTX_BARRIER_HPP
#define GDPA_EMU_PTX_BARRIER_HPP

#include "tests/emu/device.hpp"

inline void bar_sync_0()
{
    emu::barrier("bar_sync_0", 0, 0, true);
}

#endif
