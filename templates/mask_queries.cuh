/*
 * Visibility as the backward asks for it: which queries see a key. See templates/mask.cuh.
 */
#ifndef GDPA_MASK_QUERIES_CUH
#define GDPA_MASK_QUERIES_CUH

#include "mask.cuh"

/* The queries that see any key of a key tile, [begin, end); begin >= end: none. */
struct QueryRange {
    int32_t begin;
    int32_t end;
};

/* first_key, last_key: of the key tile, in its sequence. */
__device__ inline QueryRange visible_queries(int64_t first_key, int64_t last_key, int32_t length_q, int32_t length_k)
{
    int64_t begin = 0;
    int64_t end = length_q;
    //@if masked
    const int64_t offset = key_offset(length_q, length_k);
    //@endif
    //@if window_right
    const int64_t first_seeing = first_key - offset - kWindowRight;
    begin = first_seeing > 0 ? first_seeing : 0;
    //@endif
    //@if window_left
    const int64_t behind_last_seeing = last_key - offset + kWindowLeft + 1;
    end = behind_last_seeing < end ? behind_last_seeing : end;
    //@endif
    if (end <= begin || last_key < first_key) {
        return {0, 0};
    }
    return {static_cast<int32_t>(begin), static_cast<int32_t>(end)};
}

//@if masked
/*
 * distance: from a key to where a query stands among the keys, i + offset - j. Between rows and keys that exist it lies within +-(2^31 - 2^16),
 * and a tile does not add 2^16: 32 bits do.
 */
__device__ inline bool is_visible_at(int32_t distance)
{
    bool visible = true;
    //@if window_left
    visible = visible && distance <= kWindowLeft;
    //@endif
    //@if window_right
    visible = visible && distance >= -kWindowRight;
    //@endif
    return visible;
}

/* Zeroes the hidden ones of two packed elements of P^T at one key: those of a query at `distance` and of the next one. */
__device__ inline uint32_t hide_queries(uint32_t packed, int32_t distance)
{
    const uint32_t low = is_visible_at(distance) ? 0x0000ffffu : 0;
    const uint32_t high = is_visible_at(distance + 1) ? 0xffff0000u : 0;
    return packed & (low | high);
}

/* The same of P: those of a query at a key at `distance` and at the next key. */
__device__ inline uint32_t hide_next_key(uint32_t packed, int32_t distance)
{
    const uint32_t low = is_visible_at(distance) ? 0x0000ffffu : 0;
    const uint32_t high = is_visible_at(distance - 1) ? 0xffff0000u : 0;
    return packed & (low | high);
}
//@endif

#endif
