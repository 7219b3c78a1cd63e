/*
 * Host bodies of templates/ptx/wgmma.cuh.
 */
#ifndef GDPA_EMU_PTX_WGMMA_HPP
#define GDPA_EMU_PTX_WGMMA_HPP

#include "tests/emu/device.hpp"

/* The translation defines it from the instructions in the generated source. */
#ifndef EMU_WGMMA_TYPE
#define EMU_WGMMA_TYPE Bf16
#endif

inline void wgmma_fence()
{
    emu::wgmma_fence("wgmma_fence");
}

inline void wgmma_commit_group()
{
    emu::wgmma_commit_group("wgmma_commit_group");
}

template <int kPending> inline void wgmma_wait_group()
{
    emu::wgmma_wait_group("wgmma_wait_group", kPending);
}

template <int kCount> inline void tie(float (&)[kCount])
{
}

template <int kCount> inline void tie(uint32_t (&)[kCount])
{
}

/* Every width of templates/ptx/wgmma_n*.cuh. */
template <int kTransA, int kTransB, int kCount>
inline void wgmma_m64k16_ss(float (&d)[kCount], uint64_t a, uint64_t b, bool accumulate)
{
    emu::wgmma_ss("wgmma_m64k16_ss", emu::WgmmaType::EMU_WGMMA_TYPE, 2 * kCount, d, a, b, accumulate, kTransA != 0,
                  kTransB != 0);
}

template <int kTransB, int kCount>
inline void wgmma_m64k16_rs(float (&d)[kCount], const uint32_t (&a)[4], uint64_t b, bool accumulate)
{
    emu::wgmma_rs("wgmma_m64k16_rs", emu::WgmmaType::EMU_WGMMA_TYPE, 2 * kCount, d, a, b, accumulate, kTransB != 0);
}

template <int kCount> inline void wgmma_m64k32_e4m3_ss(float (&d)[kCount], uint64_t a, uint64_t b, bool accumulate)
{
    emu::wgmma_ss("wgmma_m64k32_e4m3_ss", emu::WgmmaType::E4m3, 2 * kCount, d, a, b, accumulate, false, false);
}

template <int kCount>
inline void wgmma_m64k32_e4m3_rs(float (&d)[kCount], const uint32_t (&a)[4], uint64_t b, bool accumulate)
{
    emu::wgmma_rs("wgmma_m64k32_e4m3_rs", emu::WgmmaType::E4m3, 2 * kCount, d, a, b, accumulate, false);
}

#endif
