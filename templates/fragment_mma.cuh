/*
 * Products of a warp on tiles in shared memory, of any number of fragments. Fragments are those of ptx/mma.cuh: A and accumulators in
 * tiles of 16 rows, accumulators in tiles of 8 columns. (The forward has its own in warp_mma.cuh, cut to its tiles.)
 */
#ifndef GDPA_FRAGMENT_MMA_CUH
#define GDPA_FRAGMENT_MMA_CUH

#include "config_default.cuh"
#include "ptx/ldmatrix.cuh"
#include "ptx/mma.cuh"
#include "ptx/special_registers.cuh"
#include "shared_tile.cuh"

__device__ inline void mma_m16n8k16(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1)
{
    //@if bf16
    mma_m16n8k16_bf16(d, a, b0, b1);
    //@else
    mma_m16n8k16_f16(d, a, b0, b1);
    //@endif
}

/*
 * ldmatrix addresses of a lane: row first_row + row, 16-byte half `half` of the 16 columns of a step. `row` and `half` depend on the lane
 * alone, and first_row is a multiple of 8: the swizzle of every step differs only in the step.
 */
template <typename Tile>
__device__ inline uint32_t step_address(const Tile &tile, uint32_t row, uint32_t half, uint32_t first_row, uint32_t step)
{
    constexpr uint32_t kStepsInChunk = Tile::kChunkColumns / 16;
    const uint32_t place = step % kStepsInChunk * 2 ^ (half ^ Tile::swizzle(row));
    return tile.base + step / kStepsInChunk * Tile::kChunkBytes + (first_row + row) * Tile::kRowBytes + place * 16;
}

/* A fragments: rows of the tile from first_row on, the 16 columns of a step. */
template <int kTiles, typename Tile>
__device__ inline void load_rows(uint32_t (&a)[kTiles][4], const Tile &tile, uint32_t first_row, uint32_t step)
{
    const uint32_t lane = tid_x() % 32;
#pragma unroll
    for (int m = 0; m < kTiles; ++m) {
        ldmatrix_x4(a[m], step_address(tile, lane % 16, lane / 16, first_row + m * 16, step));
    }
}

/* A fragments of the transposed tile: its columns from those of first_step on as rows, its 16 rows from first_row on as columns. */
template <int kTiles, typename Tile>
__device__ inline void load_columns(uint32_t (&a)[kTiles][4], const Tile &tile, uint32_t first_row, uint32_t first_step)
{
    const uint32_t lane = tid_x() % 32;
#pragma unroll
    for (int m = 0; m < kTiles; ++m) {
        ldmatrix_x4_trans(a[m],
                          step_address(tile, lane % 8 + lane / 16 * 8, lane / 8 % 2, first_row, first_step + m));
    }
}

/* sums += a x (rows of the tile from first_row on)^T, over the 16 columns of a step. */
template <int kRowTiles, int kColumnTiles, typename Tile>
__device__ inline void multiply_rows(float (&sums)[kRowTiles][kColumnTiles][4], const uint32_t (&a)[kRowTiles][4],
                                     const Tile &tile, uint32_t first_row, uint32_t step)
{
    const uint32_t lane = tid_x() % 32;
#pragma unroll
    for (int n = 0; n < kColumnTiles / 2; ++n) {
        uint32_t b[4]; // matrices: (rows 0-7, 8-15) x (columns 0-7, 8-15), columns faster
        ldmatrix_x4(b, step_address(tile, lane % 8 + lane / 16 * 8, lane / 8 % 2, first_row + n * 16, step));
#pragma unroll
        for (int m = 0; m < kRowTiles; ++m) {
            mma_m16n8k16(sums[m][2 * n], a[m], b[0], b[1]);
            mma_m16n8k16(sums[m][2 * n + 1], a[m], b[2], b[3]);
        }
    }
}

/* sums += a x (16 rows of the tile from first_row on), over its columns from those of first_step on, as far as the tile has any. */
template <int kRowTiles, int kColumnTiles, typename Tile>
__device__ inline void multiply_columns(float (&sums)[kRowTiles][kColumnTiles][4], const uint32_t (&a)[kRowTiles][4],
                                        const Tile &tile, uint32_t first_row, uint32_t first_step)
{
    const uint32_t lane = tid_x() % 32;
#pragma unroll
    for (int n = 0; n < kColumnTiles / 2; ++n) {
        if (Tile::kUnits / 2 % (kColumnTiles / 2) == 0 || first_step + n < Tile::kUnits / 2) {
            uint32_t b[4]; // matrices: (rows 0-7, 8-15) x (columns 0-7, 8-15), rows faster
            ldmatrix_x4_trans(b, step_address(tile, lane % 16, lane / 16, first_row, first_step + n));
#pragma unroll
            for (int m = 0; m < kRowTiles; ++m) {
                mma_m16n8k16(sums[m][2 * n], a[m], b[0], b[1]);
                mma_m16n8k16(sums[m][2 * n + 1], a[m], b[2], b[3]);
            }
        }
    }
}

/* sums += rows of one tile x (rows of the other one)^T, over kSteps steps of 16 columns. */
template <int kSteps, int kRowTiles, int kColumnTiles, typename RowTile, typename ColumnTile>
__device__ inline void multiply_tiles(float (&sums)[kRowTiles][kColumnTiles][4], const RowTile &rows, uint32_t first_row,
                                      const ColumnTile &columns, uint32_t first_column)
{
#pragma unroll
    for (int step = 0; step < kSteps; ++step) {
        uint32_t a[kRowTiles][4];
        load_rows(a, rows, first_row, step);
        multiply_rows(sums, a, columns, first_column, step);
    }
}

#endif
