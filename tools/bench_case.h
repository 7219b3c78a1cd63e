/*
 * Cases of bench: a name says everything that is measured, and is the key of its record.
 *
 *     fwd/dense/d128/q4096/k4096/h16/b8/bf16/relu
 *     fwd/jagged/d128/q1024/k256/h4/b1152/bf16/fast_gelu/fill0.5
 *
 * Words, in this order when written, in any order when read (the first seven are needed):
 *     fwd bwd | dense jagged qjagged kjagged (that side only) | d<head_dim>[x<head_dim_v>] | q<rows> | k<rows> | h<heads_q>[x<heads_k>] | b<batch> |
 *     bf16 fp16 (default bf16) | <activation> | causal | w<left>,<right> (-1: unbounded) | top_left |
 *     fill<mean length over the maximum> | kvjagged (keys as long as the queries; else all k rows) | out<type> | portable sm90 short
 *     stream whole pairs (family; default auto) |
 *     others<rows> (all sequences but the middle one have so many) | static zigzag dynamic (schedule; default auto) | det
 *
 * Jagged lengths: fill 1 all at the maximum, 0.5 uniform on [1, maximum]; always the same ones for a seed.
 */
#ifndef GDPA_TOOLS_BENCH_CASE_H
#define GDPA_TOOLS_BENCH_CASE_H

#include "include/gdpajit.h"

#include <stdbool.h>

enum { BENCH_NAME = 192 };

struct bench_case {
    gdpa_spec spec;                                  /* arch 0 */
    const char *activation;                          /* its name; static */
    int64_t batch, rows_q, rows_k, heads_q, heads_k; /* rows: the maxima of jagged sides */
    double fill;
    bool keys_follow; /* kvjagged */
    int64_t others;   /* > 0: rows of all sequences but the middle one */
};

/* False, with the reason and the nearest word in why. */
bool bench_case_parse(const char *name, struct bench_case *parsed, char *why, size_t capacity);
void bench_case_name(const struct bench_case *named, char name[BENCH_NAME]);

/* The shape that a spec without one is measured on: 32,768 tokens in sequences of 4096, 2048 columns of q. */
void bench_case_of_spec(const gdpa_spec *spec, struct bench_case *made);

/* "jagged", "short" (fewer keys than queries) or "dense": how long the keys of a jagged case are. */
const char *bench_case_keys(const struct bench_case *named);

/* Lengths and what follows from them. */
struct bench_shape {
    gdpa_args args;                       /* extents, host cu_seqlens; no tensors */
    int32_t *cu_seqlens_q, *cu_seqlens_k; /* host, malloced; NULL for dense */
    double flops; /* useful: 2 (head_dim + head_dim_v) for each visible pair of query and key; */
                  /* backward: 2 (3 head_dim + 2 head_dim_v) */
    double bytes; /* q, k, v and o of all sequences once; backward: q, k, v, dout, dq, dk, dv */
};
bool bench_shape_make(const struct bench_case *named, uint64_t seed, struct bench_shape *shape);
void bench_shape_free(struct bench_shape *shape);

/* Named lists of cases. */
struct bench_suite {
    const char *name; /* NULL ends the table */
    const char *doc;
    const char *const *cases; /* NULL ends the list */
};
extern const struct bench_suite bench_suites[];
const struct bench_suite *bench_suite_find(const char *name);
void bench_suite_unknown(const char *name, char *why, size_t capacity);

#endif
