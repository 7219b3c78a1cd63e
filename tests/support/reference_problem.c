/*
 * How the reference reads a spec and arguments: defaults, strides, the place of each sequence, visibility. See reference.h.
 */
#include <stdlib.h>

#include "tests/support/reference_internal.h"

static const struct activation_facts activation_table[] = {
#define ACTIVATION(suffix, number, name, aliases, file, kind, rel, abs, param_default, formula, derivative)            \
    {number, kind, rel, abs, param_default},
#include "gen/activations.def"
#undef ACTIVATION
};

static struct activation_facts activation_facts_find(int32_t activation)
{
    for (size_t i = 0; i < sizeof activation_table / sizeof activation_table[0]; i++) {
        if (activation_table[i].number == activation) {
            return activation_table[i];
        }
    }
    return (struct activation_facts){.number = activation};
}

static bool is_jagged(int32_t layout)
{
    return layout == GDPA_LAYOUT_JAGGED;
}

static struct view view_make(const gdpa_tensor *tensor, int32_t dtype, bool jagged, int64_t rows, int64_t heads,
                             int64_t dim)
{
    struct view view = {.data = tensor->data, .dtype = tensor->dtype ? tensor->dtype : dtype, .jagged = jagged};
    if (tensor->flags & GDPA_TENSOR_STRIDES) {
        view.stride_batch = tensor->stride_batch;
        view.stride_row = tensor->stride_row;
        view.stride_head = tensor->stride_head;
    } else {
        view.stride_head = dim;
        view.stride_row = heads * dim;
        view.stride_batch = rows * heads * dim;
    }
    return view;
}

struct problem problem_resolve(const struct reference_problem *from)
{
    const gdpa_spec *spec = from->spec;
    const gdpa_args *args = from->args;
    struct problem problem = {.from = from, .heads_q = args->heads_q};
    problem.dtype = spec->dtype ? spec->dtype : GDPA_DTYPE_BF16;
    problem.out_dtype = spec->out_dtype ? spec->out_dtype : problem.dtype;
    problem.activation = activation_facts_find(spec->activation);
    bool has_parameter = args->flags & GDPA_ARGS_ACTIVATION_PARAM;
    problem.parameter = has_parameter ? (double)args->activation_param : (double)(float)problem.activation.parameter;
    problem.scale = args->flags & GDPA_ARGS_SCALE ? (double)args->scale : 1;
    problem.out_scale = args->flags & GDPA_ARGS_OUT_SCALE ? (double)args->out_scale : 1;
    problem.group = args->heads_k > 0 ? args->heads_q / args->heads_k : 1;
    problem.dim = spec->head_dim;
    problem.dim_v = spec->head_dim_v ? spec->head_dim_v : spec->head_dim;
    problem.padded = (problem.dim + 7) / 8 * 8;
    problem.padded_v = (problem.dim_v + 7) / 8 * 8;
    bool jagged_q = is_jagged(spec->layout_q);
    bool jagged_k = is_jagged(spec->layout_k);
    problem.q = view_make(&args->q, problem.dtype, jagged_q, args->seqlen_q, args->heads_q, problem.dim);
    problem.k = view_make(&args->k, problem.dtype, jagged_k, args->seqlen_k, args->heads_k, problem.dim);
    problem.v = view_make(&args->v, problem.dtype, jagged_k, args->seqlen_k, args->heads_k, problem.dim_v);
    problem.d_out = view_make(&from->d_out, problem.dtype, jagged_q, args->seqlen_q, args->heads_q, problem.dim_v);
    return problem;
}

static int64_t clamp(int64_t value, int64_t lowest, int64_t highest)
{
    return value < lowest ? lowest : value > highest ? highest : value;
}

/* First row and number of rows of a sequence on one side. */
static void rows_find(bool jagged, int64_t sequence, int64_t seqlen, int64_t total, const int32_t *cu_seqlens,
                      const int32_t *seqused, int64_t *first, int64_t *rows)
{
    if (jagged) {
        *first = clamp(cu_seqlens[sequence], 0, total);
        *rows = clamp(cu_seqlens[sequence + 1], *first, total) - *first;
    } else {
        *first = sequence * seqlen;
        *rows = seqlen;
    }
    if (seqused) {
        *rows = clamp(seqused[sequence], 0, *rows);
    }
}

struct reference_sequence reference_sequence_find(const struct reference_problem *problem, int64_t sequence)
{
    const gdpa_spec *spec = problem->spec;
    const gdpa_args *args = problem->args;
    struct reference_sequence found;
    rows_find(is_jagged(spec->layout_q), sequence, args->seqlen_q, args->total_q, args->cu_seqlens_q, args->seqused_q,
              &found.first_q, &found.rows_q);
    rows_find(is_jagged(spec->layout_k), sequence, args->seqlen_k, args->total_k, args->cu_seqlens_k, args->seqused_k,
              &found.first_k, &found.rows_k);
    return found;
}

struct reference_sizes reference_sizes_find(const struct reference_problem *problem)
{
    const gdpa_spec *spec = problem->spec;
    const gdpa_args *args = problem->args;
    struct reference_sizes sizes = {.head_dim = spec->head_dim};
    sizes.head_dim_v = spec->head_dim_v ? spec->head_dim_v : spec->head_dim;
    sizes.rows_q = is_jagged(spec->layout_q) ? args->total_q : args->batch * args->seqlen_q;
    sizes.rows_k = is_jagged(spec->layout_k) ? args->total_k : args->batch * args->seqlen_k;
    sizes.o = sizes.rows_q * args->heads_q * sizes.head_dim_v;
    sizes.dq = sizes.rows_q * args->heads_q * sizes.head_dim;
    sizes.dk = sizes.rows_k * args->heads_k * sizes.head_dim;
    sizes.dv = sizes.rows_k * args->heads_k * sizes.head_dim_v;
    return sizes;
}

void reference_visible(const struct reference_problem *problem, const struct reference_sequence *sequence, int64_t i,
                       int64_t *first, int64_t *last)
{
    const gdpa_spec *spec = problem->spec;
    int64_t offset = spec->align == GDPA_ALIGN_TOP_LEFT ? 0 : sequence->rows_k - sequence->rows_q;
    bool bounded_left = (spec->flags & GDPA_SPEC_WINDOW_LEFT) && spec->window_left >= 0;
    bool bounded_right = (spec->flags & GDPA_SPEC_WINDOW_RIGHT) && spec->window_right >= 0;
    int64_t right = spec->causal ? 0 : spec->window_right;
    *first = 0;
    *last = sequence->rows_k;
    if (bounded_left) {
        *first = clamp(i + offset - spec->window_left, 0, sequence->rows_k);
    }
    if (spec->causal || bounded_right) {
        *last = clamp(i + offset + right + 1, 0, sequence->rows_k);
    }
}

/* The first query, from 0 to rows_q, whose range of keys ends (or, else, begins) behind key j: both ends only move forward. */
static int64_t query_behind(const struct reference_problem *problem, const struct reference_sequence *sequence,
                            int64_t j, bool ends)
{
    int64_t low = 0;
    int64_t high = sequence->rows_q;
    while (low < high) {
        int64_t middle = low + (high - low) / 2;
        int64_t first, last;
        reference_visible(problem, sequence, middle, &first, &last);
        if ((ends ? last : first) > j) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    return low;
}

void reference_seeing(const struct reference_problem *problem, const struct reference_sequence *sequence, int64_t j,
                      int64_t *first, int64_t *last)
{
    *first = query_behind(problem, sequence, j, true);
    *last = query_behind(problem, sequence, j, false);
}

int64_t reference_visible_pairs(const struct reference_problem *problem)
{
    int64_t pairs = 0;
    for (int64_t b = 0; b < problem->args->batch; b++) {
        struct reference_sequence sequence = reference_sequence_find(problem, b);
        for (int64_t i = 0; i < sequence.rows_q; i++) {
            int64_t first, last;
            reference_visible(problem, &sequence, i, &first, &last);
            pairs += last > first ? last - first : 0;
        }
    }
    return pairs * problem->args->heads_q;
}

bool problem_blocks_list(const struct reference_problem *problem, bool of_keys, struct reference_block **blocks,
                         int64_t *count)
{
    int64_t heads = of_keys ? problem->args->heads_k : problem->args->heads_q;
    int64_t total = 0;
    for (int64_t b = 0; b < problem->args->batch; b++) {
        struct reference_sequence sequence = reference_sequence_find(problem, b);
        int64_t rows = of_keys ? sequence.rows_k : sequence.rows_q;
        total += (rows + REFERENCE_BLOCK_ROWS - 1) / REFERENCE_BLOCK_ROWS * heads;
    }
    struct reference_block *list = malloc(sizeof *list * (size_t)(total > 0 ? total : 1));
    if (!list) {
        return false;
    }
    int64_t filled = 0;
    for (int64_t b = 0; b < problem->args->batch; b++) {
        struct reference_sequence sequence = reference_sequence_find(problem, b);
        int64_t rows = of_keys ? sequence.rows_k : sequence.rows_q;
        for (int64_t head = 0; head < heads; head++) {
            for (int64_t row = 0; row < rows; row += REFERENCE_BLOCK_ROWS) {
                struct reference_block block = {b, head, row,
                                                rows - row < REFERENCE_BLOCK_ROWS ? rows - row : REFERENCE_BLOCK_ROWS};
                list[filled++] = block;
            }
        }
    }
    *blocks = list;
    *count = total;
    return true;
}

bool reference_blocks_list(const struct reference_problem *problem, struct reference_block **blocks, int64_t *count)
{
    return problem_blocks_list(problem, false, blocks, count);
}

bool reference_key_blocks_list(const struct reference_problem *problem, struct reference_block **blocks, int64_t *count)
{
    return problem_blocks_list(problem, true, blocks, count);
}
