/*
 * Host bodies of templates/ptx/mbarrier.cuh.
 */
#ifndef GDPA_EMU_PTX_MBARRIER_HPP
#define GDPA_EMU_PTX_MBARRIER_HPP

#include "tests/emu/device.hpp"

inline void mbarrier_init(uint32_t barrier, uint32_t arrivals)
{
    emu::mbarrier_init("mbarrier_init", barrier, arrivals);
}

inline void fence_mbarrier_init()
{
    emu::mbarrier_fence_init("fence_mbarrier_init");
}

inline void mbarrier_arrive(uint32_t barrier)
{
    emu::mbarrier_arrive("mbarrier_arrive", barrier);
}

inline void mbarrier_arrive_expect_tx(uint32_t barrier, uint32_t bytes)
{
    emu::mbarrier_arrive_expect_tx("mbarrier_arrive_expect_tx", barrier, bytes);
}

inline void mbarrier_wait_parity(uint32_t barrier, uint32_t parity)
{
    emu::mbarrier_wait_parity("mbarrier_wait_parity", barrier, parity);
}

#endif
