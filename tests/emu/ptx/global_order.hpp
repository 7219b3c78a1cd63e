/*
 * Host bodies of templates/ptx/global_order.cuh.
 */
#ifndef GDPA_EMU_PTX_GLOBAL_ORDER_HPP
#define GDPA_EMU_PTX_GLOBAL_ORDER_HPP

#include "tests/emu/device.hpp"

inline void fence_acq_rel_gpu()
{
}

inline void ld_global_relaxed_v4_f32(float (&value)[4], const float *address)
{
    emu::load_global("ld_global_relaxed_v4_f32", address, value, sizeof value);
}

#endif
