/*
 * Visibility: which keys a query sees. Position i of the queries stands at position i + offset of the keys, offset = length_k -
 * length_q (bottom_right) or 0 (top_left), and sees the keys from i + offset - kWindowLeft to i + offset + kWindowRight, as far as they exist.
 */
#ifndef GDPA_MASK_CUH
#define GDPA_MASK_CUH

#include "config_default.cuh"
#include "types.cuh"

/* The keys that any row of a query tile sees, [begin, end); begin >= end: none. */
struct KeyRange {
    int32_t begin;
    int32_t end;
};

/* What to add to a query's position to get the key position it stands at. */
__device__ inline int64_t key_offset(int32_t length_q, int32_t length_k)
{
    //@if bottom_right
    return static_cast<int64_t>(length_k) - length_q;
    //@else
    return 0;
    //@endif
}

/* first_row, last_row: of the query tile, in its sequence. */
__device__ inline KeyRange visible_keys(int64_t first_row, int64_t last_row, int32_t length_q, int32_t length_k)
{
    int64_t begin = 0;
    int64_t end = length_k;
    //@if masked
    const int64_t offset = key_offset(length_q, length_k);
    //@endif
    //@if window_left
    const int64_t leftmost = first_row + offset - kWindowLeft;
    begin = leftmost > 0 ? leftmost : 0;
    //@endif
    //@if window_right
    const int64_t behind_rightmost = last_row + offset + kWindowRight + 1;
    end = behind_rightmost < end ? behind_rightmost : end;
    //@endif
    if (end <= begin) {
        return {0, 0};
    }
    return {static_cast<int32_t>(begin), static_cast<int32_t>(end)};
}

//@if masked
/* Whether some pair of the query tile and the key tile at `key` is hidden. */
__device__ inline bool tile_needs_mask(int64_t first_row, int64_t last_row, int64_t offset, int32_t key)
{
    bool needs_mask = false;
    //@if window_left
    needs_mask = needs_mask || key < last_row + offset - kWindowLeft;
    //@endif
    //@if window_right
    needs_mask = needs_mask || key + kBlockN - 1 > first_row + offset + kWindowRight;
    //@endif
    return needs_mask;
}

/* aligned_row: position of the query among the keys, i + offset. */
__device__ inline bool is_visible(int64_t aligned_row, int64_t key)
{
    bool visible = true;
    //@if window_left
    visible = visible && key >= aligned_row - kWindowLeft;
    //@endif
    //@if window_right
    visible = visible && key <= aligned_row + kWindowRight;
    //@endif
    return visible;
}

/* Zeroes the hidden ones of two packed elements of P at keys `key` and `key + 1`. */
__device__ inline uint32_t hide(uint32_t packed, int64_t aligned_row, int64_t key)
{
    const uint32_t low = is_visible(aligned_row, key) ? 0x0000ffffu : 0;
    const uint32_t high = is_visible(aligned_row, key + 1) ? 0xffff0000u : 0;
    return packed & (low | high);
}
//@endif

#endif
