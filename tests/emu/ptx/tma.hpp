/*
 * Host bodies of templates/ptx/tma.cuh.
 */
#ifndef GDPA_EMU_PTX_TMA_HPP
#define GDPA_EMU_PTX_TMA_HPP

#include "tests/emu/device.hpp"

inline void prefetch_tensormap(const void *)
{
}

inline void cp_async_bulk_tensor_4d_load(uint32_t shared, const void *map, uint32_t barrier, int32_t c0, int32_t c1,
                                         int32_t c2, int32_t c3)
{
    const int32_t place[4] = {c0, c1, c2, c3};
    emu::tensor_load("cp_async_bulk_tensor_4d_load", 4, shared, map, barrier, place, 0);
}

#endif
