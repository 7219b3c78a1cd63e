/*
 * What readers of a schedule (schedule_format.h) have in common: its arrays, the search in them, and the counter of places.
 */
#ifndef GDPA_LIST_PLACES_CUH
#define GDPA_LIST_PLACES_CUH

#include "ptx/atomic.cuh"
#include "ptx/global_memory.cuh"
#include "ptx/integer.cuh"
#include "ptx/special_registers.cuh"
#include "ptx/warp.cuh"
#include "schedule_format.h"

/* An array of a list. */
__device__ inline uint32_t *schedule_array(uint32_t *schedule, int32_t batch, int32_t list, int32_t array)
{
    const int64_t stride = (static_cast<int64_t>(batch) + kScheduleHeaderWords) / kScheduleHeaderWords * kScheduleHeaderWords;
    return schedule + kScheduleHeaderWords + (list * kScheduleArrays + array) * stride;
}

__device__ inline uint32_t read_schedule(const uint32_t *array, uint32_t rank)
{
    return static_cast<uint32_t>(ld_global_nc_s32(reinterpret_cast<const int32_t *>(array) + rank));
}

/* Moves to the last sequence from `list.rank` on whose tiles begin at or before `tile`, and returns where they begin. By whole warps. */
template <typename List> __device__ inline uint32_t move_to(List &list, int32_t batch, uint32_t tile)
{
    const uint32_t lane = tid_x() % 32;
    uint32_t count = static_cast<uint32_t>(batch) - list.rank;
    uint32_t step = 1; // mostly it is one of the next 32
    while (true) {
        const uint32_t begin = lane * step < count ? list.begin_of(list.rank + lane * step) : 0xffffffff;
        const uint32_t before = popc_b32(vote_sync_ballot(begin <= tile));
        const uint32_t passed = before > 1 ? before - 1 : 0;
        list.rank += passed * step;
        const uint32_t left = count - passed * step;
        if (step == 1 && (passed < 31 || left == 1)) {
            return shfl_sync_idx(begin, passed);
        }
        count = step == 1 || left < step ? left : step;
        step = (count + 31) / 32;
    }
}

/* Of a sequence's places, all heads of it. */
struct PlaceInSequence {
    uint32_t head;
    uint32_t tile;
};

//@if masked
/* Groups of kGroup heads take turns, tile after tile; `count` tiles a head. */
template <uint32_t kGroup>
__device__ inline PlaceInSequence take_turns(uint32_t place, uint32_t count, uint32_t heads)
{
    const uint32_t group = place / (count * kGroup);
    const uint32_t heads_left = heads - group * kGroup;
    const uint32_t heads_here = heads_left < kGroup ? heads_left : kGroup;
    const uint32_t in_group = place - group * kGroup * count;
    return {group * kGroup + in_group % heads_here, in_group / heads_here};
}

//@endif
//@if dynamic
/*
 * The counter of the places that were handed out: every block begins with that of its number, and draws the others. Between launches it
 * is 0: the last block to have drawn one that does not exist resets it, behind all draws.
 */
struct PlaceCounter {
    uint32_t *words;

    /* For lane 0; the others get nothing. The answer is not waited for before it is used. */
    __device__ uint32_t draw() const
    {
        return tid_x() % 32 == 0 ? atom_global_add_u32(words, 1) + nctaid_x() : 0;
    }

    /* Called by one thread of a block that will draw no more. */
    __device__ void finish() const
    {
        if (atom_global_add_u32(words + 1, 1) == nctaid_x() - 1) {
            st_global_b32(words, 0);
            st_global_b32(words + 1, 0);
        }
    }
};
//@endif

#endif
