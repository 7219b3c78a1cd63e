/*
 * Copies into shared memory and the other instructions of Hopper kernels: a launch of one block of 128 threads runs one section, so that what a GPU refuses
 * has a name. Sections have pieces of kWords words of the input. Tensor maps are of the tensors that conformance_copies.cpp describes; what lands in shared memory is written out as it lies there.
 */
#include "types.cuh"

#include "params.h"
#include "ptx/barrier.cuh"
#include "ptx/bulk_copy.cuh"
#include "ptx/convert.cuh"
#include "ptx/elect.cuh"
#include "ptx/global_memory.cuh"
#include "ptx/griddepcontrol.cuh"
#include "ptx/mbarrier.cuh"
#include "ptx/mbarrier_object.cuh"
#include "ptx/named_barrier.cuh"
#include "ptx/packed_math.cuh"
#include "ptx/setmaxnreg.cuh"
#include "ptx/shared_memory.cuh"
#include "ptx/special_registers.cuh"
#include "ptx/stmatrix.cuh"
#include "ptx/stmatrix_trans.cuh"
#include "ptx/tma.cuh"
#include "ptx/tma_load.cuh"
#include "ptx/warp.cuh"

struct copies_params {
    gdpa_tensor_map loads[4]; // of 2 to 5 dimensions
    const uint32_t *input;
    uint32_t *output;
    uint64_t section;
};

constexpr uint32_t kWords = 4096; // a section
constexpr uint32_t kBytes = kWords * 4;
constexpr uint32_t kBarrier = 2 * kBytes; // of shared memory

__device__ inline uint32_t input_word(const uint32_t *input, uint32_t i)
{
    return static_cast<uint32_t>(ld_global_nc_s32(reinterpret_cast<const int32_t *>(input) + i));
}

__device__ inline void start_barrier(uint32_t barrier, uint32_t arrivals)
{
    if (tid_x() == 0) {
        mbarrier_init(barrier, arrivals);
        fence_mbarrier_init();
    }
    bar_sync_0();
}

/* The first `bytes` bytes of shared memory. */
__device__ inline void dump(uint32_t shared, uint32_t *output, uint32_t bytes)
{
    for (uint32_t i = tid_x(); i < bytes / 4; i += 128) {
        st_global_b32(output + i, ld_shared_b32(shared + i * 4));
    }
}

/* Boxes: see conformance_copies.cpp. Each reaches out of its tensor in some dimensions, below and above. */
__device__ inline void section_load(const copies_params &params, uint32_t *output, uint32_t dimensions, uint32_t bytes)
{
    const uint32_t shared = dynamic_shared_base();
    const uint32_t barrier = shared + kBarrier;
    const gdpa_tensor_map *map = &params.loads[dimensions - 2];
    start_barrier(barrier, 1);
    if (tid_x() == 0) {
        prefetch_tensormap(map);
        mbarrier_arrive_expect_tx(barrier, bytes);
        if (dimensions == 2) {
            cp_async_bulk_tensor_2d_load(shared, map, barrier, -8, 5);
        } else if (dimensions == 3) {
            cp_async_bulk_tensor_3d_load(shared, map, barrier, 8, -1, 2);
        } else if (dimensions == 4) {
            cp_async_bulk_tensor_4d_load(shared, map, barrier, 0, 6, 1, -1);
        } else {
            cp_async_bulk_tensor_5d_load(shared, map, barrier, 8, 0, 1, 0, 1);
        }
    }
    mbarrier_wait_parity(barrier, 0);
    dump(shared, output, bytes);
}

/* Two copies on one barrier, two phases. The barrier is given back at the end. */
__device__ inline void section_linear(const uint32_t *input, uint32_t *output)
{
    const uint32_t shared = dynamic_shared_base();
    const uint32_t barrier = shared + kBarrier;
    start_barrier(barrier, 1);
    for (uint32_t phase = 0; phase < 2; ++phase) {
        if (tid_x() == 0) {
            mbarrier_expect_tx(barrier, 1024);
            cp_async_bulk_load(shared + phase * 2048, input + phase * 512, 1024, barrier);
            mbarrier_arrive_expect_tx(barrier, 512);
            cp_async_bulk_load(shared + phase * 2048 + 1024, input + phase * 512 + 256, 512, barrier);
        }
        mbarrier_wait_parity(barrier, phase & 1);
        bar_sync_0(); // nobody is two phases behind
    }
    if (tid_x() == 0) {
        mbarrier_inval(barrier);
        st_shared_b32(barrier, input_word(input, 1024));
    }
    bar_sync_0();
    dump(shared, output, 1536);
    dump(shared + 2048, output + 512, 1536);
    if (tid_x() == 0) {
        st_global_b32(output + 1024, ld_shared_b32(barrier));
    }
}

/* Each warp: 1024 bytes of rows that its lanes name, as stmatrix lays them. */
__device__ inline void section_stmatrix(const uint32_t *input, uint32_t *output)
{
    const uint32_t shared = dynamic_shared_base() + tid_x() / 32 * 1024;
    const uint32_t lane = tid_x() % 32;
    uint32_t m[8];
#pragma unroll
    for (int i = 0; i < 8; ++i) {
        m[i] = input_word(input, tid_x() * 8 + i);
    }
    stmatrix_x4(shared + (lane * 7 + 3) % 32 * 16, m[0], m[1], m[2], m[3]);
    stmatrix_x4_trans(shared + 512 + (lane * 5 + 1) % 32 * 16, m[4], m[5], m[6], m[7]);
    bar_sync_0();
    dump(dynamic_shared_base(), output, 4096);
}

/* A number goes through the warps in turn, by named barriers and mbarriers; registers are given back and taken. */
__device__ inline void section_order(const uint32_t *input, uint32_t *output)
{
    const uint32_t shared = dynamic_shared_base();
    const uint32_t barrier = shared + kBarrier;
    const uint32_t warp = tid_x() / 32;
    start_barrier(barrier, 32);
    setmaxnreg_dec<40>();
    griddepcontrol_wait();
    if (warp == 0) {
        st_shared_b32(shared + tid_x() * 4, input_word(input, tid_x()));
        bar_arrive(1, 64);
    } else if (warp == 1) {
        bar_sync(1, 64);
        st_shared_b32(shared + 128 + tid_x() % 32 * 4, ld_shared_b32(shared + (31 - tid_x() % 32) * 4) + 1);
        mbarrier_arrive(barrier);
    } else {
        mbarrier_wait_parity(barrier, 0);
        st_global_b32(output + tid_x(), ld_shared_b32(shared + 128 + tid_x() % 32 * 4) + warp);
    }
    griddepcontrol_launch_dependents();
    setmaxnreg_inc<64>();
    if (elect_sync()) {
        st_global_b32(output + warp, tid_x() % 32);
    }
    st_global_b32(output + 256 + tid_x(), tanh_approx_bf16x2(input_word(input, tid_x())));
    st_global_b32(output + 384 + tid_x(), tanh_approx_f16x2(input_word(input, 128 + tid_x())));
}

extern "C" __global__ __launch_bounds__(128, 4) void conformance(const __grid_constant__ copies_params params)
{
    const uint32_t *input = params.input + params.section * kWords;
    uint32_t *output = params.output;
    switch (params.section) {
    case 0:
        return section_load(params, output, 2, 16 * 8 * 2);
    case 1:
        return section_load(params, output, 3, 16 * 4 * 3 * 2);
    case 2:
        return section_load(params, output, 4, 64 * 8 * 2 * 3 * 2);
    case 3:
        return section_load(params, output, 5, 32 * 2 * 2 * 2 * 2 * 2);
    case 4:
        return section_linear(input, output);
    case 5:
        return section_stmatrix(input, output);
    default:
        return section_order(input, output);
    }
}
