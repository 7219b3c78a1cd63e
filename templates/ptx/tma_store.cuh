/*
 * Boxes of shared memory to a tensor by the copy engine. PTX ISA, "cp.async.bulk.tensor", "cp.reduce.async.bulk.tensor" (sm_90).
 *
 * The writes of shared memory come first through fence_proxy_async_shared and a barrier. Completion is by groups: ptx/bulk_group.cuh.
 */
#ifndef GDPA_PTX_TMA_STORE_CUH
#define GDPA_PTX_TMA_STORE_CUH

#include "params.h"
#include "types.cuh"

/* Elements of the box that are outside the tensor are not written. */
__device__ inline void cp_async_bulk_tensor_2d_store(const gdpa_tensor_map *map, uint32_t shared, int32_t c0,
                                                     int32_t c1)
{
    asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%2, %3}], [%1];" ::"l"(map), "r"(shared),
                 "r"(c0), "r"(c1)
                 : "memory");
}

__device__ inline void cp_async_bulk_tensor_3d_store(const gdpa_tensor_map *map, uint32_t shared, int32_t c0,
                                                     int32_t c1, int32_t c2)
{
    asm volatile("cp.async.bulk.tensor.3d.global.shared::cta.bulk_group [%0, {%2, %3, %4}], [%1];" ::"l"(map),
                 "r"(shared), "r"(c0), "r"(c1), "r"(c2)
                 : "memory");
}

__device__ inline void cp_async_bulk_tensor_4d_store(const gdpa_tensor_map *map, uint32_t shared, int32_t c0,
                                                     int32_t c1, int32_t c2, int32_t c3)
{
    asm volatile("cp.async.bulk.tensor.4d.global.shared::cta.bulk_group [%0, {%2, %3, %4, %5}], [%1];" ::"l"(map),
                 "r"(shared), "r"(c0), "r"(c1), "r"(c2), "r"(c3)
                 : "memory");
}

__device__ inline void cp_async_bulk_tensor_5d_store(const gdpa_tensor_map *map, uint32_t shared, int32_t c0,
                                                     int32_t c1, int32_t c2, int32_t c3, int32_t c4)
{
    asm volatile("cp.async.bulk.tensor.5d.global.shared::cta.bulk_group [%0, {%2, %3, %4, %5, %6}], [%1];" ::"l"(map),
                 "r"(shared), "r"(c0), "r"(c1), "r"(c2), "r"(c3), "r"(c4)
                 : "memory");
}

/* Adds instead, element by element, in the type of the tensor map. */
__device__ inline void cp_async_bulk_tensor_2d_reduce_add(const gdpa_tensor_map *map, uint32_t shared, int32_t c0,
                                                          int32_t c1)
{
    asm volatile(
        "cp.reduce.async.bulk.tensor.2d.global.shared::cta.add.tile.bulk_group [%0, {%2, %3}], [%1];" ::"l"(map),
        "r"(shared), "r"(c0), "r"(c1)
        : "memory");
}

__device__ inline void cp_async_bulk_tensor_3d_reduce_add(const gdpa_tensor_map *map, uint32_t shared, int32_t c0,
                                                          int32_t c1, int32_t c2)
{
    asm volatile(
        "cp.reduce.async.bulk.tensor.3d.global.shared::cta.add.tile.bulk_group [%0, {%2, %3, %4}], [%1];" ::"l"(map),
        "r"(shared), "r"(c0), "r"(c1), "r"(c2)
        : "memory");
}

__device__ inline void cp_async_bulk_tensor_4d_reduce_add(const gdpa_tensor_map *map, uint32_t shared, int32_t c0,
                                                          int32_t c1, int32_t c2, int32_t c3)
{
    asm volatile(
        "cp.reduce.async.bulk.tensor.4d.global.shared::cta.add.tile.bulk_group [%0, {%2, %3, %4, %5}], [%1];" ::"l"(
            map),
        "r"(shared), "r"(c0), "r"(c1), "r"(c2), "r"(c3)
        : "memory");
}

__device__ inline void cp_async_bulk_tensor_5d_reduce_add(const gdpa_tensor_map *map, uint32_t shared, int32_t c0,
                                                          int32_t c1, int32_t c2, int32_t c3, int32_t c4)
{
    asm volatile(
        "cp.reduce.async.bulk.tensor.5d.global.shared::cta.add.tile.bulk_group [%0, {%2, %3, %4, %5, %6}], [%1];" ::"l"(
            map),
        "r"(shared), "r"(c0), "r"(c1), "r"(c2), "r"(c3), "r"(c4)
        : "memory");
}

#endif
