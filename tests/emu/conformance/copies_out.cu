/*
 * Copies and sums out of shared memory, and atomics: block b runs section b, 128 threads, input and output in pieces of kWords words a block.
 * Tensor maps are of the tensors that conformance_copies_out.cpp describes.
 *
 * Boxes of stores and reductions start inside their tensor, at a multiple of 16 bytes of its rows: a GPU refuses others, with an illegal
 * instruction. They may end outside.
 */
#include "types.cuh"

#include "params.h"
#include "ptx/atomic.cuh"
#include "ptx/barrier.cuh"
#include "ptx/bulk_copy.cuh"
#include "ptx/bulk_group.cuh"
#include "ptx/convert.cuh"
#include "ptx/fence.cuh"
#include "ptx/global_memory.cuh"
#include "ptx/shared_memory.cuh"
#include "ptx/special_registers.cuh"
#include "ptx/tma_store.cuh"

struct copies_out_params {
    gdpa_tensor_map stores[4]; // of 2 to 5 dimensions
    gdpa_tensor_map sums;      // fp32, 2 dimensions
    const uint32_t *input;
    uint32_t *output;
};

constexpr uint32_t kWords = 4096; // a block

__device__ inline uint32_t input_word(const uint32_t *input, uint32_t i)
{
    return static_cast<uint32_t>(ld_global_nc_s32(reinterpret_cast<const int32_t *>(input) + i));
}

/* The first `bytes` bytes of shared memory, for the copy engine to read. */
__device__ inline void fill(uint32_t shared, const uint32_t *input, uint32_t bytes)
{
    for (uint32_t i = tid_x(); i < bytes / 4; i += 128) {
        st_shared_b32(shared + i * 4, input_word(input, i));
    }
    fence_proxy_async_shared();
    bar_sync_0();
}

__device__ inline void section_store(const copies_out_params &params, const uint32_t *input, uint32_t dimensions,
                                     uint32_t bytes)
{
    const uint32_t shared = dynamic_shared_base();
    const gdpa_tensor_map *map = &params.stores[dimensions - 2];
    fill(shared, input, bytes);
    if (tid_x() == 0) {
        if (dimensions == 2) {
            cp_async_bulk_tensor_2d_store(map, shared, 16, 5);
        } else if (dimensions == 3) {
            cp_async_bulk_tensor_3d_store(map, shared, 16, 3, 2);
        } else if (dimensions == 4) {
            cp_async_bulk_tensor_4d_store(map, shared, 8, 6, 2, 1);
        } else {
            cp_async_bulk_tensor_5d_store(map, shared, 16, 1, 2, 0, 1);
        }
        cp_async_bulk_commit_group();
        cp_async_bulk_wait_group<0>();
    }
}

/* Numbers are small whole ones: sums are exact in any order. */
__device__ inline void section_tensor_sums(const copies_out_params &params, const uint32_t *input)
{
    const uint32_t shared = dynamic_shared_base();
    fill(shared, input, 512);
    if (tid_x() == 0) {
        cp_async_bulk_tensor_2d_reduce_add(&params.sums, shared, 8, 2);
        cp_async_bulk_tensor_2d_reduce_add(&params.sums, shared, 0, 0);
        cp_async_bulk_commit_group();
        cp_async_bulk_wait_group_read<0>();
        cp_async_bulk_wait_group<0>();
    }
}

__device__ inline void section_linear(const uint32_t *input, uint32_t *output)
{
    const uint32_t shared = dynamic_shared_base();
    fill(shared, input, 4096);
    if (tid_x() == 0) {
        cp_async_bulk_store(output, shared, 1536);
        cp_async_bulk_store(output + 512, shared + 2048, 1536);
        cp_async_bulk_commit_group();
        cp_async_bulk_wait_group<0>();
    }
}

__device__ inline void section_linear_sums(const uint32_t *input, uint32_t *output)
{
    const uint32_t shared = dynamic_shared_base();
    fill(shared, input, 2048);
    if (tid_x() == 0) {
        cp_reduce_async_bulk_add_f32(reinterpret_cast<float *>(output), shared, 1024);
        cp_reduce_async_bulk_add_f32(reinterpret_cast<float *>(output), shared + 512, 1024);
        cp_async_bulk_commit_group();
        cp_async_bulk_wait_group<0>();
    }
}

__device__ inline void section_atomics(const uint32_t *input, uint32_t *output)
{
    float *sums = reinterpret_cast<float *>(output);
    const float number = bits_as_float(input_word(input, tid_x()));
    red_global_add_f32(sums + tid_x() % 8, number);
    const float four[4] = {number, 2.0f * number, -number, 1.0f};
    red_global_add_v4_f32(sums + 16 + tid_x() % 4 * 4, four);
    atom_global_add_u32(output + 600 + tid_x() % 2, input_word(input, 600 + tid_x()));
}

extern "C" __global__ __launch_bounds__(128, 4) void conformance(const __grid_constant__ copies_out_params params)
{
    const uint32_t *input = params.input + ctaid_x() * kWords;
    uint32_t *output = params.output + ctaid_x() * kWords;
    switch (ctaid_x()) {
    case 0:
        return section_store(params, input, 2, 16 * 8 * 2);
    case 1:
        return section_store(params, input, 3, 16 * 4 * 3 * 2);
    case 2:
        return section_store(params, input, 4, 64 * 8 * 2 * 3 * 2);
    case 3:
        return section_store(params, input, 5, 32 * 2 * 2 * 2 * 2 * 2);
    case 4:
        return section_tensor_sums(params, input);
    case 5:
        return section_linear(input, output);
    case 6:
        return section_linear_sums(input, output);
    default:
        return section_atomics(input, output);
    }
}
