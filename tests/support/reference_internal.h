/*
 * What the files of the reference share: a problem with every default filled in.
 */
#ifndef GDPA_TESTS_SUPPORT_REFERENCE_INTERNAL_H
#define GDPA_TESTS_SUPPORT_REFERENCE_INTERNAL_H

#include "tests/support/reference.h"

enum {
    REFERENCE_MAX_DIM = 256,
};

enum activation_kind {
    EXACT,
    APPROX,
};

/* What the table of activations says about one of them. */
struct activation_facts {
    int number;
    enum activation_kind kind;
    double relative, absolute; /* bound of an APPROX one: relative * max(1, |x|) + absolute */
    double parameter;          /* default */
};

/* A tensor: element (sequence, row, head, c) is at sequence * batch + row * row + head * head + c. */
struct view {
    const void *data;
    int32_t dtype;
    bool jagged; /* rows count from the tensor's first row, and `batch` is not used */
    int64_t stride_batch, stride_row, stride_head;
};

struct problem {
    const struct reference_problem *from;
    int32_t dtype, out_dtype;
    struct activation_facts activation;
    double parameter, scale, out_scale;
    double inexact;         /* reference_inexactness, or 0 where nobody asks what that makes of the results */
    int64_t heads_q, group; /* group: query heads a kv head */
    int dim, dim_v;
    int padded, padded_v; /* the same, rounded up to 8 */
    struct view q, k, v, d_out;
};

/* One side of a tile: its rows as they are, [REFERENCE_BLOCK_ROWS][padded], and transposed, [padded][REFERENCE_BLOCK_ROWS]. Unused rows are zero. */
struct side {
    double rows[REFERENCE_BLOCK_ROWS * REFERENCE_MAX_DIM];
    double transposed[REFERENCE_MAX_DIM * REFERENCE_BLOCK_ROWS];
    double norms[REFERENCE_BLOCK_ROWS]; /* of the rows */
};
void side_load(const struct view *view, int64_t sequence, int64_t first, int64_t row, int count, int64_t head, int dim,
               int padded, struct side *side);

/* c[i][j] += sum over k of a[k][i] * b[k][j]. a has rows of REFERENCE_BLOCK_ROWS, m is a multiple of 4, n of 8. */
void accumulate(int m, int n, int k, const double *a, const double *b, int ldb, double *c, int ldc);

/*
 * Where a gradient hangs on few pairs of query and key: what rounding does to the eager one is then a draw of chance, and where f' is flat or small
 * nearly nothing. So each pair may be off by this, in dS without the factor scale (d_s: its dS): what 16 bits leave open of a slope of 1, as
 * kernels keep 2 f' - 1, which is right to that everywhere; and the rounding of dP and of dS.
 */
bool reference_has_few_pairs(const struct reference_sequence *sequence);
double reference_few_pairs_doubt(const struct problem *problem, double d_prob, double d_s);

struct problem problem_resolve(const struct reference_problem *from);

/* Blocks of the query side (heads_q) or of the key side (heads_k); the caller frees them. */
bool problem_blocks_list(const struct reference_problem *problem, bool of_keys, struct reference_block **blocks,
                         int64_t *count);

#endif
