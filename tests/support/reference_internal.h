/*
 * What the files of the reference share: a problem with every default filled in.
 */
#ifndef GDPA_TESTS_SUPPORT_REFERENCE_INTERNAL_H
#define GDPA_TESTS_SUPPORT_REFERENCE_INTERNAL_H

#include "tests/support/reference.h"

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
    int64_t heads_q, group; /* group: query heads a kv head */
    int dim, dim_v;
    int padded, padded_v; /* the same, rounded up to 8 */
    struct view q, k, v, d_out;
};

struct problem problem_resolve(const struct reference_problem *from);

/* Blocks of the query side (heads_q) or of the key side (heads_k); the caller frees them. */
bool problem_blocks_list(const struct reference_problem *problem, bool of_keys, struct reference_block **blocks,
                         int64_t *count);

#endif
