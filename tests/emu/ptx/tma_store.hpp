/*
 * Host bodies of templates/ptx/tma_store.cuh.
 */
#ifndef GDPA_EMU_PTX_TMA_STORE_HPP
#define GDPA_EMU_PTX_TMA_STORE_HPP

#include "tests/emu/device.hpp"

inline void cp_async_bulk_tensor_2d_store(const void *map, uint32_t shared, int32_t c0, int32_t c1)
{
    const int32_t place[2] = {c0, c1};
    emu::tensor_store("cp_async_bulk_tensor_2d_store", 2, map, shared, place, false);
}

inline void cp_async_bulk_tensor_3d_store(const void *map, uint32_t shared, int32_t c0, int32_t c1, int32_t c2)
{
    const int32_t place[3] = {c0, c1, c2};
    emu::tensor_store("cp_async_bulk_tensor_3d_store", 3, map, shared, place, false);
}

inline void cp_async_bulk_tensor_4d_store(const void *map, uint32_t shared, int32_t c0, int32_t c1, int32_t c2,
                                          int32_t c3)
{
    const int32_t place[4] = {c0, c1, c2, c3};
    emu::tensor_store("cp_async_bulk_tensor_4d_store", 4, map, shared, place, false);
}

inline void cp_async_bulk_tensor_5d_store(const void *map, uint32_t shared, int32_t c0, int32_t c1, int32_t c2,
                                          int32_t c3, int32_t c4)
{
    const int32_t place[5] = {c0, c1, c2, c3, c4};
    emu::tensor_store("cp_async_bulk_tensor_5d_store", 5, map, shared, place, false);
}

inline void cp_async_bulk_tensor_2d_reduce_add(const void *map, uint32_t shared, int32_t c0, int32_t c1)
{
    const int32_t place[2] = {c0, c1};
    emu::tensor_store("cp_async_bulk_tensor_2d_reduce_add", 2, map, shared, place, true);
}

inline void cp_async_bulk_tensor_3d_reduce_add(const void *map, uint32_t shared, int32_t c0, int32_t c1, int32_t c2)
{
    const int32_t place[3] = {c0, c1, c2};
    emu::tensor_store("cp_async_bulk_tensor_3d_reduce_add", 3, map, shared, place, true);
}

inline void cp_async_bulk_tensor_4d_reduce_add(const void *map, uint32_t shared, int32_t c0, int32_t c1, int32_t c2,
                                               int32_t c3)
{
    const int32_t place[4] = {c0, c1, c2, c3};
    emu::tensor_store("cp_async_bulk_tensor_4d_reduce_add", 4, map, shared, place, true);
}

inline void cp_async_bulk_tensor_5d_reduce_add(const void *map, uint32_t shared, int32_t c0, int32_t c1, int32_t c2,
                                               int32_t c3, int32_t c4)
{
    const int32_t place[5] = {c0, c1, c2, c3, c4};
    emu::tensor_store("cp_async_bulk_tensor_5d_reduce_add", 5, map, shared, place, true);
}

#endif
