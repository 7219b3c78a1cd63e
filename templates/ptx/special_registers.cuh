/*
 * Who am I: %tid, %ctaid, %nctaid. PTX ISA, "Special Registers". Blocks are one-dimensional; a grid has a second dimension
 * when it has more blocks than the first may have.
 */
#ifndef GDPA_PTX_SPECIAL_REGISTERS_CUH
#define GDPA_PTX_SPECIAL_REGISTERS_CUH

#include "types.cuh"

__device__ inline uint32_t tid_x()
{
    return threadIdx.x;
}

__device__ inline uint32_t ctaid_x()
{
    return blockIdx.x;
}

__device__ inline uint32_t ctaid_y()
{
    return blockIdx.y;
}

__device__ inline uint32_t nctaid_x()
{
    return gridDim.x;
}

#endif
