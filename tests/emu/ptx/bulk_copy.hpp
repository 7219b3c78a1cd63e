/*
 * Host bodies of templates/ptx/bulk_copy.cuh.
 */
#ifndef GDPA_EMU_PTX_BULK_COPY_HPP
#define GDPA_EMU_PTX_BULK_COPY_HPP

#include "tests/emu/device.hpp"

inline void cp_async_bulk_load(uint32_t shared, const void *global, uint32_t bytes, uint32_t barrier)
{
    emu::bulk_load("cp_async_bulk_load", shared, global, bytes, barrier, 0);
}

inline void cp_async_bulk_store(void *global, uint32_t shared, uint32_t bytes)
{
    emu::bulk_store("cp_async_bulk_store", global, shared, bytes, false);
}

inline void cp_reduce_async_bulk_add_f32(float *global, uint32_t shared, uint32_t bytes)
{
    emu::bulk_store("cp_reduce_async_bulk_add_f32", global, shared, bytes, true);
}

#endif
