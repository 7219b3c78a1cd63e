/*
 * Host bodies of templates/ptx/global_load_b32.cuh.
 */
#ifndef GDPA_EMU_PTX_GLOBAL_LOAD_B32_HPP
#define GDPA_EMU_PTX_GLOBAL_LOAD_B32_HPP

#include "tests/emu/device.hpp"

inline uint32_t ld_global_b32(const uint32_t *address)
{
    uint32_t value;
    emu::load_global("ld_global_b32", address, &value, sizeof value);
    return value;
}

#endif
