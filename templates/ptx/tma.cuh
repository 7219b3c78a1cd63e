/*
 * Copies of boxes of a tensor by the copy engine. PTX ISA, "cp.async.bulk.tensor" (sm_90). One thread asks for all of it.
 *
 * Boxes, strides, swizzle and bounds are in the tensor map; elements outside the tensor become zeros, and count as bytes.
 */
#ifndef GDPA_PTX_TMA_CUH
#define GDPA_PTX_TMA_CUH

#include "params.h"
#include "types.cuh"

__device__ inline void prefetch_tensormap(const gdpa_tensor_map *map)
{
    asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory");
}

/* Coordinates of the box's first element, fastest dimension first. Completes on `barrier` by its bytes. */
__device__ inline void cp_async_bulk_tensor_4d_load(uint32_t shared, const gdpa_tensor_map *map, uint32_t barrier, int32_t c0,
                                                    int32_t c1, int32_t c2, int32_t c3)
{
    asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5, %6}], "
                 "[%2];" ::"r"(shared),
                 "l"(map), "r"(barrier), "r"(c0), "r"(c1), "r"(c2), "r"(c3)
                 : "memory");
}

#endif
