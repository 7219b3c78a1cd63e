/*
 * Host bodies of templates/ptx/global_load.cuh.
 */
#ifndef GDPA_EMU_PTX_GLOBAL_LOAD_HPP
#define GDPA_EMU_PTX_GLOBAL_LOAD_HPP

#include "tests/emu/device.hpp"

inline float ld_global_f32(const float *address)
{
    float value;
    emu::load_global("ld_global_f32", address, &value, sizeof value);
    return value;
}

inline void ld_global_v4_f32(float (&value)[4], const float *address)
{
    emu::load_global("ld_global_v4_f32", address, value, sizeof value);
}

#endif
