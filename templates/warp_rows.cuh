/*
 * Rows of a tile that a warp copies and stores by itself, without the rest of its block.
 */
#ifndef GDPA_WARP_ROWS_CUH
#define GDPA_WARP_ROWS_CUH

#include "config_default.cuh"
#include "fragment_mma.cuh"
#include "load_tile.cuh"
#include "numeric.cuh"
#include "ptx/global_memory.cuh"
#include "ptx/shared_memory.cuh"
#include "ptx/special_registers.cuh"
#include "ptx/stmatrix.cuh"
#include "ptx/warp.cuh"
#include "shared_tile.cuh"

constexpr int kValueTiles = round_up(kHeadDimV, 16) / 8; // of 8 columns of the output

/* Sums of kTiles tiles of 16 rows. */
template <int kTiles> using Output = float[kTiles][kValueTiles][4];

/*
 * Where a lane finds its unit of each row when kLaneUnits lanes share a row, a power of 2: the lanes cover 32 / kLaneUnits rows, and from the
 * ones to the next ones only the swizzle and a constant differ.
 */
template <typename Tile, int kLaneUnits> struct LaneUnits {
    static constexpr int kRowStep = 32 / kLaneUnits;

    uint32_t row; // of the first rows
    uint32_t unit;
    uint32_t base;
    uint32_t place;

    __device__ explicit LaneUnits(const Tile &tile)
    {
        const uint32_t lane = tid_x() % 32;
        row = lane / kLaneUnits;
        unit = lane % kLaneUnits;
        base = tile.base + unit / Tile::kChunkUnits * Tile::kChunkBytes + row * Tile::kRowBytes;
        place = (unit % Tile::kChunkUnits ^ Tile::swizzle(row)) * 16;
    }

    /* The address of the lane's unit in row first_row + row; first_row is a multiple of kRowStep. */
    __device__ uint32_t address(uint32_t first_row) const
    {
        return base + (place ^ Tile::swizzle(first_row) * 16) + first_row * Tile::kRowBytes;
    }
};

template <int kHeadColumns, typename Tile>
__device__ inline void copy_16_rows(const Tile &tile, const uint16_t *source, int64_t row_stride, int32_t valid_rows,
                                    int first_row)
{
    if constexpr (32 % Tile::kUnits == 0) {
        const LaneUnits<Tile, Tile::kUnits> units(tile);
        const uint16_t *place = source + (first_row + units.row) * row_stride + units.unit * 8;
#pragma unroll
        for (int row = first_row; row < first_row + 16; row += units.kRowStep) {
            const bool valid =
                static_cast<int32_t>(units.row) < valid_rows - row && units.unit < kHeadColumns / 8;
            load_unit(units.address(row), place, valid);
            place += units.kRowStep * row_stride;
        }
    } else {
        // Not unrolled: the addresses would stay in registers.
#pragma unroll 1
        for (uint32_t index = tid_x() % 32; index < 16 * Tile::kUnits; index += 32) {
            const uint32_t row = first_row + index / Tile::kUnits;
            const uint32_t unit = index % Tile::kUnits;
            const bool valid = static_cast<int32_t>(row) < valid_rows && unit < kHeadColumns / 8;
            load_unit(tile.unit_address(row, unit), source + row * row_stride + unit * 8, valid);
        }
    }
}

/* Rows from valid_rows on are zeros up to the next multiple of 16, behind that they are not touched. */
template <int kHeadColumns, typename Tile>
__device__ inline void copy_warp_rows(const Tile &tile, const uint16_t *source, int64_t row_stride, int32_t valid_rows)
{
#pragma unroll
    for (int block = 0; block < Tile::kRows; block += 16) {
        if (block < valid_rows) {
            copy_16_rows<kHeadColumns>(tile, source, row_stride, valid_rows, block);
        }
    }
}

//@if out_fp32
template <int kTiles>
__device__ inline void store_fragments(const Output<kTiles> &output, float factor, float *target, int64_t row_stride,
                                       int32_t rows)
{
    const uint32_t lane = tid_x() % 32;
#pragma unroll
    for (int m = 0; m < kTiles; ++m) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            const uint32_t row = m * 16 + half * 8 + lane / 4;
            if (static_cast<int32_t>(row) < rows) {
                float *place = target + row * row_stride + lane % 4 * 2;
#pragma unroll
                for (int n = 0; n < kHeadDimV / 8; ++n) {
                    st_global_v2_b32(place + n * 8, float_as_bits(scale_output(output[m][n][2 * half], factor)),
                                     float_as_bits(scale_output(output[m][n][2 * half + 1], factor)));
                }
            }
        }
    }
}
//@else
template <int kTiles, typename Tile>
__device__ inline void stage_fragments(const Output<kTiles> &output, float factor, const Tile &staging)
{
    const uint32_t lane = tid_x() % 32;
#pragma unroll
    for (int m = 0; m < kTiles; ++m) {
#pragma unroll
        for (int n = 0; n < kValueTiles; n += 2) {
            uint32_t packed[4]; // matrices: (rows 0-7, 8-15) x (columns 0-7, 8-15), rows faster
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                const float(&pair)[4] = output[m][n + i / 2];
                packed[i] = pack_output(scale_output(pair[i % 2 * 2], factor), scale_output(pair[i % 2 * 2 + 1], factor));
            }
            if constexpr (kArch >= 90) {
                stmatrix_x4(step_address(staging, lane % 16, lane / 16, m * 16, n / 2), packed[0], packed[1], packed[2],
                            packed[3]);
            } else {
#pragma unroll
                for (int i = 0; i < 4; ++i) {
                    st_shared_b32(staging.unit_address(m * 16 + i % 2 * 8 + lane / 4, n + i / 2) + lane % 4 * 4,
                                  packed[i]);
                }
            }
        }
    }
}

/* The first `rows` rows of those that were staged. */
template <int kTiles, typename Tile>
__device__ inline void store_staged(const Tile &staging, uint16_t *target, int64_t row_stride, int32_t rows)
{
    constexpr int kUnits = kHeadDimV / 8;
    uint32_t words[4];
    if constexpr (32 % kUnits == 0) {
        const LaneUnits<Tile, kUnits> units(staging);
        uint16_t *place = target + units.row * row_stride + units.unit * 8;
        // Of 8 columns one load of the warp is more rows than a tile of 16 has: those behind are neither there nor this step's.
        const bool staged = units.kRowStep <= kTiles * 16 || units.row < kTiles * 16;
#pragma unroll
        for (int row = 0; row < kTiles * 16; row += units.kRowStep) {
            if (staged) { // whether there is such a row is asked later: under that condition each load would have its own address
                ld_shared_v4_b32(words, units.address(row));
            }
            if (staged && static_cast<int32_t>(units.row) < rows - row) {
                st_global_v4_b32(place, words);
            }
            place += units.kRowStep * row_stride;
        }
    } else {
#pragma unroll 1
        for (uint32_t index = tid_x() % 32; index < kTiles * 16 * kUnits; index += 32) {
            const uint32_t row = index / kUnits;
            const uint32_t unit = index % kUnits;
            if (static_cast<int32_t>(row) < rows) {
                ld_shared_v4_b32(words, staging.unit_address(row, unit));
                st_global_v4_b32(target + row * row_stride + unit * 8, words);
            }
        }
    }
}
//@endif

/*
 * Scales, rounds and stores the first `rows` rows. o_offset: elements, of row 0. 16-bit results go through `staging`, which no lane
 * reads any more, so that the warp stores whole rows; fp32 ones go straight from the fragments.
 */
template <int kTiles, typename Tile>
__device__ inline void store_warp_rows(const Output<kTiles> &output, float factor, const Tile &staging, void *o,
                                       int64_t o_offset, int64_t row_stride, int32_t rows)
{
    //@if out_fp32
    store_fragments<kTiles>(output, factor, static_cast<float *>(o) + o_offset, row_stride, rows);
    //@else
    stage_fragments<kTiles>(output, factor, staging);
    bar_warp_sync();
    store_staged<kTiles>(staging, static_cast<uint16_t *>(o) + o_offset, row_stride, rows);
    //@endif
}

template <int kTiles> __device__ inline void clear(Output<kTiles> &output)
{
#pragma unroll
    for (int m = 0; m < kTiles; ++m) {
#pragma unroll
        for (int n = 0; n < kValueTiles; ++n) {
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                output[m][n][i] = 0.0f;
            }
        }
    }
}

#endif
