/*
 * A tile of 16-bit elements in shared memory: rows x columns, cut into chunks of 64 (or 32) columns, each chunk
 * [rows][128 (or 64) bytes] with the 16-byte units of a row exchanged (swizzled), so that the 8 rows of an 8x8 matrix that
 * ldmatrix reads, and the 8 units of a row that a copy writes, lie in different banks.
 *
 *     chunk of 64 columns: unit u of row r is stored at unit u ^ (r % 8)         of that row
 *     chunk of 32 columns: unit u of row r is stored at unit u ^ ((r / 2) % 4)   of that row
 */
#ifndef GDPA_SHARED_TILE_CUH
#define GDPA_SHARED_TILE_CUH

#include "types.cuh"

constexpr int round_up(int value, int step)
{
    return (value + step - 1) / step * step;
}

template <int kRows_, int kColumns_> struct SharedTile {
    static constexpr int kRows = kRows_;
    static constexpr int kColumns = kColumns_;
    static constexpr int kChunkColumns = kColumns % 64 == 0 ? 64 : 32;
    static constexpr int kChunkUnits = kChunkColumns / 8; // of 16 bytes
    static constexpr int kRowBytes = kChunkColumns * 2;   // of one row in one chunk
    static constexpr int kChunkBytes = kRows * kRowBytes;
    static constexpr int kBytes = round_up(kColumns, kChunkColumns) / kChunkColumns * kChunkBytes;
    static constexpr int kUnits = round_up(kColumns, 16) / 8; // units of a row that are filled and read

    uint32_t base;

    /* What row r adds to the unit number. */
    __device__ static uint32_t swizzle(uint32_t row)
    {
        return kChunkColumns == 64 ? row % 8 : row / 2 % 4;
    }

    /* Shared address of a 16-byte unit, counted over all chunks. */
    __device__ uint32_t unit_address(uint32_t row, uint32_t unit) const
    {
        const uint32_t chunk = unit / kChunkUnits;
        const uint32_t place = unit % kChunkUnits ^ swizzle(row);
        return base + chunk * kChunkBytes + row * kRowBytes + place * 16;
    }
};

#endif
