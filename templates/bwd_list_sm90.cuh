/*
 * Which key tile a block of the Hopper backward works on, by the list of keys of a schedule (schedule_format.h): place -> sequence, kv head,
 * tile in the sequence.
 *
 * The places of all sequences follow each other in the order of the list, costliest sequences first. In a sequence without a mask the tile
 * runs fastest, so that blocks which run together share their queries in L2, then the head. With a mask the first tiles, which see most under
 * a causal one, come first: groups of kKeyHeadsInGroup heads go through their tiles together.
 *
 * Nothing in a schedule is trusted: places stay below the bound of the host, sequences below the batch, rows inside their sequence.
 */
#ifndef GDPA_BWD_LIST_SM90_CUH
#define GDPA_BWD_LIST_SM90_CUH

#include "bwd_producer_sm90.cuh"
#include "config_default.cuh"
#include "gradient_tiles.cuh"
#include "list_places.cuh"
#include "order_params.h"
#include "params.h"
#include "schedule_format.h"
#include "sequence.cuh"

constexpr int32_t kKeyHeightArray = kBlockN / kScheduleTileStep;
static_assert(kBlockN % kScheduleTileStep == 0 && kKeyHeightArray <= kScheduleHeights, "tiles of a height that schedules know");

//@if masked
constexpr uint32_t kKeyHeadsInGroup = 4; // as many as take turns without a schedule
//@endif

/* What a warp knows of the list. Places are asked for in rising order. */
struct KeyList {
    const gdpa_bwd_params *params;
    const gdpa_bwd_order *order;
    uint32_t rank = 0; // of the sequence found last

    __device__ const uint32_t *array(int32_t number) const
    {
        return schedule_array(order->schedule, params->batch, kScheduleKeys, number);
    }

    /* How many places there are, of all heads. Where a block has all keys, sequences without any have their dq, and so a place. */
    __device__ uint32_t places() const
    {
        const uint32_t sequences = static_cast<uint32_t>(params->batch);
        const uint32_t tiles = writes_queries(*params) ? sequences : read_schedule(array(kKeyHeightArray), sequences);
        const int64_t all = static_cast<int64_t>(tiles) * params->heads_k;
        return static_cast<uint32_t>(all < order->num_numbers ? all : order->num_numbers);
    }

    /* Where the tiles of a sequence begin. */
    __device__ uint32_t begin_of(uint32_t of_rank) const
    {
        return read_schedule(array(kKeyHeightArray), of_rank);
    }

    /* By place; batch -1: not in this schedule. Called by whole warps. */
    __device__ GradientTile find(uint32_t place)
    {
        const uint32_t heads = static_cast<uint32_t>(params->heads_k);
        if (writes_queries(*params)) { // a tile each
            const uint32_t batch = read_schedule(array(0), place / heads);
            const bool exists = batch < static_cast<uint32_t>(params->batch);
            return {exists ? static_cast<int32_t>(batch) : -1, static_cast<int32_t>(place % heads), 0};
        }
        const uint32_t in_sequence = place - move_to(*this, params->batch, place / heads) * heads;
        const uint32_t batch = read_schedule(array(0), rank);
        if (batch >= static_cast<uint32_t>(params->batch)) {
            return {-1, 0, 0};
        }
        const Sequence k = find_sequence(params->cu_seqlens_k, params->seqused_k, params->rows_k, static_cast<int32_t>(batch));
        const uint32_t count = (static_cast<uint32_t>(k.length) + kBlockN - 1) / kBlockN;
        if (count == 0 || in_sequence / heads >= count) {
            return {-1, 0, 0};
        }
        //@if masked
        const PlaceInSequence found = take_turns<kKeyHeadsInGroup>(in_sequence, count, heads);
        //@else
        const PlaceInSequence found = {in_sequence / count, in_sequence % count};
        //@endif
        return {static_cast<int32_t>(batch), static_cast<int32_t>(found.head), static_cast<int64_t>(found.tile) * kBlockN};
    }
};

#endif
