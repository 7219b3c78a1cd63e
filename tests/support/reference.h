/*
 * The operator in float64, forward and backward, in the words of the specification:
 *
 *     S[i,j] = scale * <q_i, k_j>     P[i,j] = M[i,j] * f(S[i,j])     O[i,:] = out_scale * sum_j P[i,j] * v_j
 *     dV = out_scale * P^T dO         dS = out_scale * scale * M * f'(S) * (dO V^T)     dQ = dS K      dK = dS^T Q
 *
 * It takes the structs of gdpajit.h with HOST pointers everywhere (cu_seqlens and seqused too) and reads them as the
 * header says: layouts, strides, clamped offsets, seqused, both alignments, causal and windows, grouped heads. It
 * shares no code with the generator and ignores max_seqlen. Elements inside sequences must be finite.
 *
 * Beside the exact result it can give the "eager" one: the same formulas evaluated as bf16 or fp16 tensors would be, S
 * and P (and in the backward dP and dS) rounded to the input type, exact sums, and one last rounding to the output
 * type. Its distance from the exact result is the yardstick of the accuracy rule (tests/support/compare.h). The f and f'
 * of an activation of kind APPROX are moved by their stated bound in it, up or down at random.
 *
 * Where f' jumps (relu at 0), a score that is as near as fp32 sums of products may be wrong can fall on either side of the kink in a
 * correct kernel, and then a whole dP times k is or is not in dq. The third result, "allowed", is what such pairs may add to the error of
 * each element of dq and dk:
 *
 *     sum over pairs with |S - kink| < window of |jump of f'| |scale out_scale| |dP| |element of k or q|
 *
 * It is 0 in nearly all elements, and in all of an activation without a jump. But sequences of at most 16 pairs are allowed more, in all elements:
 * how far off the eager result is there is a draw of chance, so each pair may be off by what rounding leaves open, h = 2^-8 in bf16 and 2^-11 in
 * fp16,
 *
 *     sum over pairs of h |scale out_scale| |dP| (1/2 + |f'|) |element of k or q|
 *
 * The fourth result, "inexact", is what an exact activation in whose f or f' fp32 numbers cancel may be off by beyond the roundings of the
 * eager result. Its bound is 2^-10 |f| + 2^-14 and the same for f', and while the first term is less than those roundings, the second is more than
 * all of f or f' where they are small (tanh'(7) = 3e-6). So each visible pair may be off by 2^-14, at random:
 *
 *     o and dv    2^-14 |out_scale| root of the sum over pairs of (element of v or dO)^2
 *     dq and dk   2^-14 |scale out_scale| root of the sum over pairs of (dP times element of k or q)^2
 *
 * Where many pairs are added up, or f' is not small in all of them, this is little beside the error of the eager result. It is 0 for activations
 * that are right to a few ulps however small they are (polynomials piece by piece, exp), and for those of kind APPROX, whose bound the eager result has
 * in it.
 *
 * Results are packed arrays [rows][heads][dimension] over all rows of the tensor; rows outside every sequence are left
 * untouched:
 *     o    [batch * seqlen_q or total_q][heads_q][head_dim_v]      dk   [batch * seqlen_k or total_k][heads_k][head_dim]
 *     dq   [batch * seqlen_q or total_q][heads_q][head_dim]        dv   [batch * seqlen_k or total_k][heads_k][head_dim_v]
 */
#ifndef GDPA_TESTS_SUPPORT_REFERENCE_H
#define GDPA_TESTS_SUPPORT_REFERENCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "include/gdpajit.h"

struct reference_problem {
    const gdpa_spec *spec; /* arch, schedule, deterministic, unaligned do not matter; pass neither */
    const gdpa_args *args; /* host pointers; o is not read */
    gdpa_tensor d_out;     /* backward: dO, laid out like o; dtype 0: that of q */
    int threads;           /* 0: one a processor */
};

/* Where a sequence lies. Row numbers count from the tensor's first row, in dense layout over all sequences. */
struct reference_sequence {
    int64_t first_q, rows_q;
    int64_t first_k, rows_k;
};
struct reference_sequence reference_sequence_find(const struct reference_problem *problem, int64_t sequence);

/* Elements of the four results, and the dimensions they are made of. */
struct reference_sizes {
    int64_t rows_q, rows_k; /* of the tensors, rows outside sequences included */
    int64_t head_dim, head_dim_v;
    int64_t o, dq, dk, dv;
};
struct reference_sizes reference_sizes_find(const struct reference_problem *problem);

/* The keys [*first, *last) of its own sequence that query row i sees; *first >= *last when there is none. */
void reference_visible(const struct reference_problem *problem, const struct reference_sequence *sequence, int64_t i,
                       int64_t *first, int64_t *last);

/* The queries [*first, *last) of its own sequence that see key j; *first >= *last when there is none. */
void reference_seeing(const struct reference_problem *problem, const struct reference_sequence *sequence, int64_t j,
                      int64_t *first, int64_t *last);

/* Pairs of query and key that are visible, over all sequences and query heads. */
int64_t reference_visible_pairs(const struct reference_problem *problem);

/* O. eager_o and inexact_o may be NULL. Returns false when there is no memory. */
bool reference_forward(const struct reference_problem *problem, double *o, double *eager_o, double *inexact_o);

/* Rows first_row .. first_row + rows of one sequence and query head, at most REFERENCE_BLOCK_ROWS of them. */
struct reference_block {
    int64_t sequence, head, first_row, rows;
};
enum {
    REFERENCE_BLOCK_ROWS = 64,
};

/* All blocks of a problem; *blocks is freed by the caller. False when there is no memory. */
bool reference_blocks_list(const struct reference_problem *problem, struct reference_block **blocks, int64_t *count);

/*
 * O of some blocks only. Block n goes to o[n * REFERENCE_BLOCK_ROWS * head_dim_v ...], packed [rows][head_dim_v].
 */
bool reference_forward_blocks(const struct reference_problem *problem, const struct reference_block *blocks,
                              int64_t count, double *o, double *eager_o, double *inexact_o);

/* The three gradients; each array may be NULL. No dv of `allowed` is written: f itself does not jump. */
struct reference_gradients {
    double *dq, *dk, *dv;
};
bool reference_backward(const struct reference_problem *problem, struct reference_gradients exact,
                        struct reference_gradients eager, struct reference_gradients allowed,
                        struct reference_gradients inexact);

/* Blocks of the key side: rows are keys, and heads those of k and v. */
bool reference_key_blocks_list(const struct reference_problem *problem, struct reference_block **blocks,
                               int64_t *count);

/*
 * dQ of some blocks (of_keys false), or dK and dV of some blocks of keys. Block n goes to dq[n * REFERENCE_BLOCK_ROWS * head_dim ...] and
 * likewise, packed [rows][dimension].
 */
bool reference_backward_blocks(const struct reference_problem *problem, bool of_keys,
                               const struct reference_block *blocks, int64_t count, struct reference_gradients exact,
                               struct reference_gradients eager, struct reference_gradients allowed,
                               struct reference_gradients inexact);

/* f and f' by number (gdpa_activation); parameter as in activation_param. NaN for a number that is none. */
double reference_activation(int32_t activation, double x, double parameter);
double reference_derivative(int32_t activation, double x, double parameter);

/* How far f and f' of an exact activation may be off where they are next to 0, because others cancel there in fp32; 0 for all others. */
double reference_inexactness(int32_t activation);

/* By how much f' jumps at the kinks that are nearer to x than window (and the fp32 rounding of x there); 0 when there is none. */
double reference_jump(int32_t activation, double x, double window, double parameter);
bool reference_has_jump(int32_t activation, double parameter);

/*
 * How far an fp32 sum of `dim` products may be off, in any order and with the truncation of tensor cores, for products whose squares add up to
 * `squares`. The sums behind a score walk at random, so that this is 2^-24 sqrt(dim) of the norm of the products, times 8 for the largest of
 * millions; the worst case, dim times the sum of their magnitudes, is ten times as far and never seen (tests/tools/test_reference_kinks.c).
 */
double reference_window(int dim, double squares);

#endif
