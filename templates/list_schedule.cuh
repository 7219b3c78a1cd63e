/*
 * Which query tile a block works on, by a schedule on the device (schedule_format.h): place -> sequence, head, tile in the sequence.
 *
 * The places of all sequences follow each other in the order of the list, costliest sequences first. In a sequence without a mask the
 * tile runs fastest, so that blocks which run together share their keys and values in L2, then the head. With a mask the costliest tiles
 * come first: groups of kHeadsInGroup heads, which share L2, go through their tiles together.
 *
 * What is dealt out last should be small. A few long sequences under a causal mask have no small ones behind them: there the list is gone
 * through several times, for the longer half of the tiles of every sequence, then the longer half of those that are left, and so on.
 *
 * Nothing in a schedule is trusted: places stay below the bound of the host, sequences below the batch, rows inside their sequence.
 */
#ifndef GDPA_LIST_SCHEDULE_CUH
#define GDPA_LIST_SCHEDULE_CUH

#include "config_default.cuh"
#include "list_places.cuh"
#include "params.h"
#include "ptx/special_registers.cuh"
#include "schedule_format.h"
#include "sequence.cuh"
#include "tile_schedule.cuh"

constexpr int32_t kHeightArray = kBlockM / kScheduleTileStep;
static_assert(kBlockM % kScheduleTileStep == 0 && kHeightArray <= kScheduleHeights, "tiles of a height that schedules know");

/* An array of a list. */
__device__ inline uint32_t *schedule_array(const gdpa_fwd_params &params, int32_t list, int32_t array)
{
    return schedule_array(params.schedule, params.batch, list, array);
}

//@if masked
constexpr uint32_t kHeadsInGroup = 16;
//@endif
//@if causal
constexpr uint32_t kPasses = 4;
constexpr uint32_t kFewPairs = 8; // (sequence, head) pairs a block that are gone through in passes
//@endif

/* What a warp knows of the list. Places are asked for in rising order. */
struct TileList {
    const gdpa_fwd_params *params;
    uint32_t rank; // of the sequence found last
    //@if causal
    uint32_t pass = 0;       // from the longest tiles on
    uint32_t last_pass = 0;  // 0: all tiles in one
    uint32_t pass_begin = 0; // in tiles of one head
    uint32_t tiles = 0;      // of one head
    //@endif

    /* To be called first: how many places there are, of all heads. */
    __device__ uint32_t start()
    {
        const uint32_t all_tiles = read_schedule(schedule_array(*params, kScheduleQueries, kHeightArray), static_cast<uint32_t>(params->batch));
        const int64_t all = static_cast<int64_t>(all_tiles) * params->heads_q;
        //@if causal
        tiles = all_tiles;
        if (kWindowLeft < 0 && static_cast<int64_t>(params->batch) * params->heads_q <= kFewPairs * nctaid_x()) {
            last_pass = kPasses - 1;
        }
        //@endif
        return static_cast<uint32_t>(all < params->num_tiles ? all : params->num_tiles);
    }

    //@if causal
    /* Of so many tiles that lie in a row, sequence by sequence, those that are shorter than the tiles of a pass. */
    __device__ uint32_t shorter(uint32_t count, uint32_t of_pass) const
    {
        return of_pass < last_pass ? count >> (of_pass + 1) : 0;
    }

    /* The tiles of the pass among them. */
    __device__ uint32_t in_pass(uint32_t count) const
    {
        return (pass > 0 ? shorter(count, pass - 1) : count) - shorter(count, pass);
    }
    //@else
    __device__ uint32_t in_pass(uint32_t count) const
    {
        return count;
    }
    //@endif

    /* Where the tiles of the pass of a sequence begin. */
    __device__ uint32_t begin_of(uint32_t of_rank) const
    {
        return in_pass(read_schedule(schedule_array(*params, kScheduleQueries, kHeightArray), of_rank));
    }

    /* Sequence, head and row of a place; batch -1: not in this schedule. Called by whole warps. */
    __device__ TileWork find(uint32_t place, Sequence &q)
    {
        const uint32_t heads = static_cast<uint32_t>(params->heads_q);
        //@if causal
        while (pass < last_pass && place / heads >= pass_begin + in_pass(tiles)) {
            pass_begin += in_pass(tiles);
            ++pass;
            rank = 0;
        }
        place -= pass_begin * heads;
        //@endif
        const uint32_t in_sequence = place - move_to(*this, params->batch, place / heads) * heads;
        const uint32_t batch = read_schedule(schedule_array(*params, kScheduleQueries, 0), rank);
        if (batch >= static_cast<uint32_t>(params->batch)) {
            return {-1, 0, 0};
        }
        q = find_sequence(params->cu_seqlens_q, params->seqused_q, params->rows_q, static_cast<int32_t>(batch));
        uint32_t count = (static_cast<uint32_t>(q.length) + kBlockM - 1) / kBlockM;
        //@if causal
        uint32_t lower = 0; // tiles of the sequence in later passes
        if (last_pass > 0) {
            const uint32_t *first = schedule_array(*params, kScheduleQueries, kHeightArray);
            const uint32_t sequence_begin = read_schedule(first, rank);
            const uint32_t sequence_end = read_schedule(first, rank + 1);
            const uint32_t of_pass = in_pass(sequence_end) - in_pass(sequence_begin);
            count = of_pass < count ? of_pass : count; // in a schedule of other lengths it may be more
            lower = shorter(sequence_end, pass) - shorter(sequence_begin, pass);
        }
        //@endif
        if (count == 0 || in_sequence / heads >= count) {
            return {-1, 0, 0};
        }
        //@if masked
        const PlaceInSequence found = take_turns<kHeadsInGroup>(in_sequence, count, heads);
        //@else
        const PlaceInSequence found = {in_sequence / count, in_sequence % count};
        //@endif
        uint32_t tile = found.tile;
        //@if window_right
        tile = count - 1 - tile; // the last rows see most
        //@endif
        //@if causal
        tile += lower;
        //@endif
        const int64_t first_row = static_cast<int64_t>(tile) * kBlockM;
        return {first_row < q.length ? static_cast<int32_t>(batch) : -1, static_cast<int32_t>(found.head), first_row};
    }
};

#endif
