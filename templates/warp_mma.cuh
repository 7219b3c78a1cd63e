/*
 * Products of a warp: its rows of the query tile against keys or values in shared memory. Fragments are those of ptx/mma.cuh.
 */
#ifndef GDPA_WARP_MMA_CUH
#define GDPA_WARP_MMA_CUH

#include "config_default.cuh"
#include "ptx/ldmatrix.cuh"
#include "ptx/mma.cuh"
#include "ptx/special_registers.cuh"
#include "shared_tile.cuh"

constexpr int kWarpRows = kBlockM / kWarps;           // query rows of a warp
constexpr int kRowTiles = kWarpRows / 16;             // of 16 rows
constexpr int kDepthSteps = round_up(kHeadDim, 16) / 16; // k16 steps of Q K^T
constexpr int kSliceTiles = kSliceN / 8;              // n8 tiles of the scores held at a time
constexpr int kValueTiles = kHeadDimV / 8;            // n8 tiles of the output

__device__ inline void mma_m16n8k16(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1)
{
    //@if bf16
    mma_m16n8k16_bf16(d, a, b0, b1);
    //@else
    mma_m16n8k16_f16(d, a, b0, b1);
    //@endif
}

/*
 * ldmatrix addresses of a lane. `row` is the lane's row and `half` its half of the 16 columns of a step; both depend on the lane
 * alone, so the swizzle of every step differs only in the step: one exclusive-or.
 */
template <typename Tile>
__device__ inline uint32_t step_address(const Tile &tile, uint32_t row, uint32_t half, uint32_t first_row, uint32_t step)
{
    constexpr uint32_t kStepsInChunk = Tile::kChunkColumns / 16;
    const uint32_t place = step % kStepsInChunk * 2 ^ (half ^ Tile::swizzle(row));
    return tile.base + step / kStepsInChunk * Tile::kChunkBytes + (first_row + row) * Tile::kRowBytes + place * 16;
}

/* A fragments of one k16 step of the warp's query rows. */
template <typename Tile>
__device__ inline void load_query_step(uint32_t (&fragments)[kRowTiles][4], const Tile &tile, uint32_t warp, uint32_t step)
{
    const uint32_t lane = tid_x() % 32;
#pragma unroll
    for (int m = 0; m < kRowTiles; ++m) {
        ldmatrix_x4(fragments[m], step_address(tile, lane % 16, lane / 16, warp * kWarpRows + m * 16, step));
    }
}

/* scores += queries x keys^T of one k16 step, for the kSliceN keys from first_key on. */
template <typename Tile>
__device__ inline void multiply_keys_step(float (&scores)[kRowTiles][kSliceTiles][4],
                                          const uint32_t (&queries)[kRowTiles][4], const Tile &keys,
                                          uint32_t first_key, uint32_t step)
{
    const uint32_t lane = tid_x() % 32;
    const uint32_t row = lane % 8 + lane / 16 * 8; // matrices: (keys 0-7, 8-15) x (columns 0-7, 8-15), columns faster
    const uint32_t half = lane / 8 % 2;
#pragma unroll
    for (int n = 0; n < kSliceTiles / 2; ++n) {
        uint32_t b[4];
        ldmatrix_x4(b, step_address(keys, row, half, first_key + n * 16, step));
#pragma unroll
        for (int m = 0; m < kRowTiles; ++m) {
            mma_m16n8k16(scores[m][2 * n], queries[m], b[0], b[1]);
            mma_m16n8k16(scores[m][2 * n + 1], queries[m], b[2], b[3]);
        }
    }
}

/* output += weights x values for 16 keys from first_key on. */
template <typename Tile>
__device__ inline void multiply_values_step(float (&output)[kRowTiles][kValueTiles][4],
                                            const uint32_t (&weights)[kRowTiles][4], const Tile &values,
                                            uint32_t first_key)
{
    const uint32_t lane = tid_x() % 32;
#pragma unroll
    for (int n = 0; n < (kValueTiles + 1) / 2; ++n) {
        uint32_t b[4]; // matrices: (keys 0-7, 8-15) x (columns 0-7, 8-15), keys faster
        ldmatrix_x4_trans(b, step_address(values, lane % 16, lane / 16, first_key, n));
#pragma unroll
        for (int m = 0; m < kRowTiles; ++m) {
            mma_m16n8k16(output[m][2 * n], weights[m], b[0], b[1]);
            if (2 * n + 1 < kValueTiles) {
                mma_m16n8k16(output[m][2 * n + 1], weights[m], b[2], b[3]);
            }
        }
    }
}

#endif
