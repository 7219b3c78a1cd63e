/*
 * Makes a schedule (schedule_format.h) from the offsets and lengths on the device: block 0 the list of queries, block 1 that of keys.
 *
 * A counting sort by classes of cost, stable, without atomics: each warp owns a run of sequences and counts them by class; classes in
 * falling order, and in each of them the warps in order, then begin where all before them end; each warp goes through its run again and
 * puts every sequence in its place. Behind it tiles are summed up along the order, kRanksAThread sequences a thread at a time.
 */
#ifndef GDPA_LIST_BUILD_CUH
#define GDPA_LIST_BUILD_CUH

#include "config_default.cuh"
#include "list_schedule.cuh"
//@if masked
#include "mask.cuh"
#include "mask_queries.cuh"
//@endif
#include "params.h"
#include "ptx/barrier.cuh"
#include "ptx/convert.cuh"
#include "ptx/global_load_b32.cuh"
#include "ptx/global_memory.cuh"
#include "ptx/integer.cuh"
#include "ptx/match.cuh"
#include "ptx/shared_memory.cuh"
#include "ptx/special_registers.cuh"
#include "ptx/warp.cuh"
#include "schedule_format.h"
#include "sequence.cuh"

constexpr uint32_t kListWarps = kScheduleThreads / 32;
//@if masked
constexpr uint32_t kListTile = 128; // rows of the tiles whose costs are compared
//@endif
constexpr uint32_t kRanksAThread = 4;

struct ListLengths {
    int32_t q, k;
};

__device__ inline ListLengths find_lengths(const gdpa_fwd_params &params, uint32_t batch)
{
    const int32_t number = static_cast<int32_t>(batch);
    return {find_sequence(params.cu_seqlens_q, params.seqused_q, params.rows_q, number).length,
            find_sequence(params.cu_seqlens_k, params.seqused_k, params.rows_k, number).length};
}

//@if masked
/* The keys that a query tile sees, or the queries that see a key tile, with row number `row` in it. */
__device__ inline int32_t tile_cost(const ListLengths &lengths, bool of_keys, int64_t row)
{
    const int64_t first = row / kListTile * kListTile;
    const int64_t length = of_keys ? lengths.k : lengths.q;
    const int64_t last = first + kListTile < length ? first + kListTile - 1 : length - 1;
    if (of_keys) {
        const QueryRange range = visible_queries(first, last, lengths.q, lengths.k);
        return range.end - range.begin;
    }
    const KeyRange range = visible_keys(first, last, lengths.q, lengths.k);
    return range.end - range.begin;
}

/* Of the costliest tile of a sequence, near enough: the first, the middle or the last one. */
__device__ inline int32_t sequence_cost_most(const ListLengths &lengths, bool of_keys)
{
    const int64_t length = of_keys ? lengths.k : lengths.q;
    int32_t most = 0;
    if (length > 0) {
        for (int32_t i = 0; i < 3; ++i) {
            const int32_t cost = tile_cost(lengths, of_keys, (length - 1) * i / 2);
            most = cost > most ? cost : most;
        }
    }
    return most;
}
//@else
/* Every tile sees all of the other side. */
__device__ inline int32_t sequence_cost_most(const ListLengths &lengths, bool of_keys)
{
    const bool empty = (of_keys ? lengths.k : lengths.q) == 0;
    return empty ? 0 : of_keys ? lengths.q : lengths.k;
}
//@endif

/* Rising with the cost, eight each time it doubles; 0 for a sequence without tiles, or whose tiles see nothing. */
__device__ inline uint32_t cost_class(int32_t cost)
{
    const uint32_t exponent_and_eighths = float_as_bits(static_cast<float>(cost)) >> 20;
    return cost > 0 ? exponent_and_eighths - 127 * 8 + 1 : 0;
}
static_assert(31 * 8 + 1 < kScheduleClasses, "every cost has a class");

/* Shared memory of a block, as kScheduleSmemBytes says: counts of each class by warp, places where classes begin, sums by warp. */
struct ListShared {
    uint32_t base;

    __device__ uint32_t count(uint32_t warp, uint32_t number) const
    {
        return base + (warp * kScheduleClasses + number) * 4;
    }
    __device__ uint32_t begin(uint32_t number) const
    {
        return base + (kListWarps * kScheduleClasses + number) * 4;
    }
    __device__ uint32_t sum(uint32_t warp, uint32_t height) const
    {
        return base + (kListWarps * kScheduleClasses + kScheduleClasses + warp * kScheduleHeights + height) * 4;
    }
};

/* The sequences that a warp owns, 32 at a time. */
struct ListRun {
    uint32_t begin, end;
};

__device__ inline ListRun find_run(const gdpa_fwd_params &params, uint32_t warp)
{
    const uint32_t batch = static_cast<uint32_t>(params.batch);
    const uint32_t chunks = (batch + 31) / 32;
    const uint32_t begin = static_cast<uint32_t>(static_cast<uint64_t>(chunks) * warp / kListWarps * 32);
    const uint32_t end = static_cast<uint32_t>(static_cast<uint64_t>(chunks) * (warp + 1) / kListWarps * 32);
    return {begin, end < batch ? end : batch};
}

/*
 * Goes through a warp's run. Of the lanes that have the same class the first one adds to its count. With kPlace counts are places already, and
 * each sequence goes to its own; how many rows it has waits in `rows`, by rank, for sum_tiles_up.
 */
template <bool kPlace>
__device__ inline void go_through_run(const gdpa_fwd_params &params, const ListShared &shared, bool of_keys, uint32_t *order,
                                      uint32_t *rows)
{
    const uint32_t lane = tid_x() % 32;
    const uint32_t warp = tid_x() / 32;
    const ListRun run = find_run(params, warp);
    ListLengths next = run.begin + lane < run.end ? find_lengths(params, run.begin + lane) : ListLengths{0, 0};
    for (uint32_t start = run.begin; start < run.end; start += 32) {
        const uint32_t batch = start + lane;
        const ListLengths lengths = next;
        if (batch + 32 < run.end) { // on its way while this one is counted
            next = find_lengths(params, batch + 32);
        }
        const bool exists = batch < run.end;
        const uint32_t number = exists ? cost_class(sequence_cost_most(lengths, of_keys)) : kScheduleClasses;
        const uint32_t same = match_sync_any(number);
        const uint32_t before = popc_b32(same & ((1u << lane) - 1));
        const uint32_t count = exists ? ld_shared_b32(shared.count(warp, number)) : 0;
        bar_warp_sync();
        if (exists && before == 0) {
            st_shared_b32(shared.count(warp, number), count + popc_b32(same));
        }
        bar_warp_sync();
        if (kPlace && exists) {
            const uint32_t place = ld_shared_b32(shared.begin(number)) + count + before;
            st_global_b32(order + place, batch);
            st_global_b32(rows + place, static_cast<uint32_t>(of_keys ? lengths.k : lengths.q));
        }
    }
}

/* Of numbers up to 2^31. */
__device__ inline uint32_t add_at_most(uint32_t a, uint32_t b, uint32_t most)
{
    return a + b < most ? a + b : most;
}

/* The sum over the lanes before this one; *all: over all lanes. Both no more than `most`. */
__device__ inline uint32_t sum_lanes_before(uint32_t value, uint32_t most, uint32_t *all)
{
    const uint32_t lane = tid_x() % 32;
    uint32_t sum = value;
    for (uint32_t distance = 1; distance < 32; distance *= 2) {
        const uint32_t other = shfl_sync_idx(sum, (lane - distance) % 32);
        sum = lane >= distance ? add_at_most(sum, other, most) : sum;
    }
    *all = shfl_sync_idx(sum, 31);
    const uint32_t before = shfl_sync_idx(sum, (lane - 1) % 32);
    return lane > 0 ? before : 0;
}

/* Counts become the number of sequences of the class in the warps before; the classes begin where those of higher cost end. */
__device__ inline void find_class_begins(const ListShared &shared)
{
    const uint32_t thread = tid_x();
    const uint32_t number = kScheduleClasses - 1 - thread; // of the first threads
    uint32_t all = 0;
    if (thread < kScheduleClasses) {
#pragma unroll 8
        for (uint32_t warp = 0; warp < kListWarps; ++warp) {
            const uint32_t count = ld_shared_b32(shared.count(warp, number));
            st_shared_b32(shared.count(warp, number), all);
            all += count;
        }
    }
    uint32_t of_warp;
    const uint32_t before = sum_lanes_before(all, 0x7fffffff, &of_warp);
    if (thread % 32 == 0) {
        st_shared_b32(shared.sum(thread / 32, 0), of_warp);
    }
    bar_sync_0();
    if (thread < kScheduleClasses) {
        uint32_t begin = before;
        for (uint32_t warp = 0; warp < thread / 32; ++warp) {
            begin += ld_shared_b32(shared.sum(warp, 0));
        }
        st_shared_b32(shared.begin(number), begin);
    }
    bar_sync_0();
}

/* More tiles than these are in no schedule, whatever the offsets say. */
__device__ inline uint32_t most_tiles(const gdpa_fwd_params &params, bool of_keys, uint32_t height)
{
    const int64_t rows = of_keys ? params.rows_k : params.rows_q;
    const bool jagged = (of_keys ? params.cu_seqlens_k : params.cu_seqlens_q) != nullptr;
    const int64_t most = jagged ? rows / height + params.batch : (rows + height - 1) / height * params.batch;
    return static_cast<uint32_t>(most < 0x3fffffff ? most : 0x3fffffff);
}

/*
 * The tiles before each rank, and behind the last one, of every height. The rows of the ranks are in the first of the three arrays, which
 * is written over behind them.
 */
__device__ inline void sum_tiles_up(const gdpa_fwd_params &params, const ListShared &shared, bool of_keys)
{
    const uint32_t batch = static_cast<uint32_t>(params.batch);
    const int32_t list = of_keys ? kScheduleKeys : kScheduleQueries;
    const uint32_t *rows = schedule_array(params, list, 1);
    const uint32_t warp = tid_x() / 32;
    uint32_t begin[kScheduleHeights] = {}; // of the ranks that are looked at
    for (uint32_t start = 0; start <= batch; start += kScheduleThreads * kRanksAThread) {
        const uint32_t rank = start + tid_x() * kRanksAThread;
        uint32_t length[kRanksAThread];
#pragma unroll
        for (uint32_t i = 0; i < kRanksAThread; ++i) {
            length[i] = rank + i < batch ? ld_global_b32(rows + rank + i) : 0;
        }
        uint32_t before[kScheduleHeights];
#pragma unroll
        for (uint32_t height = 0; height < kScheduleHeights; ++height) {
            const uint32_t step = (height + 1) * kScheduleTileStep;
            const uint32_t most = most_tiles(params, of_keys, step);
            uint32_t own = 0;
#pragma unroll
            for (uint32_t i = 0; i < kRanksAThread; ++i) {
                own = add_at_most(own, (length[i] + step - 1) / step, most);
            }
            uint32_t of_warp;
            before[height] = sum_lanes_before(own, most, &of_warp);
            if (tid_x() % 32 == 0) {
                st_shared_b32(shared.sum(warp, height), of_warp);
            }
        }
        bar_sync_0();
#pragma unroll
        for (uint32_t height = 0; height < kScheduleHeights; ++height) {
            const uint32_t step = (height + 1) * kScheduleTileStep;
            const uint32_t most = most_tiles(params, of_keys, step);
            uint32_t all;
            const uint32_t of_warps = sum_lanes_before(ld_shared_b32(shared.sum(tid_x() % 32, height)), most, &all);
            const uint32_t of_warps_before = shfl_sync_idx(of_warps, warp);
            uint32_t sum = add_at_most(begin[height], add_at_most(of_warps_before, before[height], most), most);
            uint32_t sums[kRanksAThread];
#pragma unroll
            for (uint32_t i = 0; i < kRanksAThread; ++i) {
                sums[i] = sum;
                sum = add_at_most(sum, (length[i] + step - 1) / step, most);
            }
            if (rank <= batch) { // arrays have room for whole groups
                st_global_v4_b32(schedule_array(params, list, static_cast<int32_t>(height) + 1) + rank, sums);
            }
            begin[height] = add_at_most(begin[height], all, most);
        }
        bar_sync_0();
    }
}

extern "C" __global__ __launch_bounds__(kScheduleThreads, 1) void gdpa_kernel_entry_schedule(
    const __grid_constant__ gdpa_fwd_params params)
{
    const bool of_keys = ctaid_x() == kScheduleKeys;
    const ListShared shared = {dynamic_shared_base()};
    uint32_t *order = schedule_array(params, of_keys ? kScheduleKeys : kScheduleQueries, 0);
    uint32_t *rows = schedule_array(params, of_keys ? kScheduleKeys : kScheduleQueries, 1);
    for (uint32_t i = tid_x(); i < kListWarps * kScheduleClasses; i += kScheduleThreads) {
        st_shared_b32(shared.base + i * 4, 0);
    }
    if (!of_keys && tid_x() < kScheduleHeaderWords) {
        st_global_b32(params.schedule + tid_x(), 0);
    }
    bar_sync_0();
    go_through_run<false>(params, shared, of_keys, order, rows);
    bar_sync_0();
    find_class_begins(shared);
    go_through_run<true>(params, shared, of_keys, order, rows);
    bar_sync_0();
    sum_tiles_up(params, shared, of_keys);
}

#endif
