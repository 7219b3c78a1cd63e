/*
 * Exchange among the lanes of a full warp. PTX ISA, "vote.sync", "shfl.sync", "bar.warp.sync".
 */
#ifndef GDPA_PTX_WARP_CUH
#define GDPA_PTX_WARP_CUH

#include "types.cuh"

/* Bit l is the predicate of lane l. */
__device__ inline uint32_t vote_sync_ballot(bool predicate)
{
    uint32_t ballot;
    asm volatile("{ .reg .pred p; setp.ne.u32 p, %1, 0; vote.sync.ballot.b32 %0, p, 0xffffffff; }"
                 : "=r"(ballot)
                 : "r"(static_cast<uint32_t>(predicate)));
    return ballot;
}

/* The value of lane `source`. */
__device__ inline uint32_t shfl_sync_idx(uint32_t value, uint32_t source)
{
    uint32_t result;
    asm volatile("shfl.sync.idx.b32 %0, %1, %2, 31, 0xffffffff;" : "=r"(result) : "r"(value), "r"(source));
    return result;
}

/* A meeting of the warp's lanes; orders their memory accesses. PTX ISA, "bar.warp.sync". */
__device__ inline void bar_warp_sync()
{
    asm volatile("bar.warp.sync 0xffffffff;" ::: "memory");
}

#endif
