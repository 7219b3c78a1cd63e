/*
 * Where a sequence lies and how long it is, from the offsets and lengths on the device. Nothing in them is trusted: whatever
 * they hold, rows stay inside [0, rows).
 */
#ifndef GDPA_SEQUENCE_CUH
#define GDPA_SEQUENCE_CUH

#include "config_default.cuh"
#include "params.h"
#include "ptx/global_memory.cuh"

struct Sequence {
    int64_t first_row; // in the tensor; jagged layout only, else 0
    int32_t length;
};

__device__ inline int64_t clamp_row(int64_t row, int64_t lowest, int64_t highest)
{
    return row < lowest ? lowest : row > highest ? highest : row;
}

/* cu_seqlens [batch + 1]: jagged; null: every sequence has `rows` rows. seqused [batch] shortens, null: does not. */
__device__ inline Sequence find_sequence(const int32_t *cu_seqlens, const int32_t *seqused, int64_t rows, int32_t batch)
{
    int64_t first = 0;
    int64_t end = rows;
    if (cu_seqlens != nullptr) {
        first = clamp_row(ld_global_nc_s32(cu_seqlens + batch), 0, rows);
        end = clamp_row(ld_global_nc_s32(cu_seqlens + batch + 1), first, rows);
    }
    int64_t length = end - first;
    if (seqused != nullptr) {
        length = clamp_row(ld_global_nc_s32(seqused + batch), 0, length);
    }
    return {first, static_cast<int32_t>(length)};
}

#endif
