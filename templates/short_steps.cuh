/*
 * What a warp of a kernel for short sequences works on: pairs of a sequence and a head, each cut into steps of kBlockM queries and kBlockN
 * keys. A short sequence is one step; longer ones are several, with the same results as anywhere else.
 *
 * Each block has a piece of the line of all pairs, the head running fastest, and its warps take them in turn: then neighbours read rows
 * that lie side by side. Offsets and lengths are loaded a pair ahead.
 */
#ifndef GDPA_SHORT_STEPS_CUH
#define GDPA_SHORT_STEPS_CUH

#include "config_default.cuh"
#include "mask.cuh"
#include "params.h"
#include "ptx/global_memory.cuh"
#include "ptx/special_registers.cuh"

/* What the device says of a sequence, as it came: nobody waits for the loads before the words are used. */
struct SequenceWords {
    int32_t first;
    int32_t end;
    int32_t used;
};

/* cu_seqlens, seqused: as of find_sequence in sequence.cuh. Numbers of rows fit 32 bits. */
__device__ inline SequenceWords load_sequence_words(const int32_t *cu_seqlens, const int32_t *seqused, int64_t rows,
                                                    int32_t batch)
{
    SequenceWords words = {0, static_cast<int32_t>(rows), static_cast<int32_t>(rows)};
    if (cu_seqlens != nullptr) {
        words.first = ld_global_nc_s32(cu_seqlens + batch);
        words.end = ld_global_nc_s32(cu_seqlens + batch + 1);
    }
    if (seqused != nullptr) {
        words.used = ld_global_nc_s32(seqused + batch);
    }
    return words;
}

__device__ inline int32_t clamp_s32(int32_t value, int32_t lowest, int32_t highest)
{
    return value < lowest ? lowest : value > highest ? highest : value;
}

/* One side of a pair: nothing in the words is trusted, rows stay inside [0, rows). */
struct Rows {
    int32_t first;
    int32_t length;
};

__device__ inline Rows clamp_rows(const SequenceWords &words, int64_t rows)
{
    const int32_t first = clamp_s32(words.first, 0, static_cast<int32_t>(rows));
    const int32_t end = clamp_s32(words.end, first, static_cast<int32_t>(rows));
    return {first, clamp_s32(words.used, 0, end - first)};
}

struct Step {
    int32_t batch;
    int32_t head;
    Rows q;
    Rows k;
    int32_t row;     // first query of the step, in its sequence
    int32_t rows;    // kBlockM at most
    int32_t key;     // first key of the step, likewise
    int32_t end_key; // behind the last key that the queries see; not behind `key`: they see none
};

/* The way of a warp through its pairs. */
struct PairWalk {
    int32_t left;  // pairs ahead, in steps of kWarps
    int32_t batch; // of the pair ahead
    int32_t head;
    int32_t batch_step;
    int32_t head_step;
    SequenceWords q;
    SequenceWords k;
};

__device__ inline void load_pair_ahead(PairWalk &walk, const gdpa_fwd_params &params)
{
    if (walk.left > 0) {
        walk.q = load_sequence_words(params.cu_seqlens_q, params.seqused_q, params.rows_q, walk.batch);
        walk.k = load_sequence_words(params.cu_seqlens_k, params.seqused_k, params.rows_k, walk.batch);
    }
}

__device__ inline PairWalk begin_walk(const gdpa_fwd_params &params, uint32_t warp)
{
    // A share fits 32 bits, whatever the number of pairs: a launch has at most 2^16 tiles for each block that it could have.
    const int64_t share = (params.num_tiles + nctaid_x() - 1) / nctaid_x();
    const int64_t first = ctaid_x() * share + warp;
    const int64_t pairs_left = params.num_tiles - ctaid_x() * share;
    PairWalk walk;
    walk.left = static_cast<int32_t>(pairs_left < share ? pairs_left : share) - static_cast<int32_t>(warp);
    walk.batch = static_cast<int32_t>(first / params.heads_q);
    walk.head = static_cast<int32_t>(first - static_cast<int64_t>(walk.batch) * params.heads_q);
    walk.batch_step = kWarps / params.heads_q;
    walk.head_step = kWarps - walk.batch_step * params.heads_q;
    load_pair_ahead(walk, params);
    return walk;
}

/* The pair ahead becomes that of the step; false when there is none. */
__device__ inline bool take_pair(Step &step, PairWalk &walk, const gdpa_fwd_params &params)
{
    if (walk.left <= 0) {
        return false;
    }
    step.batch = walk.batch;
    step.head = walk.head;
    step.q = clamp_rows(walk.q, params.rows_q);
    step.k = clamp_rows(walk.k, params.rows_k);
    step.row = 0;
    walk.left -= kWarps;
    walk.batch += walk.batch_step;
    walk.head += walk.head_step;
    if (walk.head >= params.heads_q) {
        walk.head -= params.heads_q;
        ++walk.batch;
    }
    load_pair_ahead(walk, params);
    return true;
}

__device__ inline int32_t keys_of(const Step &step)
{
    const int32_t left = step.end_key - step.key;
    return left < kBlockN ? left : kBlockN;
}

/* Whether the queries of the step see no keys behind its own. */
__device__ inline bool is_last_of_queries(const Step &step)
{
    return step.end_key - step.key <= kBlockN;
}

/* Queries that see more keys than those of one step come in steps of so many: their sums are carried on in registers. */
constexpr int32_t kCarriedRows = 16;

/* From a step to the next one of the warp; false when there is none. Before the first step all of it is 0. */
__device__ inline bool next_step(Step &step, PairWalk &walk, const gdpa_fwd_params &params)
{
    if (!is_last_of_queries(step)) {
        step.key += kBlockN;
        return true;
    }
    step.row += step.rows;
    while (step.row >= step.q.length) {
        if (!take_pair(step, walk, params)) {
            return false;
        }
    }
    const int32_t rows_left = step.q.length - step.row;
    step.rows = rows_left < kBlockM ? rows_left : kBlockM;
    KeyRange range = visible_keys(step.row, step.row + step.rows - 1, step.q.length, step.k.length);
    if (range.end - range.begin > kBlockN && step.rows > kCarriedRows) {
        step.rows = kCarriedRows;
        range = visible_keys(step.row, step.row + step.rows - 1, step.q.length, step.k.length);
    }
    step.key = range.begin;
    step.end_key = range.end;
    return true;
}

#endif
