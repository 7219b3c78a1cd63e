/*
 * Warp-wide products of fragments in registers: D += A B with A 16x16, B 16x8, D 16x8. PTX ISA, "mma.sync.m16n8k16".
 *
 * With g = lane / 4 and t = lane % 4 a lane holds
 *     A  a[0] (row g, columns 2t, 2t+1), a[1] (row g+8, the same), a[2] (row g, columns 2t+8, 2t+9), a[3] (row g+8, those)
 *     B  b0 (rows 2t, 2t+1, column g), b1 (rows 2t+8, 2t+9, column g)
 *     D  d[0], d[1] (row g, columns 2t, 2t+1), d[2], d[3] (row g+8, the same)
 * where a register of 16-bit elements has the lower index in its lower half.
 */
#ifndef GDPA_PTX_MMA_CUH
#define GDPA_PTX_MMA_CUH

#include "types.cuh"

__device__ inline void mma_m16n8k16_bf16(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1)
{
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
                 "{%0, %1, %2, %3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

__device__ inline void mma_m16n8k16_f16(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1)
{
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
                 "{%0, %1, %2, %3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

#endif
