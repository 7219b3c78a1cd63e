/*
 * Copies of a tile's rows from global to shared memory, by all threads of the block.
 *
 * Rows from `valid_rows` on, and columns beyond the head dim up to the next multiple of 16, become zeros: what lies there in global memory
 * (another sequence, NaN) is never read.
 */
#ifndef GDPA_LOAD_TILE_CUH
#define GDPA_LOAD_TILE_CUH

#include "config_default.cuh"
#include "ptx/cp_async.cuh"
#include "ptx/global_memory.cuh"
#include "ptx/shared_memory.cuh"
#include "ptx/special_registers.cuh"
#include "shared_tile.cuh"

/* 16 bytes, or zeros. Asynchronous, unless the source may be unaligned. */
__device__ inline void load_unit(uint32_t address, const uint16_t *source, bool valid)
{
    //@if unaligned
    uint32_t words[4] = {0, 0, 0, 0};
    if (valid) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            words[i] = ld_global_nc_b16(source + 2 * i) |
                       static_cast<uint32_t>(ld_global_nc_b16(source + 2 * i + 1)) << 16;
        }
    }
    st_shared_v4_b32(address, words);
    //@else
    cp_async_cg_16(address, source, valid ? 16 : 0);
    //@endif
}

/* source: row 0 of the tile. kHeadColumns: its columns in global memory. */
template <int kHeadColumns, typename Tile>
__device__ inline void load_tile(const Tile &tile, const uint16_t *source, int64_t row_stride, int32_t valid_rows)
{
    if constexpr (kThreads % Tile::kUnits == 0 && Tile::kRows % (kThreads / Tile::kUnits) == 0) {
        // A thread keeps its column and goes down the rows: one pointer that moves on, instead of an address for each load.
        constexpr int kRowStep = kThreads / Tile::kUnits;
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
#pragma unroll
        for (int first = 0; first < Tile::kRows * Tile::kUnits; first += kThreads) {
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
