/*
 * Which query tile a block works on, by a schedule on the device (schedule_format.h): place -> sequence, head, tile in the sequence.
 *
 * The places of all sequences follow each other in the order of the list, costliest sequences first. In a sequence without a mask the
 * tile runs fastest, so that blocks which run together share their keys and values in L2, then the head. With a mask the costliest tiles
 * come first: groups of kHeadsInGroup heads, which share L2, go through their tiles together.
 *
 * Nothing in a schedule is trusted: places stay below the bound of the host, sequences below the batch.
 */
#ifndef GDPA_LIST_SCHEDULE_CUH
#define GDPA_LIST_SCHEDULE_CUH

#include "config_default.cuh"
#include "params.h"
#include "ptx/atomic.cuh"
#include "ptx/global_memory.cuh"
#include "ptx/integer.cuh"
#include "ptx/special_registers.cuh"
#include "ptx/warp.cuh"
#include "schedule_format.h"
#include "sequence.cuh"
#include "tile_schedule.cuh"

constexpr int32_t kHeightArray = kBlockM / kScheduleTileStep;
static_assert(kBlockM % kScheduleTileStep == 0 && kHeightArray <= kScheduleHeights, "tiles of a height that schedules know");

/* An array of a list. */
__device__ inline uint32_t *schedule_array(const gdpa_fwd_params &params, int32_t list, int32_t array)
{
    const int64_t stride = (static_cast<int64_t>(params.batch) + kScheduleHeaderWords) / kScheduleHeaderWords * kScheduleHeaderWords;
    return params.schedule + kScheduleHeaderWords + (list * kScheduleArrays + array) * stride;
}

__device__ inline uint32_t read_schedule(const uint32_t *array, uint32_t rank)
{
    return static_cast<uint32_t>(ld_global_nc_s32(reinterpret_cast<const int32_t *>(array) + rank));
}

/* What a warp knows of the list. Places are asked for in rising order. */
struct TileList {
    const gdpa_fwd_params *params;
    uint32_t rank; // of the sequence found last

    /* How many places there are, of all heads. */
    __device__ uint32_t places() const
    {
        const uint32_t tiles = read_schedule(schedule_array(*params, kScheduleQueries, kHeightArray), static_cast<uint32_t>(params->batch));
        const int64_t all = static_cast<int64_t>(tiles) * params->heads_q;
        return static_cast<uint32_t>(all < params->num_tiles ? all : params->num_tiles);
    }

    /* Moves to the last sequence from `rank` on whose tiles begin at or before `tile`, and returns where they begin. */
    __device__ uint32_t move_to(uint32_t tile)
    {
        const uint32_t *first = schedule_array(*params, kScheduleQueries, kHeightArray);
        const uint32_t lane = tid_x() % 32;
        uint32_t count = static_cast<uint32_t>(params->batch) - rank;
        uint32_t step = 1; // mostly it is one of the next 32
        while (true) {
            const uint32_t probe = rank + lane * step;
            const uint32_t begin = lane * step < count ? read_schedule(first, probe) : 0xffffffff;
            const uint32_t before = popc_b32(vote_sync_ballot(begin <= tile));
            const uint32_t passed = before > 1 ? before - 1 : 0;
            rank += passed * step;
            const uint32_t left = count - passed * step;
            if (step == 1 && (passed < 31 || left == 1)) {
                return shfl_sync_idx(begin, passed);
            }
            count = step == 1 || left < step ? left : step;
            step = (count + 31) / 32;
        }
    }

    /* Sequence, head and row of a place; batch -1: not in this schedule. Called by whole warps. */
    __device__ TileWork find(uint32_t place, Sequence &q)
    {
        const uint32_t heads = static_cast<uint32_t>(params->heads_q);
        const uint32_t begin = move_to(place / heads);
        const uint32_t batch = read_schedule(schedule_array(*params, kScheduleQueries, 0), rank);
        if (batch >= static_cast<uint32_t>(params->batch)) {
            return {-1, 0, 0};
        }
        q = find_sequence(params->cu_seqlens_q, params->seqused_q, params->rows_q, static_cast<int32_t>(batch));
        const uint32_t tiles = (static_cast<uint32_t>(q.length) + kBlockM - 1) / kBlockM;
        const uint32_t in_sequence = place - begin * heads;
        if (tiles == 0 || in_sequence / heads >= tiles) {
            return {-1, 0, 0};
        }
        //@if masked
        constexpr uint32_t kHeadsInGroup = 16;
        const uint32_t group = in_sequence / (tiles * kHeadsInGroup);
        const uint32_t heads_left = heads - group * kHeadsInGroup;
        const uint32_t heads_here = heads_left < kHeadsInGroup ? heads_left : kHeadsInGroup;
        const uint32_t in_group = in_sequence - group * kHeadsInGroup * tiles;
        const uint32_t head = group * kHeadsInGroup + in_group % heads_here;
        //@endif
        //@if window_right
        const uint32_t tile = tiles - 1 - in_group / heads_here; // the last rows see most
        //@else
        //@if masked
        const uint32_t tile = in_group / heads_here;
        //@else
        const uint32_t head = in_sequence / tiles;
        const uint32_t tile = in_sequence % tiles;
        //@endif
        //@endif
        return {static_cast<int32_t>(batch), static_cast<int32_t>(head), static_cast<int64_t>(tile) * kBlockM};
    }
};

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
