/*
 * A whole Hopper kernel in small: a producer warpgroup loads tiles of A and B by TMA through a ring of two slots, two consumer warpgroups add up
 * their products by wgmma, 64 rows each, and store the sums by TMA. Block b computes O_b = A_b B_b from as many tiles, 128 x 64 and 64 x 64, as
 * word b of the input says, which may be none. Faults are planted into it (test_faults_hopper.cpp).
 */
#include "types.cuh"

#include "params.h"
#include "ptx/barrier.cuh"
#include "ptx/bulk_group.cuh"
#include "ptx/convert.cuh"
#include "ptx/fence.cuh"
#include "ptx/global_memory.cuh"
#include "ptx/mbarrier.cuh"
#include "ptx/named_barrier.cuh"
#include "ptx/setmaxnreg.cuh"
#include "ptx/shared_memory.cuh"
#include "ptx/special_registers.cuh"
#include "ptx/stmatrix.cuh"
#include "ptx/tma.cuh"
#include "ptx/tma_load.cuh"
#include "ptx/tma_store.cuh"
#include "ptx/warp.cuh"
#include "ptx/wgmma.cuh"
#include "ptx/wgmma_n64.cuh"

struct pipeline_params {
    gdpa_tensor_map a; // [block][row][k]: boxes of 64 k x 128 rows
    gdpa_tensor_map b; // [block][k][column]: boxes of 64 columns x 64 k
    gdpa_tensor_map o; // [block][row][column]: boxes of 64 columns x 64 rows
    const int32_t *tiles;
};

constexpr uint32_t kSlots = 2;
constexpr uint32_t kConsumers = 2;
constexpr uint32_t kHalfBytes = 64 * 128; // 64 rows of 64 bf16, 128-byte swizzle
constexpr uint32_t kBytesA = kConsumers * kHalfBytes;
constexpr uint32_t kBytesB = kHalfBytes;
constexpr uint32_t kPlaceB = kSlots * kBytesA;
constexpr uint32_t kPlaceO = kPlaceB + kSlots * kBytesB;
constexpr uint32_t kFull = kPlaceO + kConsumers * kHalfBytes;
constexpr uint32_t kEmpty = kFull + 8 * kSlots;

__device__ inline void produce(const pipeline_params &params, uint32_t shared, int32_t tiles)
{
    const int32_t block = static_cast<int32_t>(ctaid_x());
    for (int32_t tile = 0; tile < tiles; ++tile) {
        const uint32_t slot = tile % kSlots;
        const uint32_t phase = tile / kSlots % 2;
        mbarrier_wait_parity(shared + kEmpty + 8 * slot, phase ^ 1);
        mbarrier_arrive_expect_tx(shared + kFull + 8 * slot, kBytesA + kBytesB);
        cp_async_bulk_tensor_3d_load(shared + slot * kBytesA, &params.a, shared + kFull + 8 * slot, tile * 64, 0, block);
        cp_async_bulk_tensor_3d_load(shared + kPlaceB + slot * kBytesB, &params.b, shared + kFull + 8 * slot, 0,
                                     tile * 64, block);
    }
}

__device__ inline void multiply(float (&sum)[32], uint32_t shared, uint32_t consumer, uint32_t slot, bool accumulate)
{
    const uint64_t a = wgmma_descriptor_128b(shared + slot * kBytesA + consumer * kHalfBytes, 16, 1024);
    const uint64_t b = wgmma_descriptor_128b(shared + kPlaceB + slot * kBytesB, kHalfBytes, 1024);
    wgmma_fence();
#pragma unroll
    for (int step = 0; step < 4; ++step) {
        wgmma_m64k16_ss<0, 1>(sum, a + step * 2, b + step * 128, accumulate || step > 0);
    }
    wgmma_commit_group();
    wgmma_wait_group<0>();
    tie(sum);
}

__device__ inline void store(const pipeline_params &params, uint32_t shared, uint32_t consumer, const float (&sum)[32])
{
    const uint32_t staging = shared + kPlaceO + consumer * kHalfBytes;
    const uint32_t lane = tid_x() % 32;
    const uint32_t row = tid_x() / 32 % 4 * 16 + lane % 16;
#pragma unroll
    for (int i = 0; i < 4; ++i) { // 16 columns
        uint32_t packed[4];
#pragma unroll
        for (int j = 0; j < 4; ++j) {
            packed[j] = cvt_rn_bf16x2_f32(sum[8 * i + 2 * j], sum[8 * i + 2 * j + 1]);
        }
        const uint32_t unit = 2 * i + lane / 16;
        stmatrix_x4(staging + row * 128 + ((unit ^ row % 8) << 4), packed[0], packed[1], packed[2], packed[3]);
    }
    fence_proxy_async_shared();
    bar_sync(1 + consumer, 128);
    if (tid_x() % 128 == 0) {
        cp_async_bulk_tensor_3d_store(&params.o, staging, 0, static_cast<int32_t>(consumer * 64),
                                      static_cast<int32_t>(ctaid_x()));
        cp_async_bulk_commit_group();
        cp_async_bulk_wait_group_read<0>();
    }
}

__device__ inline void consume(const pipeline_params &params, uint32_t shared, uint32_t consumer, int32_t tiles)
{
    float sum[32];
#pragma unroll
    for (int i = 0; i < 32; ++i) {
        sum[i] = 0.0f;
    }
    for (int32_t tile = 0; tile < tiles; ++tile) {
        const uint32_t slot = tile % kSlots;
        const uint32_t phase = tile / kSlots % 2;
        mbarrier_wait_parity(shared + kFull + 8 * slot, phase);
        multiply(sum, shared, consumer, slot, tile > 0);
        if (tid_x() % 128 == 0) {
            mbarrier_arrive(shared + kEmpty + 8 * slot);
        }
    }
    store(params, shared, consumer, sum);
}

extern "C" __global__ __launch_bounds__(384, 1) void conformance(const __grid_constant__ pipeline_params params)
{
    const uint32_t shared = dynamic_shared_base();
    if (tid_x() == 0) {
        for (uint32_t i = 0; i < kSlots; ++i) {
            mbarrier_init(shared + kFull + 8 * i, 1);
            mbarrier_init(shared + kEmpty + 8 * i, kConsumers);
        }
        fence_mbarrier_init();
    }
    bar_sync_0();
    const int32_t tiles = ld_global_nc_s32(params.tiles + ctaid_x());
    if (tid_x() < 128) {
        setmaxnreg_dec<24>();
        if (tid_x() == 0) {
            produce(params, shared, tiles);
        }
    } else {
        setmaxnreg_inc<240>();
        consume(params, shared, tid_x() / 128 - 1, tiles);
    }
}
