/*
 * As templates/load_tile.cuh, by a number of threads of the caller's choice: the two kernels of a backward pass have different blocks.
 */
#ifndef GDPA_COPY_ROWS_CUH
#define GDPA_COPY_ROWS_CUH

#include "load_tile.cuh"

/* source: row 0 of the tile. kHeadColumns: its columns in global memory. Rows from valid_rows on become zeros. */
template <int kCopiers, int kHeadColumns, typename Tile>
__device__ inline void copy_rows(const Tile &tile, const uint16_t *source, int64_t row_stride, int32_t valid_rows)
{
    if constexpr (kCopiers % Tile::kUnits == 0 && Tile::kRows % (kCopiers / Tile::kUnits) == 0) {
        // A thread keeps its column and goes down the rows: one pointer that moves on, instead of an address for each load.
        constexpr int kRowStep = kCopiers / Tile::kUnits;
        const uint32_t first_row = tid_x() / Tile::kUnits;
        const uint32_t unit = tid_x() % Tile::kUnits;
        const uint16_t *place = source + first_row * row_stride + unit * 8;
#pragma unroll
        for (int row = 0; row < Tile::kRows; row += kRowStep) {
            const bool valid = static_cast<int32_t>(first_row) < valid_rows - row && unit < kHeadColumns / 8;
            load_unit(tile.unit_address(first_row + row, unit), place, valid);
            place += kRowStep * row_stride;
        }
    } else {
        // Not unrolled: the addresses, which are the same for every tile, would stay in registers.
#pragma unroll 1
        for (int first = 0; first < Tile::kRows * Tile::kUnits; first += kCopiers) {
            const uint32_t index = first + tid_x();
            const uint32_t row = index / Tile::kUnits;
            const uint32_t unit = index % Tile::kUnits;
            if (row < Tile::kRows) {
                const bool valid = static_cast<int32_t>(row) < valid_rows && unit < kHeadColumns / 8;
                load_unit(tile.unit_address(row, unit), source + row * row_stride + unit * 8, valid);
            }
        }
    }
}

#endif
