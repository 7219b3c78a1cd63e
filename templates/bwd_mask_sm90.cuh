/*
 * Masks of the Hopper backward: which steps hide something from a warpgroup, and how pairs are zeroed.
 */
#ifndef GDPA_BWD_MASK_SM90_CUH
#define GDPA_BWD_MASK_SM90_CUH

#include "bwd_products_sm90.cuh"
#include "bwd_store_sm90.cuh"
#include "bwd_work_sm90.cuh"
#include "config_default.cuh"
#include "mask.cuh"

struct Mask : Store {
    //@if masked
    /* Zeroes the hidden pairs. Bounds are queries of the tile, relative to the thread's first one. */
    __device__ void hide(uint32_t (&pairs)[kQuerySteps][4], uint32_t work, int32_t query_tile) const
    {
        const int64_t offset = key_offset(read_uniform_word(work + kWorkLengthQ), read_uniform_word(work + kWorkLengthK));
        const int64_t first_query = static_cast<int64_t>(query_tile) * kBlockM + lane() % 4 * 2;
#pragma unroll
        for (int half = 0; half < 2; ++half) { // the upper and the lower 8 keys of the warp's 16
            const int64_t key = read_uniform_word(work + kWorkFirstKey) + warp_key() + lane() / 4 + half * 8;
            //@if window_right
            const int32_t low = clamp_to_tile(key - kWindowRight - offset - first_query);
            //@endif
            //@if window_left
            const int32_t high = clamp_to_tile(key + kWindowLeft - offset - first_query);
            //@endif
#pragma unroll
            for (int pair = 0; pair < kQuerySteps * 2; ++pair) {
                const int32_t column = pair * 8;
                bool left = true;
                bool right = true;
                //@if window_right
                left = left && column >= low;
                right = right && column + 1 >= low;
                //@endif
                //@if window_left
                left = left && column <= high;
                right = right && column + 1 <= high;
                //@endif
                pairs[pair / 2][pair % 2 * 2 + half] &= (left ? 0x0000ffffu : 0) | (right ? 0xffff0000u : 0);
            }
        }
    }

    __device__ static int32_t clamp_to_tile(int64_t query)
    {
        return static_cast<int32_t>(query < -1 ? -1 : query > kBlockM ? kBlockM : query);
    }

    /* The query tiles of which every row sees all keys of the warpgroup, [first, end). */
    __device__ void find_plain_tiles(uint32_t work, int32_t &first, int32_t &end) const
    {
        const int64_t offset = key_offset(read_uniform_word(work + kWorkLengthQ), read_uniform_word(work + kWorkLengthK));
        const int64_t first_key = read_uniform_word(work + kWorkFirstKey) + static_cast<int64_t>(number) * 64;
        first = 0;
        end = read_uniform_word(work + kWorkEndTile);
        //@if window_right
        const int64_t first_row = first_key + 63 - kWindowRight - offset;
        first = first_row <= 0 ? 0 : clamp_tile((first_row + kBlockM - 1) / kBlockM, end);
        //@endif
        //@if window_left
        const int64_t end_row = first_key + kWindowLeft - offset + 1;
        end = end_row <= 0 ? 0 : clamp_tile(end_row / kBlockM, end);
        //@endif
    }

    __device__ static int32_t clamp_tile(int64_t tile, int32_t highest)
    {
        return static_cast<int32_t>(tile < highest ? tile : highest);
    }
    //@endif
};

#endif
