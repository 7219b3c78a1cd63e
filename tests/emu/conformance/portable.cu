/*
 * Every wrapper of the portable kernels on given inputs: block b runs section b, thread t reads words 16 (128 b + t) .. + 15 of the input
 * and writes the same words of the output.
 */
#include "ptx/barrier.cuh"
#include "ptx/convert.cuh"
#include "ptx/cp_async.cuh"
#include "ptx/fma_rz.cuh"
#include "ptx/global_memory.cuh"
#include "ptx/integer.cuh"
#include "ptx/ldmatrix.cuh"
#include "ptx/math.cuh"
#include "ptx/mma.cuh"
#include "ptx/packed_math.cuh"
#include "ptx/prmt.cuh"
#include "ptx/shared_memory.cuh"
#include "ptx/special_registers.cuh"
#include "ptx/warp.cuh"

constexpr uint32_t kWords = 16; // a thread

struct Words {
    uint32_t in[kWords];
    uint32_t out[kWords];

    __device__ float number(int i) const
    {
        return bits_as_float(in[i]);
    }
    __device__ void set(int i, float value)
    {
        out[i] = float_as_bits(value);
    }
};

__device__ inline void section_convert(Words &w)
{
#pragma unroll
    for (int i = 0; i < 3; ++i) {
        const float low = w.number(2 * i);
        const float high = w.number(2 * i + 1);
        w.out[4 * i] = cvt_rn_bf16x2_f32(low, high);
        w.out[4 * i + 1] = cvt_rn_relu_bf16x2_f32(low, high);
        w.out[4 * i + 2] = cvt_rn_f16x2_f32(low, high);
        w.out[4 * i + 3] = cvt_rn_relu_f16x2_f32(low, high);
    }
    w.set(12, cvt_f32_f16(static_cast<uint16_t>(w.in[6])));
    w.set(13, cvt_f32_f16(static_cast<uint16_t>(w.in[6] >> 16)));
}

__device__ inline void section_packed(Words &w)
{
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        w.out[2 * i] = fma_rn_bf16x2(w.in[3 * i], w.in[3 * i + 1], w.in[3 * i + 2]);
        w.out[2 * i + 1] = fma_rn_f16x2(w.in[3 * i], w.in[3 * i + 1], w.in[3 * i + 2]);
    }
}

__device__ inline void section_scalar(Words &w)
{
    w.set(0, fma_rn_f32(w.number(0), w.number(1), w.number(2)));
    w.set(1, fma_rn_sat_f32(w.number(3), w.number(4), w.number(5)));
    w.set(2, max_f32(w.number(6), w.number(7)));
    w.set(3, max_nan_f32(w.number(8), w.number(9)));
    w.set(4, min_nan_f32(w.number(10), w.number(11)));
    w.out[5] = popc_b32(w.in[12]);
    w.out[6] = prmt_b32(w.in[13], w.in[14], w.in[15] & 0xffff);
    w.out[7] = prmt_b32(w.in[13], w.in[14], 0xbb99);
    w.set(8, fma_rz_f32(w.number(0), w.number(1), w.number(2)));
}

__device__ inline void section_approximate(Words &w)
{
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        w.set(4 * i, ex2_approx_ftz_f32(w.number(4 * i)));
        w.set(4 * i + 1, lg2_approx_ftz_f32(w.number(4 * i + 1)));
        w.set(4 * i + 2, rcp_approx_ftz_f32(w.number(4 * i + 2)));
        w.set(4 * i + 3, tanh_approx_f32(w.number(4 * i + 3)));
    }
}

/* Rows of 16 bytes in shared memory; each warp has 64 of its own, and lane l names any of them. */
__device__ inline void section_ldmatrix(Words &w)
{
    const uint32_t shared = dynamic_shared_base() + tid_x() / 32 * 1024;
    const uint32_t lane = tid_x() % 32;
    const uint32_t low[4] = {w.in[0], w.in[1], w.in[2], w.in[3]};
    const uint32_t high[4] = {w.in[4], w.in[5], w.in[6], w.in[7]};
    st_shared_v4_b32(shared + lane * 16, low);
    st_shared_v4_b32(shared + (lane + 32) * 16, high);
    bar_warp_sync();
    uint32_t matrix[4];
    ldmatrix_x4(matrix, shared + w.in[8] % 64 * 16);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        w.out[i] = matrix[i];
    }
    ldmatrix_x4_trans(matrix, shared + w.in[9] % 64 * 16);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        w.out[4 + i] = matrix[i];
    }
}

__device__ inline void section_mma(Words &w, bool bf16)
{
    const uint32_t a[4] = {w.in[0], w.in[1], w.in[2], w.in[3]};
    float d[4] = {w.number(6), w.number(7), w.number(8), w.number(9)};
    if (bf16) {
        mma_m16n8k16_bf16(d, a, w.in[4], w.in[5]);
    } else {
        mma_m16n8k16_f16(d, a, w.in[4], w.in[5]);
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        w.set(i, d[i]);
    }
}

__device__ inline void section_exchange(Words &w)
{
    w.out[0] = vote_sync_ballot((w.in[0] & 1) != 0);
    w.out[1] = vote_sync_ballot(tid_x() % 32 == 5);
    w.out[2] = shfl_sync_idx(w.in[1], w.in[2] % 32);
    w.out[3] = shfl_sync_idx(w.in[3], 31);
    w.out[4] = tid_x();
    w.out[5] = ctaid_x();
    w.out[6] = ctaid_y();
    w.out[7] = nctaid_x();
}

__device__ inline void section_shared(Words &w)
{
    const uint32_t shared = dynamic_shared_base();
    st_shared_b32(shared + tid_x() * 4, w.in[0]);
    bar_sync_0();
    w.out[0] = ld_shared_b32(shared + (tid_x() ^ 37) * 4);
    bar_sync_0();
    st_shared_b16(shared + tid_x() * 2, static_cast<uint16_t>(w.in[1]));
    bar_sync_0();
    w.out[1] = ld_shared_b32(shared + tid_x() / 2 * 4);
    bar_sync_0();
    st_shared_b64(shared + tid_x() * 8, static_cast<int64_t>(w.in[2]) << 32 | w.in[3]);
    bar_sync_0();
    const int64_t pair = ld_shared_b64(shared + (127 - tid_x()) * 8);
    w.out[2] = static_cast<uint32_t>(pair);
    w.out[3] = static_cast<uint32_t>(static_cast<uint64_t>(pair) >> 32);
    bar_sync_0();
    const uint32_t four[4] = {w.in[4], w.in[5], w.in[6], w.in[7]};
    st_shared_v4_b32(shared + tid_x() * 16, four);
    bar_sync_0();
    uint32_t back[4];
    ld_shared_v4_b32(back, shared + (tid_x() ^ 64) * 16);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        w.out[4 + i] = back[i];
    }
}

/* 0 to 16 of 16 bytes, the others become zeros; two groups. */
__device__ inline void section_cp_async(Words &w, const uint32_t *mine)
{
    const uint32_t shared = dynamic_shared_base();
    cp_async_cg_16(shared + tid_x() * 32, mine, w.in[15] % 17);
    cp_async_commit_group();
    cp_async_cg_16(shared + tid_x() * 32 + 16, mine + 4, 16);
    cp_async_commit_group();
    cp_async_wait_group<1>();
    uint32_t back[4];
    ld_shared_v4_b32(back, shared + tid_x() * 32);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        w.out[i] = back[i];
    }
    cp_async_wait_group<0>();
    bar_sync_0();
    ld_shared_v4_b32(back, shared + (tid_x() ^ 1) * 32 + 16);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        w.out[4 + i] = back[i];
    }
}

/* Writes its words itself. */
__device__ inline void section_global(const Words &w, const uint32_t *input, uint32_t *output)
{
    st_global_b16(output, ld_global_nc_b16(reinterpret_cast<const uint16_t *>(input) + 1));
    st_global_b16(reinterpret_cast<uint16_t *>(output) + 1, static_cast<uint16_t>(w.in[1]));
    st_global_b32(output + 1, static_cast<uint32_t>(ld_global_nc_s32(reinterpret_cast<const int32_t *>(input) + 3)));
    st_global_v2_b32(output + 2, w.in[4], w.in[5]);
    const uint32_t four[4] = {w.in[6], w.in[7], w.in[8], w.in[9]};
    st_global_v4_b32(output + 4, four);
}

extern "C" __global__ __launch_bounds__(128) void conformance(const uint32_t *input, uint32_t *output)
{
    const uint32_t first = (ctaid_x() * 128 + tid_x()) * kWords;
    Words w;
#pragma unroll
    for (int i = 0; i < kWords; ++i) {
        w.in[i] = static_cast<uint32_t>(ld_global_nc_s32(reinterpret_cast<const int32_t *>(input) + first + i));
        w.out[i] = 0;
    }
    switch (ctaid_x()) {
    case 0:
        section_convert(w);
        break;
    case 1:
        section_packed(w);
        break;
    case 2:
        section_scalar(w);
        break;
    case 3:
        section_approximate(w);
        break;
    case 4:
        section_ldmatrix(w);
        break;
    case 5:
        section_mma(w, true);
        break;
    case 6:
        section_mma(w, false);
        break;
    case 7:
        section_exchange(w);
        break;
    case 8:
        section_shared(w);
        break;
    case 9:
        section_cp_async(w, input + first);
        break;
    default:
        section_global(w, input + first, output + first);
        return;
    }
#pragma unroll
    for (int i = 0; i < kWords; ++i) {
        st_global_b32(output + first + i, w.out[i]);
    }
}
