/*
 * Backward kernel for Hopper (sm_90a): copies by TMA, products by wgmma, one producer warpgroup and two consumer warpgroups.
 *
 * Blocks are persistent: each takes tiles of kBlockN keys of one (sequence, key head) until there are no more. A tile's K and V stay in shared
 * memory while the queries that see it pass by, kBlockM at a time, of all the heads of the group; each consumer owns 64 keys, whose sums of
 * dK and dV it holds in registers. Scores are transposed, keys by queries, so that P and dS come out of the accumulators as the left
 * operands of dV and dK:
 *
 *     step i    S = K Q^T           dK += dS Q of step i - 1       dQ = dS^T K of step i - 2
 *               P = f(S)
 *               dP = V dO^T         dV += P dO
 *               dS = f'(S) dP       to shared memory, for the other consumer
 *
 * dQ needs the dS of both consumers; each makes one half of its columns. Two steps behind, it never waits for the other one, and the products of
 * a step always have others beside them while its elements are worked on (docs/kernels.md).
 */
#include "types.cuh"

#include "bwd_producer_sm90.cuh"
#include "bwd_work_sm90.cuh"
#include "config_default.cuh"
#include "gradient.cuh"
#include "mask.cuh"
#include "numeric.cuh"
#include "packed_pair.cuh"
#include "params.h"
#include "ptx/barrier.cuh"
#include "ptx/fence.cuh"
#include "ptx/global_memory.cuh"
#include "ptx/named_barrier.cuh"
#include "ptx/setmaxnreg.cuh"
#include "ptx/shared_memory.cuh"
#include "ptx/special_registers.cuh"
#include "ptx/stmatrix.cuh"
#include "ptx/tma.cuh"
#include "ptx/warp.cuh"
#include "ptx/wgmma.cuh"
#include "ring.cuh"
#include "wgmma_depth.cuh"
#include "wgmma_queries.cuh"
#include "wgmma_share.cuh"
#include "wgmma_values.cuh"

constexpr int kScores = kBlockM / 2;           // a thread's share of 64 keys x kBlockM queries
constexpr int kKeySums = kDepthColumns / 2;    // of dK, 64 x kDepthColumns (head_dim rounded up to a width of wgmma)
constexpr int kValueSums = kValueColumns / 2;  // of dV
constexpr int kQuerySums = kShareColumns / 2;  // of dQ, kBlockM x kShareColumns
constexpr int kDepthSteps = (kHeadDim + 15) / 16;
constexpr int kValueSteps = (kHeadDimV + 15) / 16;
constexpr int kQuerySteps = kBlockM / 16;
constexpr int kKeySteps = kBlockN / 16;

/* Where a thread's part of the dQ of a step is added to the sums: nowhere, or in blocks of 16 columns from here on. */
struct SumTarget {
    float *place;
    bool upper; // whether its row of the upper 8 exists
    bool lower;
};

struct Consumer {
    Shared shared;
    const gdpa_bwd_params *params;
    uint32_t number;   // of the warpgroup, from 0
    uint32_t tile = 0; // of keys, counted
    uint32_t now = 0;  // the step, counted over all tiles

    __device__ uint32_t lane() const
    {
        return tid_x() % 32;
    }

    /* First of the warp's 16 keys in the tile. */
    __device__ uint32_t warp_key() const
    {
        return number * 64 + tid_x() / 32 % 4 * 16;
    }

    /* A tile that only products read: once they are waited for, they have ended for the whole warpgroup. */
    __device__ void release_tile(uint32_t empty_barrier) const
    {
        if (tid_x() % kWarpgroupThreads == 0) {
            mbarrier_arrive(empty_barrier);
        }
    }

    /* 16 columns of a tile whose rows have kRows x 128 bytes a chunk, as a distance of descriptors. */
    template <int kRows> __device__ static constexpr uint64_t along_columns(int step)
    {
        return (step / 4 * (kRows * 128) + step % 4 * 32) / 16;
    }

    /* S = K Q^T, 64 keys by kBlockM queries. */
    __device__ void multiply_scores(float (&scores)[kScores], uint32_t queries) const
    {
        const uint64_t a = wgmma_descriptor_128b(shared.keys() + number * (64 * 128), 16, 1024);
        const uint64_t b = wgmma_descriptor_128b(queries, 16, 1024);
#pragma unroll
        for (int step = 0; step < kDepthSteps; ++step) {
            wgmma_m64k16_ss<0, 0>(scores, a + along_columns<kBlockN>(step), b + along_columns<kBlockM>(step), step > 0);
        }
    }

    /* dP = V dO^T */
    __device__ void multiply_outputs(float (&slopes)[kScores], uint32_t outputs) const
    {
        const uint64_t a = wgmma_descriptor_128b(shared.values() + number * (64 * 128), 16, 1024);
        const uint64_t b = wgmma_descriptor_128b(outputs, 16, 1024);
#pragma unroll
        for (int step = 0; step < kValueSteps; ++step) {
            wgmma_m64k16_ss<0, 0>(slopes, a + along_columns<kBlockN>(step), b + along_columns<kBlockM>(step), step > 0);
        }
    }

    /* dV += P dO, or dK += dS Q: the right operand is read along its rows. */
    template <int kSums>
    __device__ static void add_products(float (&sums)[kSums], const uint32_t (&left)[kQuerySteps][4], uint32_t right,
                                        bool accumulate)
    {
        const uint64_t b = wgmma_descriptor_128b(right, kQueryChunkBytes, 1024);
#pragma unroll
        for (int step = 0; step < kQuerySteps; ++step) {
            wgmma_m64k16_rs<1>(sums, left[step], b + step * (16 * 128) / 16, step > 0 || accumulate);
        }
    }

    /* This warpgroup's rows or columns of dQ = dS^T K, over the keys of both. */
    __device__ void multiply_keys(float (&sums)[kQuerySums], uint32_t scores) const
    {
        const uint64_t a = wgmma_descriptor_128b(scores + first_share_row() * (kBlockN * 2), 16, 1024);
        const uint32_t columns = first_share_column();
        const uint64_t b = wgmma_descriptor_128b(
            shared.keys() + columns / kChunkColumns * kKeyChunkBytes + columns % kChunkColumns * 2, kKeyChunkBytes, 1024);
#pragma unroll
        for (int step = 0; step < kKeySteps; ++step) {
            wgmma_m64k16_ss<1, 1>(sums, a + step * (16 * 128) / 16, b + step * (16 * 128) / 16, step > 0);
        }
    }

    /* Of the part of dQ that is this warpgroup's. */
    __device__ uint32_t first_share_row() const
    {
        return kSharesRows ? number * 64 : 0;
    }

    __device__ uint32_t first_share_column() const
    {
        return kSharesRows ? 0 : number * kShareColumns;
    }

    /* In the query tile, the upper one of the two rows that the thread has of dQ. */
    __device__ int32_t share_row() const
    {
        return static_cast<int32_t>(first_share_row() + tid_x() % kWarpgroupThreads / 32 * 16 + lane() / 4);
    }

    /* Named barriers, 0 being the block's: one for each warpgroup itself, */
    __device__ uint32_t own_barrier() const
    {
        return 1 + number;
    }

    /* that dS of a step of warpgroup w is there, */
    __device__ static uint32_t scores_barrier(uint32_t warpgroup, uint32_t step)
    {
        return 1 + kConsumers + warpgroup * kScoreSlots + step % kScoreSlots;
    }

    /* and that w has made its part of the dQ of a step. */
    __device__ static uint32_t read_barrier(uint32_t warpgroup, uint32_t step)
    {
        return 1 + kConsumers + kConsumers * kScoreSlots + warpgroup * kScoreSlots + step % kScoreSlots;
    }

    /* P and the slopes f' of the scores, packed as left operands, 16 queries at a time. */
    __device__ static void activate(uint32_t (&weights)[4], uint32_t (&slopes)[4], const float (&scores)[kScores], int step,
                                    const PairConstants &constants)
    {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            packed_pair(scores[8 * step + 2 * i], scores[8 * step + 2 * i + 1], constants, weights[i], slopes[i]);
        }
        tie(weights);
        tie(slopes);
    }

    /* dS = f'(S) dP. */
    __device__ static void apply_slopes(uint32_t (&score_gradients)[kQuerySteps][4], const uint32_t (&slopes)[kQuerySteps][4],
                                        const float (&gradients)[kScores], const PairConstants &constants)
    {
#pragma unroll
        for (int step = 0; step < kQuerySteps; ++step) {
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                score_gradients[step][i] =
                    packed_gradient(slopes[step][i], gradients[8 * step + 2 * i], gradients[8 * step + 2 * i + 1], constants);
            }
            tie(score_gradients[step]);
        }
    }

    /* dS where both warpgroups read it: [keys][queries], a row of 128 bytes. */
    __device__ void stage_scores(const uint32_t (&scores)[kQuerySteps][4], uint32_t place) const
    {
        const uint32_t row = warp_key() + lane() % 16;
#pragma unroll
        for (int step = 0; step < kQuerySteps; ++step) {
            const uint32_t unit = 2 * step + lane() / 16;
            const uint32_t chunk = place + step / 4 * (kBlockN * 128);
            stmatrix_x4(chunk + row * 128 + ((unit % 8 ^ row % 8) << 4), scores[step][0], scores[step][1], scores[step][2],
                        scores[step][3]);
        }
    }

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

    /* Each warp has 16 rows of the query tile, and in them blocks of 16 columns. */
    __device__ SumTarget find_sums(uint32_t step) const
    {
        const uint32_t note = shared.note(step);
        const int32_t row = share_row();
        const int32_t valid_rows = params->dq_sum != nullptr ? read_word(note + kNoteValidRows) : 0;
        float *const place = params->dq_sum + ld_shared_b64(note + kNoteOffset) +
                             row / 16 * (params->heads_q * static_cast<int64_t>(16 * kSumColumns)) +
                             first_share_column() * 16 + lane() * 4;
        return {place, row < valid_rows, row + 8 < valid_rows};
    }

    /* Adds a block of 16 columns. */
    __device__ void add_columns(const float (&sums)[kQuerySums], const SumTarget &target, int block) const
    {
        if (first_share_column() + block * 16 >= kSumColumns) {
            return;
        }
        const float upper[4] = {sums[8 * block], sums[8 * block + 1], sums[8 * block + 4], sums[8 * block + 5]};
        const float lower[4] = {sums[8 * block + 2], sums[8 * block + 3], sums[8 * block + 6], sums[8 * block + 7]};
        if (target.upper) {
            add_four(target.place + block * kSumBlock, upper);
        }
        if (target.lower) {
            add_four(target.place + block * kSumBlock + kSumBlock / 2, lower);
        }
    }

    /* All keys of the sequence are in this tile: dQ is complete. */
    __device__ void write_queries(const float (&sums)[kQuerySums], uint32_t step, float factor) const
    {
        const uint32_t note = shared.note(step);
        const int32_t valid_rows = read_word(note + kNoteValidRows);
        const int32_t row = share_row();
        const int32_t first_column = static_cast<int32_t>(first_share_column() + lane() % 4 * 2);
        Gradient *const place =
            static_cast<Gradient *>(params->dq) + ld_shared_b64(note + kNoteOffset) + row * params->dq_stride_row + first_column;
#pragma unroll
        for (int half = 0; half < 2; ++half) {
#pragma unroll
            for (int n = 0; n < kShareColumns / 8; ++n) {
                if (row + half * 8 < valid_rows && first_column + n * 8 < kHeadDim) {
                    store_gradients(place + half * 8 * params->dq_stride_row + n * 8, sums[4 * n + 2 * half],
                                    sums[4 * n + 2 * half + 1], factor, params->accumulate != 0);
                }
            }
        }
    }

    /* dS of the other warpgroup in a step; the own one is there. */
    __device__ void wait_for_scores(uint32_t step) const
    {
        bar_sync(scores_barrier(number ^ 1, step), kConsumers * kWarpgroupThreads);
    }

    /* dK or dV of the warp's 16 keys, those that exist. target: key 0 of the tile. */
    template <int kColumns, int kSums>
    __device__ void store_sums(const float (&sums)[kSums], Gradient *target, int64_t row_stride, int32_t valid_keys,
                               float factor) const
    {
        //@if out_fp32
        const int32_t row = static_cast<int32_t>(warp_key() + lane() / 4);
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            Gradient *const place = target + (row + half * 8) * row_stride + lane() % 4 * 2;
#pragma unroll
            for (int n = 0; n < kColumns / 8; ++n) {
                if (row + half * 8 < valid_keys) {
                    store_gradients(place + n * 8, sums[4 * n + 2 * half], sums[4 * n + 2 * half + 1], factor,
                                    params->accumulate != 0);
                }
            }
        }
        //@else
#pragma unroll
        for (int chunk = 0; chunk < (kColumns + kChunkColumns - 1) / kChunkColumns; ++chunk) {
            stage_chunk(sums, chunk, factor);
            bar_warp_sync();
            store_chunk<kColumns>(chunk, target, row_stride, valid_keys);
            bar_warp_sync();
        }
        //@endif
    }

    //@if !out_fp32
    /* The warp's rows of V, which nobody reads any more, take 64 columns at a time on their way to global memory. */
    __device__ uint32_t staging_address(uint32_t row, uint32_t unit) const
    {
        return shared.values() + row * 128 + ((unit ^ row % 8) << 4);
    }

    template <int kSums> __device__ void stage_chunk(const float (&sums)[kSums], int chunk, float factor) const
    {
#pragma unroll
        for (int n = 0; n < kChunkColumns / 16; ++n) { // 16 columns
            uint32_t packed[4] = {0, 0, 0, 0};
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                const int sum = 8 * (chunk * (kChunkColumns / 16) + n) + 2 * i;
                if (sum < kSums) {
                    packed[i] = pack_output(scale_output(sums[sum], factor), scale_output(sums[sum + 1], factor));
                }
            }
            stmatrix_x4(staging_address(warp_key() + lane() % 16, 2 * n + lane() / 16), packed[0], packed[1], packed[2],
                        packed[3]);
        }
    }

    template <int kColumns>
    __device__ void store_chunk(int chunk, Gradient *target, int64_t row_stride, int32_t valid_keys) const
    {
#pragma unroll
        for (int i = 0; i < 4; ++i) { // 4 rows of 8 units of 16 bytes
            const uint32_t row = warp_key() + i * 4 + lane() / 8;
            const uint32_t unit = lane() % 8;
            const uint32_t column = chunk * kChunkColumns + unit * 8;
            if (static_cast<int32_t>(row) < valid_keys && column < kColumns) {
                uint32_t words[4];
                ld_shared_v4_b32(words, staging_address(row, unit));
                st_global_v4_b32(target + row * row_stride + column, words);
            }
        }
    }
    //@endif

    /*
     * One step. kBehind: how many steps of the tile lie behind it, 2 standing for more. The first two are instances of their own, since
     * products that are issued or not by a run-time condition would be serialised by the compiler; and so are those with something to hide, whose
     * code would take registers from the others.
     */
    template <int kBehind, bool kHides>
    __device__ void step(float (&key_sums)[kKeySums], float (&value_sums)[kValueSums],
                         uint32_t (&score_gradients)[kQuerySteps][4], uint32_t work, int32_t number_in_tile,
                         int32_t query_tile, const PairConstants &constants)
    {
        float scores[kScores];
        float query_sums[kQuerySums];
        const RingPlace<kQueryStages> query_place = {now};
        const RingPlace<kQueryStages> place_before = {now - 1};
        const RingPlace<kOutputStages> output_place = {now};
        const uint32_t outputs = shared.outputs(output_place.slot());
        mbarrier_wait_parity(shared.of_queries(query_place.slot()).full, query_place.phase());
        if (kBehind == 2 && kSumsQueries) {
            wait_for_scores(now - 2);
        }
        wgmma_fence();
        if (kBehind == 2 && kSumsQueries) {
            multiply_keys(query_sums, shared.scores(now - 2));
            wgmma_commit_group();
        }
        multiply_scores(scores, shared.queries(query_place.slot()));
        wgmma_commit_group();
        if (kBehind > 0) {
            add_products(key_sums, score_gradients, shared.queries(place_before.slot()), kBehind > 1);
            wgmma_commit_group();
        }
        if (kBehind == 2 && kSumsQueries) {
            wgmma_wait_group<2>();
            tie(query_sums);
            if (kScoreSlots == 3) {
                bar_arrive(read_barrier(number, now), kConsumers * kWarpgroupThreads);
            }
            if (writes_queries(*params)) {
                write_queries(query_sums, now - 2, constants.slope_epilogue);
            }
        }
        SumTarget target = {};
        if (kBehind == 2 && kSumsQueries) {
            target = find_sums(now - 2);
        }
        wgmma_wait_group<kBehind == 0 ? 0 : 1>();
        tie(scores);
        uint32_t weights[kQuerySteps][4];
        uint32_t slopes[kQuerySteps][4];
#pragma unroll
        for (int i = 0; i < kQuerySteps; ++i) {
            activate(weights[i], slopes[i], scores, i, constants);
            // Reductions between the activations: a burst of them would wait for its way out of the SM.
            if (kBehind == 2 && kSumsQueries && i < kShareColumns / 16) {
                add_columns(query_sums, target, i);
            }
        }
        //@if masked
        if (kHides) {
            hide(weights, work, query_tile);
        }
        //@endif
        mbarrier_wait_parity(shared.of_outputs(output_place.slot()).full, output_place.phase());
        float gradients[kScores];
        wgmma_fence();
        multiply_outputs(gradients, outputs);
        wgmma_commit_group();
        add_products(value_sums, weights, outputs, kBehind > 0);
        wgmma_commit_group();
        wgmma_wait_group<1>();
        tie(gradients);
        if (kBehind > 0) {
            tie(key_sums);
            release_tile(shared.of_queries(place_before.slot()).empty);
        }
        apply_slopes(score_gradients, slopes, gradients, constants);
        //@if masked
        if (kHides) {
            hide(score_gradients, work, query_tile);
        }
        //@endif
        if (kSumsQueries) {
            if (kScoreSlots == 3 && kBehind == 2 && number_in_tile > 2) { // the slot was that of the step three before
                bar_sync(read_barrier(number ^ 1, now - 1), kConsumers * kWarpgroupThreads);
            }
            stage_scores(score_gradients, shared.scores(now));
            fence_proxy_async_shared();
            bar_arrive(scores_barrier(number, now), kConsumers * kWarpgroupThreads);
            bar_sync(own_barrier(), kWarpgroupThreads);
        }
        wgmma_wait_group<0>();
        tie(value_sums);
        release_tile(shared.of_outputs(output_place.slot()).empty);
        ++now;
    }

    /* Behind the last step: its dK, and dQ of the last two. */
    __device__ void drain(float (&key_sums)[kKeySums], const uint32_t (&score_gradients)[kQuerySteps][4], int32_t steps,
                          const PairConstants &constants) const
    {
        const RingPlace<kQueryStages> place_before = {now - 1};
        float query_sums[kQuerySums];
        wgmma_fence();
        add_products(key_sums, score_gradients, shared.queries(place_before.slot()), steps > 1);
        wgmma_commit_group();
        wgmma_wait_group<0>();
        tie(key_sums);
        release_tile(shared.of_queries(place_before.slot()).empty);
        if (kScoreSlots == 3 && kSumsQueries && steps > 2) { // the last step has arrived there, too
            bar_sync(read_barrier(number ^ 1, now - 1), kConsumers * kWarpgroupThreads);
        }
        for (uint32_t step = now - (steps > 1 ? 2 : 1); kSumsQueries && step != now; ++step) {
            wait_for_scores(step);
            wgmma_fence();
            multiply_keys(query_sums, shared.scores(step));
            wgmma_commit_group();
            wgmma_wait_group<0>();
            tie(query_sums);
            if (writes_queries(*params)) {
                write_queries(query_sums, step, constants.slope_epilogue);
            }
            const SumTarget target = find_sums(step);
#pragma unroll
            for (int block = 0; block < kShareColumns / 16; ++block) {
                add_columns(query_sums, target, block);
            }
        }
    }

    /* dK and dV of the tile. */
    __device__ void store(const float (&key_sums)[kKeySums], const float (&value_sums)[kValueSums], uint32_t work,
                          const PairConstants &constants) const
    {
        const int32_t valid_keys = read_uniform_word(work + kWorkValidKeys);
        if (params->dv != nullptr) {
            store_sums<kHeadDimV>(value_sums, static_cast<Gradient *>(params->dv) + ld_shared_b64(work + kWorkOffsetV),
                                  params->dv_stride_row, valid_keys, constants.weight_epilogue);
        }
        if (params->dk != nullptr) {
            store_sums<kHeadDim>(key_sums, static_cast<Gradient *>(params->dk) + ld_shared_b64(work + kWorkOffsetK),
                                 params->dk_stride_row, valid_keys, constants.slope_epilogue);
        }
        fence_proxy_async_shared(); // the copy engine writes the next V where the sums were staged
        mbarrier_arrive(shared.of_values().empty);
    }

    __device__ void key_tile(uint32_t work, const PairConstants &constants)
    {
        const int32_t steps = query_tiles(work).count() * params->heads_per_group;
        float key_sums[kKeySums];
        float value_sums[kValueSums];
        uint32_t score_gradients[kQuerySteps][4];
        mbarrier_wait_parity(shared.of_keys().full, tile % 2);
        mbarrier_wait_parity(shared.of_values().full, tile % 2);
        if (steps > 0) {
            const QueryTiles tiles = query_tiles(work);
            int32_t query_tile = tiles.start;
            //@if masked
            int32_t plain_first, plain_end;
            find_plain_tiles(work, plain_first, plain_end);
            constexpr bool kMayHide = true; // the first two do not ask: a mask that hides nothing does no harm
            //@else
            constexpr bool kMayHide = false;
            //@endif
            step<0, kMayHide>(key_sums, value_sums, score_gradients, work, 0, query_tile, constants);
            if (steps > 1) {
                query_tile = tiles.next(query_tile);
                step<1, kMayHide>(key_sums, value_sums, score_gradients, work, 1, query_tile, constants);
            }
            for (int32_t i = 2; i < steps; ++i) {
                query_tile = tiles.next(query_tile);
                //@if masked
                if (query_tile < plain_first || query_tile >= plain_end) {
                    step<2, true>(key_sums, value_sums, score_gradients, work, i, query_tile, constants);
                    continue;
                }
                //@endif
                step<2, false>(key_sums, value_sums, score_gradients, work, i, query_tile, constants);
            }
            drain(key_sums, score_gradients, steps, constants);
        } else {
            zero(key_sums);
            zero(value_sums);
        }
        release_tile(shared.of_keys().empty);
        store(key_sums, value_sums, work, constants);
    }

    template <int kSums> __device__ static void zero(float (&sums)[kSums])
    {
#pragma unroll
        for (int i = 0; i < kSums; ++i) {
            sums[i] = 0.0f;
        }
    }

    __device__ void run()
    {
        const PairConstants constants = pair_constants(*params);
        while (true) {
            mbarrier_wait_parity(shared.work_full(tile), tile / 2 % 2);
            const uint32_t work = shared.work(tile);
            if (read_uniform_word(work + kWorkValidKeys) < 0) {
                return;
            }
            key_tile(work, constants);
            ++tile;
        }
    }
};

extern "C" __global__ __launch_bounds__(kThreads, 1) void gdpa_kernel_entry(
    const __grid_constant__ gdpa_bwd_sm90_params params)
{
    const Shared shared = {dynamic_shared_base()};
    if (tid_x() == 0) {
        init_barriers(shared);
        prefetch_tensormap(&params.q_map);
        prefetch_tensormap(&params.k_map);
        prefetch_tensormap(&params.v_map);
        prefetch_tensormap(&params.dout_map);
    }
    bar_sync_0();
    const uint32_t warpgroup = shfl_sync_idx(tid_x() / kWarpgroupThreads, 0);
    if (warpgroup == 0) {
        setmaxnreg_dec<kProducerRegisters>();
        if (tid_x() < 32) {
            Producer producer = {shared, &params};
            producer.run();
        } else if (tid_x() < 64) {
            Repairer repairer = {shared, &params.common};
            repairer.run();
        }
    } else {
        setmaxnreg_inc<kConsumerRegisters>();
        Consumer consumer = {shared, &params.common, warpgroup - 1};
        consumer.run();
    }
}

//@if deterministic
#include "bwd_queries_sm90.cuh"
//@else
/* What the sums of dQ are multiplied by. */
__device__ inline float sums_factor(const gdpa_bwd_params &params)
{
    return pair_constants(params).slope_epilogue;
}

#include "bwd_convert.cuh"
//@endif
