/*
 * The operator in float64. See reference.h.
 *
 * Work is cut into items that share nothing: a block of query rows of one sequence and head (forward, dQ), or a block
 * of keys of one sequence and kv head (dK, dV). Each item walks over tiles of the other side; everything in a tile is a
 * 64 x 64 problem in double, and both matrix products are one routine, accumulate().
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/half.h"
#include "tests/support/parallel.h"
#include "tests/support/random.h"
#include "tests/support/reference_internal.h"

enum {
    TILE = REFERENCE_BLOCK_ROWS, /* rows and keys of a tile */
    MAX_DIM = 256,
};

/* ---------------------------------------------------------------------------------------------------------------
 * The one matrix product
 * ------------------------------------------------------------------------------------------------------------- */

/*
 * c[i][j] += sum over k of a[k][i] * b[k][j]. a has rows of TILE, m is a multiple of 4, n of 8. Four vectors are one
 * register each with AVX, two each without.
 */
typedef double vector4 __attribute__((vector_size(32), aligned(8), may_alias));

/* Four rows of eight columns, in eight accumulators that stay in registers. */
static inline __attribute__((always_inline)) void accumulate_4_by_8(int k, const double *a, const double *b, int ldb,
                                                                    double *c, int ldc)
{
    vector4 *at[4][2];
    for (int r = 0; r < 4; r++) {
        at[r][0] = (vector4 *)(c + (size_t)r * (size_t)ldc);
        at[r][1] = at[r][0] + 1;
    }
    vector4 s00 = *at[0][0], s01 = *at[0][1], s10 = *at[1][0], s11 = *at[1][1];
    vector4 s20 = *at[2][0], s21 = *at[2][1], s30 = *at[3][0], s31 = *at[3][1];
    for (int l = 0; l < k; l++) {
        vector4 low = *(const vector4 *)b;
        vector4 high = *(const vector4 *)(b + 4);
        s00 += a[0] * low, s01 += a[0] * high;
        s10 += a[1] * low, s11 += a[1] * high;
        s20 += a[2] * low, s21 += a[2] * high;
        s30 += a[3] * low, s31 += a[3] * high;
        a += TILE;
        b += ldb;
    }
    *at[0][0] = s00, *at[0][1] = s01, *at[1][0] = s10, *at[1][1] = s11;
    *at[2][0] = s20, *at[2][1] = s21, *at[3][0] = s30, *at[3][1] = s31;
}

static inline __attribute__((always_inline)) void accumulate_body(int m, int n, int k, const double *a, const double *b,
                                                                  int ldb, double *c, int ldc)
{
    for (int i = 0; i < m; i += 4) {
        for (int j = 0; j < n; j += 8) {
            accumulate_4_by_8(k, a + i, b + j, ldb, c + (size_t)i * (size_t)ldc + j, ldc);
        }
    }
}

#if defined(__x86_64__)
__attribute__((target("avx2,fma"))) static void accumulate_avx2(int m, int n, int k, const double *a, const double *b,
                                                                int ldb, double *c, int ldc)
{
    accumulate_body(m, n, k, a, b, ldb, c, ldc);
}
#endif

static void accumulate(int m, int n, int k, const double *a, const double *b, int ldb, double *c, int ldc)
{
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
        accumulate_avx2(m, n, k, a, b, ldb, c, ldc);
        return;
    }
#endif
    accumulate_body(m, n, k, a, b, ldb, c, ldc);
}

/* ---------------------------------------------------------------------------------------------------------------
 * Tiles
 * ------------------------------------------------------------------------------------------------------------- */

/* One side of a tile: its rows as they are, [TILE][padded], and transposed, [padded][TILE]. Unused rows are zero. */
struct side {
    double rows[TILE * MAX_DIM];
    double transposed[MAX_DIM * TILE];
    double norms[TILE]; /* of the rows */
};

/* What one thread works in. */
struct scratch {
    struct side q, k, v, d_out;
    double scores[TILE * TILE];      /* <q_i, k_j> */
    double d_probs[TILE * TILE];     /* <dO_i, v_j> */
    double probs[2][TILE * TILE];    /* P, exact and eager; transposed or not as the user wants it */
    double d_scores[2][TILE * TILE]; /* dS without its factors, likewise */
    double sums[2][TILE * MAX_DIM];
    double more_sums[2][TILE * MAX_DIM];
    double allowed[TILE * MAX_DIM]; /* of dQ or dK, likewise */
};

static void side_load(const struct view *view, int64_t sequence, int64_t first, int64_t row, int count, int64_t head,
                      int dim, int padded, struct side *side)
{
    int64_t base = head * view->stride_head + (view->jagged ? first * view->stride_row : sequence * view->stride_batch);
    memset(side->rows, 0, sizeof(double) * TILE * (size_t)padded);
    for (int r = 0; r < count; r++) {
        int64_t at = base + (row + r) * view->stride_row;
        double squares = 0;
        for (int c = 0; c < dim; c++) {
            double element = dtype_load(view->dtype, view->data, at + c);
            side->rows[r * padded + c] = element;
            squares += element * element;
        }
        side->norms[r] = sqrt(squares);
    }
    for (int c = 0; c < padded; c++) {
        for (int r = 0; r < TILE; r++) {
            side->transposed[c * TILE + r] = side->rows[r * padded + c];
        }
    }
}

static int64_t clamp(int64_t value, int64_t lowest, int64_t highest)
{
    return value < lowest ? lowest : value > highest ? highest : value;
}

static int round_up(int value, int step)
{
    return (value + step - 1) / step * step;
}

/* A tile of the score matrix: queries i .. i+rows-1 of one head against keys j .. j+keys-1 of its sequence. */
struct tile {
    struct reference_sequence sequence;
    int64_t sequence_number, head;
    int64_t i, j;
    int rows, keys;
};

/*
 * What the eager result of an APPROX activation is moved by at x: its whole stated bound, up or down. Not a part of it: where
 * a result hangs on few pairs, a small random part would demand more of a kernel than its activation promises.
 */
static double inexactness(const struct problem *problem, const struct tile *tile, int64_t i, int64_t j, double x)
{
    if (problem->activation.kind == EXACT) {
        return 0;
    }
    uint64_t stream = (uint64_t)(tile->sequence_number * problem->heads_q + tile->head);
    double bound = problem->activation.relative * fmax(1, fabs(x)) + problem->activation.absolute;
    return random_hash(stream, (uint64_t)i << 32 ^ (uint64_t)j) >> 63 ? bound : -bound;
}

/* P, and dS without its constant factors, of one visible pair; [0] exact, [1] eager. */
struct pair_values {
    double p[2], d_s[2];
};

static struct pair_values pair_evaluate(const struct problem *problem, const struct tile *tile, int r, int c,
                                        double dot, double d_prob, bool backward, bool eager)
{
    int32_t f = problem->activation.number;
    struct pair_values values = {.p = {0, 0}, .d_s = {0, 0}};
    double x = problem->scale * dot;
    values.p[0] = reference_activation(f, x, problem->parameter);
    if (backward) {
        values.d_s[0] = reference_derivative(f, x, problem->parameter) * problem->out_scale * d_prob;
    }
    if (eager) {
        int32_t dtype = problem->dtype;
        double rounded = dtype_round(dtype, x);
        double off = inexactness(problem, tile, tile->i + r, tile->j + c, rounded);
        values.p[1] = dtype_round(dtype, reference_activation(f, rounded, problem->parameter) + off);
        if (backward) {
            double d_p = dtype_round(dtype, problem->out_scale * d_prob);
            values.d_s[1] = dtype_round(dtype, (reference_derivative(f, rounded, problem->parameter) + off) * d_p);
        }
    }
    return values;
}

/*
 * Adds what a pair allows its element's row (by_key: of dQ, from k; else of dK, from q), without the factor scale. Few pairs are near a
 * kink: the product of the norms, which is no smaller than the norm of the products, keeps the others out.
 */
static void pair_allow(const struct problem *problem, struct scratch *scratch, int r, int c, double dot, double d_prob,
                       bool by_key)
{
    int32_t f = problem->activation.number;
    double x = problem->scale * dot;
    double norms = scratch->q.norms[r] * scratch->k.norms[c];
    double most = fabs(problem->scale) * reference_window(problem->dim, norms * norms);
    if (reference_jump(f, x, most, problem->parameter) == 0) {
        return;
    }
    const double *q = scratch->q.rows + r * problem->padded;
    const double *k = scratch->k.rows + c * problem->padded;
    double squares = 0;
    for (int d = 0; d < problem->dim; d++) {
        squares += q[d] * k[d] * q[d] * k[d];
    }
    double window = fabs(problem->scale) * reference_window(problem->dim, squares);
    double doubt = reference_jump(f, x, window, problem->parameter) * fabs(problem->out_scale * d_prob);
    double *allowed = scratch->allowed + (by_key ? r : c) * problem->padded;
    for (int d = 0; doubt > 0 && d < problem->dim; d++) {
        allowed[d] += doubt * fabs((by_key ? k : q)[d]);
    }
}

/*
 * Fills probs and (backward) d_scores from the loaded sides, and adds to what is allowed; masked and unused pairs are 0. by_key: transposed, [key][row],
 * as a product that sums over keys wants it; else [row][key].
 */
static void tile_evaluate(const struct problem *problem, const struct tile *tile, struct scratch *scratch,
                          bool backward, bool eager, bool by_key)
{
    int m = round_up(tile->rows, 4);
    int n = round_up(tile->keys, 8);
    memset(scratch->scores, 0, sizeof scratch->scores);
    accumulate(m, n, problem->dim, scratch->q.transposed, scratch->k.transposed, TILE, scratch->scores, TILE);
    if (backward) {
        memset(scratch->d_probs, 0, sizeof scratch->d_probs);
        accumulate(m, n, problem->dim_v, scratch->d_out.transposed, scratch->v.transposed, TILE, scratch->d_probs,
                   TILE);
    }
    for (int e = 0; e < (eager ? 2 : 1); e++) {
        memset(scratch->probs[e], 0, sizeof scratch->probs[e]);
        memset(scratch->d_scores[e], 0, backward ? sizeof scratch->d_scores[e] : 0);
    }
    int row_step = by_key ? 1 : TILE;
    int key_step = by_key ? TILE : 1;
    bool jumps = backward && reference_has_jump(problem->activation.number, problem->parameter);
    for (int r = 0; r < tile->rows; r++) {
        int64_t first, last;
        reference_visible(problem->from, &tile->sequence, tile->i + r, &first, &last);
        int64_t begin = clamp(first - tile->j, 0, tile->keys);
        int64_t end = clamp(last - tile->j, 0, tile->keys);
        for (int c = (int)begin; c < (int)end; c++) {
            double dot = scratch->scores[r * TILE + c];
            double d_prob = backward ? scratch->d_probs[r * TILE + c] : 0;
            struct pair_values values = pair_evaluate(problem, tile, r, c, dot, d_prob, backward, eager);
            for (int e = 0; e < (eager ? 2 : 1); e++) {
                scratch->probs[e][r * row_step + c * key_step] = values.p[e];
                scratch->d_scores[e][r * row_step + c * key_step] = values.d_s[e];
            }
            if (jumps) {
                pair_allow(problem, scratch, r, c, dot, d_prob, by_key);
            }
        }
    }
}

/* The keys that any of some rows may see; ranges only move forward with the row. */
static void keys_of_rows(const struct problem *problem, const struct reference_sequence *sequence, int64_t i, int rows,
                         int64_t *first, int64_t *last)
{
    int64_t ignored;
    reference_visible(problem->from, sequence, i, first, &ignored);
    reference_visible(problem->from, sequence, i + rows - 1, &ignored, last);
}

static int at_most_tile(int64_t count)
{
    return count < TILE ? (int)count : TILE;
}

/* ---------------------------------------------------------------------------------------------------------------
 * Items
 * ------------------------------------------------------------------------------------------------------------- */

/* Where an item puts a result: rows first .. of one head in a packed array. */
static void store_rows(const double *sums, int rows, int dim, int padded, double factor, int32_t round_to, double *out,
                       int64_t row_step)
{
    for (int r = 0; r < rows; r++) {
        for (int c = 0; c < dim; c++) {
            double value =
                factor * sums[r * padded + c] + 0.0; /* + 0.0: an empty sum is +0 for a negative factor too */
            out[r * row_step + c] = round_to ? dtype_round(round_to, value) : value;
        }
    }
}

static void load_queries(const struct problem *problem, const struct tile *tile, bool backward, struct scratch *scratch)
{
    side_load(&problem->q, tile->sequence_number, tile->sequence.first_q, tile->i, tile->rows, tile->head, problem->dim,
              problem->padded, &scratch->q);
    if (backward) {
        side_load(&problem->d_out, tile->sequence_number, tile->sequence.first_q, tile->i, tile->rows, tile->head,
                  problem->dim_v, problem->padded_v, &scratch->d_out);
    }
}

static void load_keys(const struct problem *problem, const struct tile *tile, struct scratch *scratch)
{
    int64_t head = tile->head / problem->group;
    side_load(&problem->k, tile->sequence_number, tile->sequence.first_k, tile->j, tile->keys, head, problem->dim,
              problem->padded, &scratch->k);
    side_load(&problem->v, tile->sequence_number, tile->sequence.first_k, tile->j, tile->keys, head, problem->dim_v,
              problem->padded_v, &scratch->v);
}

/* Sets sums of rows of `padded` and more_sums of rows of `more_padded` to zero. */
static void clear_sums(struct scratch *scratch, int padded, int more_padded)
{
    for (int e = 0; e < 2; e++) {
        memset(scratch->sums[e], 0, sizeof(double) * TILE * (size_t)padded);
        memset(scratch->more_sums[e], 0, sizeof(double) * TILE * (size_t)more_padded);
    }
    memset(scratch->allowed, 0, sizeof scratch->allowed);
}

/* O of a block: scratch->sums without out_scale. */
static void block_forward(const struct problem *problem, const struct reference_block *block, bool eager,
                          struct scratch *scratch)
{
    struct tile tile = {.sequence = reference_sequence_find(problem->from, block->sequence)};
    tile.sequence_number = block->sequence;
    tile.head = block->head;
    tile.i = block->first_row;
    tile.rows = (int)block->rows;
    clear_sums(scratch, problem->padded_v, 0);
    load_queries(problem, &tile, false, scratch);
    int64_t first, last;
    keys_of_rows(problem, &tile.sequence, tile.i, tile.rows, &first, &last);
    for (tile.j = first; tile.j < last; tile.j += TILE) {
        tile.keys = at_most_tile(last - tile.j);
        load_keys(problem, &tile, scratch);
        tile_evaluate(problem, &tile, scratch, false, eager, true);
        for (int e = 0; e < (eager ? 2 : 1); e++) {
            accumulate(round_up(tile.rows, 4), problem->padded_v, tile.keys, scratch->probs[e], scratch->v.rows,
                       problem->padded_v, scratch->sums[e], problem->padded_v);
        }
    }
}

/* dQ of a block: scratch->sums without scale. */
static void block_backward_q(const struct problem *problem, const struct reference_block *block, bool eager,
                             struct scratch *scratch)
{
    struct tile tile = {.sequence = reference_sequence_find(problem->from, block->sequence)};
    tile.sequence_number = block->sequence;
    tile.head = block->head;
    tile.i = block->first_row;
    tile.rows = (int)block->rows;
    clear_sums(scratch, problem->padded, 0);
    load_queries(problem, &tile, true, scratch);
    int64_t first, last;
    keys_of_rows(problem, &tile.sequence, tile.i, tile.rows, &first, &last);
    for (tile.j = first; tile.j < last; tile.j += TILE) {
        tile.keys = at_most_tile(last - tile.j);
        load_keys(problem, &tile, scratch);
        tile_evaluate(problem, &tile, scratch, true, eager, true);
        for (int e = 0; e < (eager ? 2 : 1); e++) {
            accumulate(round_up(tile.rows, 4), problem->padded, tile.keys, scratch->d_scores[e], scratch->k.rows,
                       problem->padded, scratch->sums[e], problem->padded);
        }
    }
}

/* dV (scratch->sums, without out_scale) and dK (scratch->more_sums, without scale) of keys j .. of one kv head. */
static void block_backward_k(const struct problem *problem, const struct reference_block *block, bool eager,
                             struct scratch *scratch)
{
    struct tile tile = {.sequence = reference_sequence_find(problem->from, block->sequence)};
    tile.sequence_number = block->sequence;
    tile.j = block->first_row;
    tile.keys = (int)block->rows;
    clear_sums(scratch, problem->padded_v, problem->padded);
    for (tile.head = block->head * problem->group; tile.head < (block->head + 1) * problem->group; tile.head++) {
        load_keys(problem, &tile, scratch);
        for (tile.i = 0; tile.i < tile.sequence.rows_q; tile.i += TILE) {
            tile.rows = at_most_tile(tile.sequence.rows_q - tile.i);
            int64_t first, last;
            keys_of_rows(problem, &tile.sequence, tile.i, tile.rows, &first, &last);
            if (last <= tile.j || first >= tile.j + tile.keys) {
                continue;
            }
            load_queries(problem, &tile, true, scratch);
            tile_evaluate(problem, &tile, scratch, true, eager, false);
            for (int e = 0; e < (eager ? 2 : 1); e++) {
                accumulate(round_up(tile.keys, 4), problem->padded_v, tile.rows, scratch->probs[e], scratch->d_out.rows,
                           problem->padded_v, scratch->sums[e], problem->padded_v);
                accumulate(round_up(tile.keys, 4), problem->padded, tile.rows, scratch->d_scores[e], scratch->q.rows,
                           problem->padded, scratch->more_sums[e], problem->padded);
            }
        }
    }
}

/* ---------------------------------------------------------------------------------------------------------------
 * Whole problems
 * ------------------------------------------------------------------------------------------------------------- */

struct job {
    struct problem problem;
    const struct reference_block *blocks;
    struct scratch *scratch; /* one a thread */
    bool packed_blocks;      /* results go to o by block number, not by place in the tensor */
    bool eager;
    double *o[2];
    struct reference_gradients gradients[2], allowed;
};

/* Runs work over the blocks with scratch for each thread. */
static bool job_run(struct job *job, int64_t count, void (*work)(int64_t item, int thread, void *user))
{
    int threads = parallel_threads(count, job->problem.from->threads);
    job->scratch = malloc(sizeof *job->scratch * (size_t)threads);
    if (!job->scratch) {
        return false;
    }
    parallel_for(count, threads, work, job);
    free(job->scratch);
    job->scratch = NULL;
    return true;
}

static void work_forward(int64_t item, int thread, void *user)
{
    struct job *job = user;
    const struct problem *problem = &job->problem;
    const struct reference_block *block = &job->blocks[item];
    struct scratch *scratch = &job->scratch[thread];
    block_forward(problem, block, job->eager, scratch);
    struct reference_sequence sequence = reference_sequence_find(problem->from, block->sequence);
    int64_t at = ((sequence.first_q + block->first_row) * problem->heads_q + block->head) * problem->dim_v;
    int64_t step = problem->heads_q * problem->dim_v;
    if (job->packed_blocks) {
        at = item * REFERENCE_BLOCK_ROWS * problem->dim_v;
        step = problem->dim_v;
    }
    for (int e = 0; e < 2; e++) {
        if (job->o[e]) {
            int32_t round_to = e ? problem->out_dtype : 0;
            store_rows(scratch->sums[e], (int)block->rows, problem->dim_v, problem->padded_v, problem->out_scale,
                       round_to, job->o[e] + at, step);
        }
    }
}

static void work_backward_q(int64_t item, int thread, void *user)
{
    struct job *job = user;
    const struct problem *problem = &job->problem;
    const struct reference_block *block = &job->blocks[item];
    struct scratch *scratch = &job->scratch[thread];
    block_backward_q(problem, block, job->eager, scratch);
    struct reference_sequence sequence = reference_sequence_find(problem->from, block->sequence);
    int64_t at = ((sequence.first_q + block->first_row) * problem->heads_q + block->head) * problem->dim;
    int64_t step = problem->heads_q * problem->dim;
    if (job->packed_blocks) {
        at = item * REFERENCE_BLOCK_ROWS * problem->dim;
        step = problem->dim;
    }
    for (int e = 0; e < 2; e++) {
        if (job->gradients[e].dq) {
            int32_t round_to = e ? problem->out_dtype : 0;
            store_rows(scratch->sums[e], (int)block->rows, problem->dim, problem->padded, problem->scale, round_to,
                       job->gradients[e].dq + at, step);
        }
    }
    if (job->allowed.dq) {
        store_rows(scratch->allowed, (int)block->rows, problem->dim, problem->padded, fabs(problem->scale), 0,
                   job->allowed.dq + at, step);
    }
}

static void work_backward_k(int64_t item, int thread, void *user)
{
    struct job *job = user;
    const struct problem *problem = &job->problem;
    const struct reference_block *block = &job->blocks[item];
    struct scratch *scratch = &job->scratch[thread];
    block_backward_k(problem, block, job->eager, scratch);
    struct reference_sequence sequence = reference_sequence_find(problem->from, block->sequence);
    int64_t heads_k = problem->from->args->heads_k;
    int64_t at = (sequence.first_k + block->first_row) * heads_k + block->head;
    if (job->packed_blocks) {
        at = item * REFERENCE_BLOCK_ROWS;
        heads_k = 1;
    }
    for (int e = 0; e < 2; e++) {
        int32_t round_to = e ? problem->out_dtype : 0;
        if (job->gradients[e].dv) {
            store_rows(scratch->sums[e], (int)block->rows, problem->dim_v, problem->padded_v, problem->out_scale,
                       round_to, job->gradients[e].dv + at * problem->dim_v, heads_k * problem->dim_v);
        }
        if (job->gradients[e].dk) {
            store_rows(scratch->more_sums[e], (int)block->rows, problem->dim, problem->padded, problem->scale, round_to,
                       job->gradients[e].dk + at * problem->dim, heads_k * problem->dim);
        }
    }
    if (job->allowed.dk) {
        store_rows(scratch->allowed, (int)block->rows, problem->dim, problem->padded, fabs(problem->scale), 0,
                   job->allowed.dk + at * problem->dim, heads_k * problem->dim);
    }
}

static struct job job_make(const struct reference_problem *problem)
{
    return (struct job){.problem = problem_resolve(problem)};
}

bool reference_forward_blocks(const struct reference_problem *problem, const struct reference_block *blocks,
                              int64_t count, double *o, double *eager_o)
{
    struct job job = job_make(problem);
    job.blocks = blocks;
    job.packed_blocks = true;
    job.eager = eager_o != NULL;
    job.o[0] = o;
    job.o[1] = eager_o;
    return job_run(&job, count, work_forward);
}

bool reference_forward(const struct reference_problem *problem, double *o, double *eager_o)
{
    struct reference_block *blocks;
    int64_t count;
    if (!problem_blocks_list(problem, false, &blocks, &count)) {
        return false;
    }
    struct job job = job_make(problem);
    job.blocks = blocks;
    job.eager = eager_o != NULL;
    job.o[0] = o;
    job.o[1] = eager_o;
    bool done = job_run(&job, count, work_forward);
    free(blocks);
    return done;
}

static bool backward_half(const struct reference_problem *problem, bool of_keys, struct job *job)
{
    struct reference_block *blocks;
    int64_t count;
    if (!problem_blocks_list(problem, of_keys, &blocks, &count)) {
        return false;
    }
    job->blocks = blocks;
    bool done = job_run(job, count, of_keys ? work_backward_k : work_backward_q);
    free(blocks);
    return done;
}

/* Everything of a backward but the blocks. */
static struct job job_backward(const struct reference_problem *problem, struct reference_gradients exact,
                               struct reference_gradients eager, struct reference_gradients allowed)
{
    struct job job = job_make(problem);
    job.gradients[0] = exact;
    job.gradients[1] = eager;
    job.allowed = allowed;
    job.eager = eager.dq || eager.dk || eager.dv;
    return job;
}

bool reference_backward_blocks(const struct reference_problem *problem, bool of_keys,
                               const struct reference_block *blocks, int64_t count, struct reference_gradients exact,
                               struct reference_gradients eager, struct reference_gradients allowed)
{
    struct job job = job_backward(problem, exact, eager, allowed);
    job.blocks = blocks;
    job.packed_blocks = true;
    return job_run(&job, count, of_keys ? work_backward_k : work_backward_q);
}

bool reference_backward(const struct reference_problem *problem, struct reference_gradients exact,
                        struct reference_gradients eager, struct reference_gradients allowed)
{
    struct job job = job_backward(problem, exact, eager, allowed);
    bool wants_q = exact.dq || eager.dq || allowed.dq;
    bool wants_k = exact.dk || exact.dv || eager.dk || eager.dv || allowed.dk;
    return (!wants_q || backward_half(problem, false, &job)) && (!wants_k || backward_half(problem, true, &job));
}
