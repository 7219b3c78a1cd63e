/*
 * Host bodies of templates/ptx/shared_memory.cuh.
 */
#ifndef GDPA_EMU_PTX_SHARED_MEMORY_HPP
#define GDPA_EMU_PTX_SHARED_MEMORY_HPP

#include "tests/emu/device.hpp"

inline uint32_t dynamic_shared_base()
{
    return emu::shared_base();
}

inline void st_shared_b16(uint32_t address, uint16_t value)
{
    emu::store_shared("st_shared_b16", address, &value, sizeof value);
}

inline void st_shared_b32(uint32_t address, uint32_t value)
{
    emu::store_shared("st_shared_b32", address, &value, sizeof value);
}

inline uint32_t ld_shared_b32(uint32_t address)
{
    uint32_t value;
    emu::load_shared("ld_shared_b32", address, &value, sizeof value);
    return value;
}

inline void st_shared_b64(uint32_t address, int64_t value)
{
    emu::store_shared("st_shared_b64", address, &value, sizeof value);
}

inline int64_t ld_shared_b64(uint32_t address)
{
    int64_t value;
    emu::load_shared("ld_shared_b64", address, &value, sizeof value);
    return value;
}

inline void st_shared_v4_b32(uint32_t address, const uint32_t (&value)[4])
{
    emu::store_shared("st_shared_v4_b32", address, value, sizeof value);
}

inline void ld_shared_v4_b32(uint32_t (&value)[4], uint32_t address)
{
    emu::load_shared("ld_shared_v4_b32", address, value, sizeof value);
}

#endif
