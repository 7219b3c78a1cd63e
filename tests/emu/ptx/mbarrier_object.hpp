/*
 * Host bodies of templates/ptx/mbarrier_object.cuh.
 */
#ifndef GDPA_EMU_PTX_MBARRIER_OBJECT_HPP
#define GDPA_EMU_PTX_MBARRIER_OBJECT_HPP

#include "tests/emu/device.hpp"

inline void mbarrier_expect_tx(uint32_t barrier, uint32_t bytes)
{
    emu::mbarrier_expect_tx("mbarrier_expect_tx", barrier, bytes);
}

inline void mbarrier_inval(uint32_t barrier)
{
    emu::mbarrier_invalidate("mbarrier_inval", barrier);
}

#endif
