/*
 * The operator in float64. See reference.h.
 *
 * Work is cut into items that share nothing: a block of query rows of one sequence and head (forward, dQ), or a block
 * of keys of one sequence and kv head (dK, dV). Each item walks over tiles of the other side; everything in a tile is a
 * 64 x 64 problem in double, and all matrix products are one routine, accumulate() (reference_tile.c).
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
    MAX_DIM = REFERENCE_MAX_DIM,
};

/* ---------------------------------------------------------------------------------------------------------------
 * Tiles
 * ------------------------------------------------------------------------------------------------------------- */

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
    /* Squares of how far P (0) and dS (1) may be off, like probs; a side's rows squared; and their products, like sums. */
    double doubts[2][TILE * TILE];
    double squares[TILE * MAX_DIM];
    double doubt_sums[2][TILE * MAX_DIM];
};

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
            double d_s = (reference_derivative(f, rounded, problem->parameter) + off) * d_p;
            /* dS has the factor scale before it is rounded, as the definition says: a small one takes it to fp16's subnormal numbers. */
            double factor = problem->scale != 0 && fabs(problem->scale) < 1 ? problem->scale : 1;
            values.d_s[1] = dtype_round(dtype, factor * d_s) / factor;
        }
    }
    return values;
}

/* A pair may be off by so much, which is `doubt` times its k in its row of dQ (by_key), or times its q in that of dK. */
static void pair_doubt(const struct problem *problem, struct scratch *scratch, int r, int c, double doubt, bool by_key)
{
    const double *other = by_key ? scratch->k.rows + c * problem->padded : scratch->q.rows + r * problem->padded;
    double *allowed = scratch->allowed + (by_key ? r : c) * problem->padded;
    for (int d = 0; doubt > 0 && d < problem->dim; d++) {
        allowed[d] += doubt * fabs(other[d]);
    }
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
    pair_doubt(problem, scratch, r, c, doubt, by_key);
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
    bool few = backward && reference_has_few_pairs(&tile->sequence);
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
            if (few) {
                pair_doubt(problem, scratch, r, c, reference_few_pairs_doubt(problem, d_prob, values.d_s[0]), by_key);
            }
        }
    }
}

/* Fills doubts, of the tile whose probs were filled last, and like these. */
static void tile_doubt(const struct problem *problem, const struct tile *tile, struct scratch *scratch, bool by_key)
{
    int row_step = by_key ? 1 : TILE;
    int key_step = by_key ? TILE : 1;
    memset(scratch->doubts, 0, sizeof scratch->doubts);
    for (int r = 0; r < tile->rows; r++) {
        int64_t first, last;
        reference_visible(problem->from, &tile->sequence, tile->i + r, &first, &last);
        int end = (int)clamp(last - tile->j, 0, tile->keys);
        for (int c = (int)clamp(first - tile->j, 0, tile->keys); c < end; c++) {
            int at = r * row_step + c * key_step;
            double d_s = problem->inexact * problem->out_scale * scratch->d_probs[r * TILE + c];
            scratch->doubts[0][at] = problem->inexact * problem->inexact;
            scratch->doubts[1][at] = d_s * d_s;
        }
    }
}

/* Adds the doubts of `count` products with rows of the other side to those of `rows` results. */
static void doubt_add(struct scratch *scratch, int which, const double *other, int rows, int padded, int count)
{
    for (int i = 0; i < count * padded; i++) {
        scratch->squares[i] = other[i] * other[i];
    }
    accumulate(round_up(rows, 4), padded, count, scratch->doubts[which], scratch->squares, padded,
               scratch->doubt_sums[which], padded);
}

static void doubt_store(const double *sums, int rows, int dim, int padded, double factor, double *out, int64_t row_step)
{
    for (int r = 0; r < rows; r++) {
        for (int c = 0; c < dim; c++) {
            out[r * row_step + c] = fabs(factor) * sqrt(sums[r * padded + c]);
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
    memset(scratch->doubt_sums, 0, sizeof scratch->doubt_sums);
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
        if (problem->inexact > 0) {
            tile_doubt(problem, &tile, scratch, true);
            doubt_add(scratch, 0, scratch->v.rows, tile.rows, problem->padded_v, tile.keys);
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
        if (problem->inexact > 0) {
            tile_doubt(problem, &tile, scratch, true);
            doubt_add(scratch, 1, scratch->k.rows, tile.rows, problem->padded, tile.keys);
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
            if (problem->inexact > 0) {
                tile_doubt(problem, &tile, scratch, false);
                doubt_add(scratch, 0, scratch->d_out.rows, tile.keys, problem->padded_v, tile.rows);
                doubt_add(scratch, 1, scratch->q.rows, tile.keys, problem->padded, tile.rows);
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
    double *o[2], *o_inexact;
    struct reference_gradients gradients[2], allowed, inexact;
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
    if (job->o_inexact) {
        doubt_store(scratch->doubt_sums[0], (int)block->rows, problem->dim_v, problem->padded_v, problem->out_scale,
                    job->o_inexact + at, step);
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
    if (job->inexact.dq) {
        doubt_store(scratch->doubt_sums[1], (int)block->rows, problem->dim, problem->padded, problem->scale,
                    job->inexact.dq + at, step);
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
    if (job->inexact.dk) {
        doubt_store(scratch->doubt_sums[1], (int)block->rows, problem->dim, problem->padded, problem->scale,
                    job->inexact.dk + at * problem->dim, heads_k * problem->dim);
    }
    if (job->inexact.dv) {
        doubt_store(scratch->doubt_sums[0], (int)block->rows, problem->dim_v, problem->padded_v, problem->out_scale,
                    job->inexact.dv + at * problem->dim_v, heads_k * problem->dim_v);
    }
}

/* The doubts are work: none is done where nobody asks for them. */
static struct job job_make(const struct reference_problem *problem, bool inexact)
{
    struct job job = {.problem = problem_resolve(problem)};
    job.problem.inexact = inexact ? reference_inexactness(job.problem.activation.number) : 0;
    return job;
}

static struct job job_forward(const struct reference_problem *problem, double *o, double *eager_o, double *inexact_o)
{
    struct job job = job_make(problem, inexact_o != NULL);
    job.eager = eager_o != NULL;
    job.o[0] = o;
    job.o[1] = eager_o;
    job.o_inexact = inexact_o;
    return job;
}

bool reference_forward_blocks(const struct reference_problem *problem, const struct reference_block *blocks,
                              int64_t count, double *o, double *eager_o, double *inexact_o)
{
    struct job job = job_forward(problem, o, eager_o, inexact_o);
    job.blocks = blocks;
    job.packed_blocks = true;
    return job_run(&job, count, work_forward);
}

bool reference_forward(const struct reference_problem *problem, double *o, double *eager_o, double *inexact_o)
{
    struct reference_block *blocks;
    int64_t count;
    if (!problem_blocks_list(problem, false, &blocks, &count)) {
        return false;
    }
    struct job job = job_forward(problem, o, eager_o, inexact_o);
    job.blocks = blocks;
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
                               struct reference_gradients eager, struct reference_gradients allowed,
                               struct reference_gradients inexact)
{
    struct job job = job_make(problem, inexact.dq || inexact.dk || inexact.dv);
    job.gradients[0] = exact;
    job.gradients[1] = eager;
    job.allowed = allowed;
    job.inexact = inexact;
    job.eager = eager.dq || eager.dk || eager.dv;
    return job;
}

bool reference_backward_blocks(const struct reference_problem *problem, bool of_keys,
                               const struct reference_block *blocks, int64_t count, struct reference_gradients exact,
                               struct reference_gradients eager, struct reference_gradients allowed,
                               struct reference_gradients inexact)
{
    struct job job = job_backward(problem, exact, eager, allowed, inexact);
    job.blocks = blocks;
    job.packed_blocks = true;
    return job_run(&job, count, of_keys ? work_backward_k : work_backward_q);
}

bool reference_backward(const struct reference_problem *problem, struct reference_gradients exact,
                        struct reference_gradients eager, struct reference_gradients allowed,
                        struct reference_gradients inexact)
{
    struct job job = job_backward(problem, exact, eager, allowed, inexact);
    bool wants_q = exact.dq || eager.dq || allowed.dq || inexact.dq;
    bool wants_k = exact.dk || exact.dv || eager.dk || eager.dv || allowed.dk || inexact.dk || inexact.dv;
    return (!wants_q || backward_half(problem, false, &job)) && (!wants_k || backward_half(problem, true, &job));
}
