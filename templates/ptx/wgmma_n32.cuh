/*
 * Products of a warpgroup, m64n32k16: D (+)= A B. Fragments and rules are in ptx/wgmma.cuh. Written by scripts/make-wgmma.py.
 */
#ifndef GDPA_PTX_WGMMA_N32_CUH
#define GDPA_PTX_WGMMA_N32_CUH

#include "ptx/wgmma.cuh"

// clang-format off
template <int kTransA, int kTransB>
__device__ inline void wgmma_m64k16_ss(float (&d)[16], uint64_t a, uint64_t b, bool accumulate)
{
    asm volatile("{ .reg .pred p; setp.ne.b32 p, %18, 0; "
    //@if bf16
                 "wgmma.mma_async.sync.aligned.m64n32k16.f32.bf16.bf16 {"
    //@else
                 "wgmma.mma_async.sync.aligned.m64n32k16.f32.f16.f16 {"
    //@endif
                 "%0, %1, %2, %3, %4, %5, %6, %7, "
                 "%8, %9, %10, %11, %12, %13, %14, %15 "
                 "}, %16, %17, p, 1, 1, %19, %20; }"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]),
                   "+f"(d[6]), "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]),
                   "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15])
                 : "l"(a), "l"(b), "r"(static_cast<int>(accumulate)), "n"(kTransA), "n"(kTransB));
}

template <int kTransB>
__device__ inline void wgmma_m64k16_rs(float (&d)[16], const uint32_t (&a)[4], uint64_t b, bool accumulate)
{
    asm volatile("{ .reg .pred p; setp.ne.b32 p, %21, 0; "
    //@if bf16
                 "wgmma.mma_async.sync.aligned.m64n32k16.f32.bf16.bf16 {"
    //@else
                 "wgmma.mma_async.sync.aligned.m64n32k16.f32.f16.f16 {"
    //@endif
                 "%0, %1, %2, %3, %4, %5, %6, %7, "
                 "%8, %9, %10, %11, %12, %13, %14, %15 "
                 "}, {%16, %17, %18, %19}, %20, p, 1, 1, %22; }"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]),
                   "+f"(d[6]), "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]),
                   "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(static_cast<int>(accumulate)), "n"(kTransB));
}
// clang-format on

#endif
