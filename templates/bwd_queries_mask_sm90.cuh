/*
 * What a consumer warpgroup of the second kernel of a deterministic Hopper backward sees of key tiles: all of it, nothing, or a part.
 */
#ifndef GDPA_BWD_QUERIES_MASK_SM90_CUH
#define GDPA_BWD_QUERIES_MASK_SM90_CUH

#include "bwd_queries_store_sm90.cuh"
#include "bwd_queries_work_sm90.cuh"
#include "config_default.cuh"
#include "mask.cuh"
#include "ptx/special_registers.cuh"

constexpr int kDqSliceSteps = kSliceN / 16;

struct DqMask : DqStore {
    /* Whether any of this warpgroup's rows exists. */
    __device__ bool has_rows(uint32_t work) const
    {
        return static_cast<int32_t>(number) * 64 < read_uniform_word(work + kDqWorkValidRows);
    }

    //@if masked
    /* Where this warpgroup's first row stands among the keys. */
    __device__ int64_t first_aligned_row(uint32_t work) const
    {
        return read_uniform_word(work + kDqWorkFirstRow) + static_cast<int64_t>(number * 64) +
               key_offset(read_uniform_word(work + kDqWorkLengthQ), read_uniform_word(work + kDqWorkLengthK));
    }

    /* Whether this warpgroup's rows see nothing of a key tile. */
    __device__ bool sees_nothing(uint32_t work, int32_t key_tile) const
    {
        const int64_t aligned_row = first_aligned_row(work);
        const int64_t key = static_cast<int64_t>(key_tile) * kDqKeys;
        bool nothing = false;
        //@if window_left
        nothing = nothing || key + kDqKeys - 1 < aligned_row - kWindowLeft;
        //@endif
        //@if window_right
        nothing = nothing || key > aligned_row + 63 + kWindowRight;
        //@endif
        return nothing;
    }

    /* Zeroes the hidden pairs of a slice. Bounds are columns of the slice, relative to the thread's first one. */
    __device__ void hide_slice(uint32_t (&pairs)[kDqSliceSteps][4], int slice, uint32_t work, int32_t key_tile) const
    {
        const int64_t key = static_cast<int64_t>(key_tile) * kDqKeys + slice * kSliceN + lane() % 4 * 2;
#pragma unroll
        for (int half = 0; half < 2; ++half) { // the upper and the lower 8 rows of the warp's 16
            const int64_t aligned_row =
                first_aligned_row(work) + tid_x() % kWarpgroupThreads / 32 * 16 + lane() / 4 + half * 8;
            //@if window_left
            const int32_t low = clamp_to_slice(aligned_row - kWindowLeft - key);
            //@endif
            //@if window_right
            const int32_t high = clamp_to_slice(aligned_row + kWindowRight - key);
            //@endif
#pragma unroll
            for (int pair = 0; pair < kDqSliceSteps * 2; ++pair) {
                const int32_t column = pair * 8;
                bool left = true;
                bool right = true;
                //@if window_left
                left = left && column >= low;
                right = right && column + 1 >= low;
                //@endif
                //@if window_right
                left = left && column <= high;
                right = right && column + 1 <= high;
                //@endif
                pairs[pair / 2][pair % 2 * 2 + half] &= (left ? 0x0000ffffu : 0) | (right ? 0xffff0000u : 0);
            }
        }
    }

    __device__ static int32_t clamp_to_slice(int64_t key)
    {
        return static_cast<int32_t>(key < -1 ? -1 : key > kSliceN ? kSliceN : key);
    }
    //@endif

    /*
     * Behind the last of the key tiles from `key_tile` on of which every row of this warpgroup sees every key; `key_tile` itself when there is
     * none. Keys beyond the sequence are zeros, and count as seen.
     */
    __device__ int32_t plain_end(uint32_t work, int32_t key_tile) const
    {
        const int32_t end_tile = read_uniform_word(work + kDqWorkEndTile);
        if (!has_rows(work)) {
            return key_tile;
        }
        //@if masked
        const int64_t aligned_row = first_aligned_row(work);
        //@endif
        //@if window_left
        if (static_cast<int64_t>(key_tile) * kDqKeys < aligned_row + 63 - kWindowLeft) {
            return key_tile;
        }
        //@endif
        //@if window_right
        const int64_t seen = aligned_row + kWindowRight + 1; // keys, by all rows
        const int64_t end = seen < 0 ? 0 : seen / kDqKeys;
        return end < key_tile ? key_tile : end < end_tile ? static_cast<int32_t>(end) : end_tile;
        //@else
        return end_tile;
        //@endif
    }
};

#endif
