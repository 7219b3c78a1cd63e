/*
 * Copies of boxes by the copy engine for the other numbers of dimensions, and to several blocks of a cluster. See ptx/tma.cuh.
 */
#ifndef GDPA_PTX_TMA_LOAD_CUH
#define GDPA_PTX_TMA_LOAD_CUH

#include "params.h"
#include "types.cuh"

__device__ inline void cp_async_bulk_tensor_2d_load(uint32_t shared, const gdpa_tensor_map *map, uint32_t barrier,
                                                    int32_t c0, int32_t c1)
{
    asm volatile(
        "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4}], [%2];" ::"r"(
            shared),
        "l"(map), "r"(barrier), "r"(c0), "r"(c1)
        : "memory");
}

__device__ inline void cp_async_bulk_tensor_3d_load(uint32_t shared, const gdpa_tensor_map *map, uint32_t barrier,
                                                    int32_t c0, int32_t c1, int32_t c2)
{
    asm volatile(
        "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5}], [%2];" ::
            "r"(shared),
        "l"(map), "r"(barrier), "r"(c0), "r"(c1), "r"(c2)
        : "memory");
}

__device__ inline void cp_async_bulk_tensor_5d_load(uint32_t shared, const gdpa_tensor_map *map, uint32_t barrier,
                                                    int32_t c0, int32_t c1, int32_t c2, int32_t c3, int32_t c4)
{
    asm volatile("cp.async.bulk.tensor.5d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5, "
                 "%6, %7}], [%2];" ::"r"(shared),
                 "l"(map), "r"(barrier), "r"(c0), "r"(c1), "r"(c2), "r"(c3), "r"(c4)
                 : "memory");
}

/*
 * To the same place of every block of the cluster whose rank is a bit of `ranks`; each one's barrier at the same place gets the bytes.
 */
__device__ inline void cp_async_bulk_tensor_2d_load_multicast(uint32_t shared, const gdpa_tensor_map *map,
                                                              uint32_t barrier, uint16_t ranks, int32_t c0, int32_t c1)
{
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], "
                 "[%1, {%4, %5}], [%2], %3;" ::"r"(shared),
                 "l"(map), "r"(barrier), "h"(ranks), "r"(c0), "r"(c1)
                 : "memory");
}

__device__ inline void cp_async_bulk_tensor_3d_load_multicast(uint32_t shared, const gdpa_tensor_map *map,
                                                              uint32_t barrier, uint16_t ranks, int32_t c0, int32_t c1,
                                                              int32_t c2)
{
    asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], "
                 "[%1, {%4, %5, %6}], [%2], %3;" ::"r"(shared),
                 "l"(map), "r"(barrier), "h"(ranks), "r"(c0), "r"(c1), "r"(c2)
                 : "memory");
}

__device__ inline void cp_async_bulk_tensor_4d_load_multicast(uint32_t shared, const gdpa_tensor_map *map,
                                                              uint32_t barrier, uint16_t ranks, int32_t c0, int32_t c1,
                                                              int32_t c2, int32_t c3)
{
    asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], "
                 "[%1, {%4, %5, %6, %7}], [%2], %3;" ::"r"(shared),
                 "l"(map), "r"(barrier), "h"(ranks), "r"(c0), "r"(c1), "r"(c2), "r"(c3)
                 : "memory");
}

__device__ inline void cp_async_bulk_tensor_5d_load_multicast(uint32_t shared, const gdpa_tensor_map *map,
                                                              uint32_t barrier, uint16_t ranks, int32_t c0, int32_t c1,
                                                              int32_t c2, int32_t c3, int32_t c4)
{
    asm volatile("cp.async.bulk.tensor.5d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], "
                 "[%1, {%4, %5, %6, %7, %8}], [%2], %3;" ::"r"(shared),
                 "l"(map), "r"(barrier), "h"(ranks), "r"(c0), "r"(c1), "r"(c2), "r"(c3), "r"(c4)
                 : "memory");
}

#endif
