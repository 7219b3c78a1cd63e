/*
 * Host bodies of templates/ptx/atomic.cuh.
 */
#ifndef GDPA_EMU_PTX_ATOMIC_HPP
#define GDPA_EMU_PTX_ATOMIC_HPP

#include "tests/emu/device.hpp"

inline void red_global_add_f32(float *address, float value)
{
    emu::reduce_add_f32("red_global_add_f32", address, &value, 1);
}

inline void red_global_add_v4_f32(float *address, const float (&value)[4])
{
    emu::reduce_add_f32("red_global_add_v4_f32", address, value, 4);
}

inline uint32_t atom_global_add_u32(uint32_t *address, uint32_t value)
{
    return emu::atomic_add_u32("atom_global_add_u32", address, value);
}

#endif
