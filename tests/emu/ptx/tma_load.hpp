/*
 * Host bodies of templates/ptx/tma_load.cuh.
 */
#ifndef GDPA_EMU_PTX_TMA_LOAD_HPP
#define GDPA_EMU_PTX_TMA_LOAD_HPP

#include "tests/emu/device.hpp"

inline void cp_async_bulk_tensor_2d_load(uint32_t shared, const void *map, uint32_t barrier, int32_t c0, int32_t c1)
{
    const int32_t place[2] = {c0, c1};
    emu::tensor_load("cp_async_bulk_tensor_2d_load", 2, shared, map, barrier, place, 0);
}

inline void cp_async_bulk_tensor_3d_load(uint32_t shared, const void *map, uint32_t barrier, int32_t c0, int32_t c1,
                                         int32_t c2)
{
    const int32_t place[3] = {c0, c1, c2};
    emu::tensor_load("cp_async_bulk_tensor_3d_load", 3, shared, map, barrier, place, 0);
}

inline void cp_async_bulk_tensor_5d_load(uint32_t shared, const void *map, uint32_t barrier, int32_t c0, int32_t c1,
                                         int32_t c2, int32_t c3, int32_t c4)
{
    const int32_t place[5] = {c0, c1, c2, c3, c4};
    emu::tensor_load("cp_async_bulk_tensor_5d_load", 5, shared, map, barrier, place, 0);
}

inline void cp_async_bulk_tensor_2d_load_multicast(uint32_t shared, const void *map, uint32_t barrier, uint16_t ranks,
                                                   int32_t c0, int32_t c1)
{
    const int32_t place[2] = {c0, c1};
    emu::tensor_load("cp_async_bulk_tensor_2d_load_multicast", 2, shared, map, barrier, place, ranks);
}

inline void cp_async_bulk_tensor_3d_load_multicast(uint32_t shared, const void *map, uint32_t barrier, uint16_t ranks,
                                                   int32_t c0, int32_t c1, int32_t c2)
{
    const int32_t place[3] = {c0, c1, c2};
    emu::tensor_load("cp_async_bulk_tensor_3d_load_multicast", 3, shared, map, barrier, place, ranks);
}

inline void cp_async_bulk_tensor_4d_load_multicast(uint32_t shared, const void *map, uint32_t barrier, uint16_t ranks,
                                                   int32_t c0, int32_t c1, int32_t c2, int32_t c3)
{
    const int32_t place[4] = {c0, c1, c2, c3};
    emu::tensor_load("cp_async_bulk_tensor_4d_load_multicast", 4, shared, map, barrier, place, ranks);
}

inline void cp_async_bulk_tensor_5d_load_multicast(uint32_t shared, const void *map, uint32_t barrier, uint16_t ranks,
                                                   int32_t c0, int32_t c1, int32_t c2, int32_t c3, int32_t c4)
{
    const int32_t place[5] = {c0, c1, c2, c3, c4};
    emu::tensor_load("cp_async_bulk_tensor_5d_load_multicast", 5, shared, map, barrier, place, ranks);
}

#endif
