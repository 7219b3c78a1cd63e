/*
 * Host bodies of templates/ptx/global_memory.cuh.
 */
#ifndef GDPA_EMU_PTX_GLOBAL_MEMORY_HPP
#define GDPA_EMU_PTX_GLOBAL_MEMORY_HPP

#include "tests/emu/device.hpp"

inline int32_t ld_global_nc_s32(const int32_t *address)
{
    int32_t value;
    emu::load_global("ld_global_nc_s32", address, &value, sizeof value);
    return value;
}

inline uint16_t ld_global_nc_b16(const void *address)
{
    uint16_t value;
    emu::load_global("ld_global_nc_b16", address, &value, sizeof value);
    return value;
}

inline void st_global_b16(void *address, uint16_t value)
{
    emu::store_global("st_global_b16", address, &value, sizeof value);
}

inline void st_global_b32(void *address, uint32_t value)
{
    emu::store_global("st_global_b32", address, &value, sizeof value);
}

inline void st_global_v2_b32(void *address, uint32_t low, uint32_t high)
{
    const uint32_t value[2] = {low, high};
    emu::store_global("st_global_v2_b32", address, value, sizeof value);
}

inline void st_global_v4_b32(void *address, const uint32_t (&value)[4])
{
    emu::store_global("st_global_v4_b32", address, value, sizeof value);
}

#endif
