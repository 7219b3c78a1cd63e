/*
 * Asynchronous products of a warpgroup (4 warps, the first one a multiple of 4). PTX ISA, "wgmma" (sm_90a).
 *
 * wgmma_m64k16_ss and _rs, one pair a width in wgmma_n<width>.cuh and told apart by the size of the accumulator, compute
 * D = A B (+ D when accumulate) with A 64 x 16, B 16 x N, D 64 x N in fp32. A is a matrix in shared memory (ss) or fragments in
 * registers (rs); B is in shared memory. With thread t of the warpgroup
 *     D  d[4 j + c] is row 16 (t / 32) + t % 32 / 4 + 8 (c / 2), column 8 j + 2 (t % 4) + c % 2
 *     A  a[i] holds row 16 (t / 32) + t % 32 / 4 + 8 (i % 2), columns 2 (t % 4) + 8 (i / 2) and the next
 *
 * Order: wgmma_fence after registers or shared memory were touched, products, wgmma_commit_group, wgmma_wait_group. Until the wait,
 * neither d nor a may be touched; tie() after it keeps the compiler from reading d earlier.
 */
#ifndef GDPA_PTX_WGMMA_CUH
#define GDPA_PTX_WGMMA_CUH

#include "types.cuh"

__device__ inline void wgmma_fence()
{
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}

__device__ inline void wgmma_commit_group()
{
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}

/* Waits until at most kPending of the latest groups are under way. */
template <int kPending> __device__ inline void wgmma_wait_group()
{
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kPending) : "memory");
}

/* Registers as they are after everything above. */
template <int kCount> __device__ inline void tie(float (&registers)[kCount])
{
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
        asm volatile("" : "+f"(registers[i])::"memory");
    }
}

template <int kCount> __device__ inline void tie(uint32_t (&registers)[kCount])
{
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
        asm volatile("" : "+r"(registers[i])::"memory");
    }
}

/*
 * Descriptor of a matrix in shared memory stored with the 128-byte swizzle: rows of 128 bytes, groups of 8 rows 1024 bytes long and
 * aligned. leading: bytes from one 64-column chunk to the next (matrices whose columns are not the K dimension); stride: bytes
 * from one group of 8 rows to the next.
 */
__device__ inline uint64_t wgmma_descriptor_128b(uint32_t address, uint32_t leading, uint32_t stride)
{
    return static_cast<uint64_t>((address & 0x3ffff) >> 4) | static_cast<uint64_t>(leading >> 4) << 16 |
           static_cast<uint64_t>(stride >> 4) << 32 | 1ull << 62;
}

#endif
