/*
 * Host bodies of templates/ptx/named_barrier.cuh.
 */
#ifndef GDPA_EMU_PTX_NAMED_BARRIER_HPP
#define GDPA_EMU_PTX_NAMED_BARRIER_HPP

#include "tests/emu/device.hpp"

inline void bar_sync(uint32_t number, uint32_t threads)
{
    emu::barrier("bar_sync", number, threads, true);
}

inline void bar_arrive(uint32_t number, uint32_t threads)
{
    emu::barrier("bar_arrive", number, threads, false);
}

#endif
