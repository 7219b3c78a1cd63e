/*
 * Small problems for the tests of the reference: three sequences, one of them without queries, every mask and layout.
 */
#ifndef GDPA_TESTS_SUPPORT_REFERENCE_FIXTURE_H
#define GDPA_TESTS_SUPPORT_REFERENCE_FIXTURE_H

#include "tests/support/reference.h"

/* A problem with its memory. Tensors are fp32 or what dtype says, packed unless `odd_strides`. */
struct fixture {
    gdpa_spec spec;
    gdpa_args args;
    struct reference_problem problem;
    int32_t cu_q[8], cu_k[8], used_q[8], used_k[8];
};

enum {
    DIM = 8,
    DIM_V = 16,
};

/* What varies between problems. */
struct variant {
    const char *name;
    int32_t layout_q, layout_k;
    int32_t causal, align;
    bool has_left, has_right;
    int32_t left, right;
    int heads_q, heads_k;
    bool seqused, odd_strides;
};

extern const struct variant fixture_variants[];
extern const int fixture_variant_count;

/* Lengths of the three sequences of every jagged side, and what seqused leaves of them. */
extern const int32_t fixture_lengths_q[3], fixture_lengths_k[3], fixture_shortened_q[3], fixture_shortened_k[3];

/* malloc that ends the program when there is no memory. */
void *fixture_allocate(size_t bytes);

/* Random N(0, 1) elements with the strides set, or packed. data is freed by the caller. */
gdpa_tensor fixture_tensor(int32_t dtype, int64_t batch, int64_t rows, int64_t heads, int64_t dim, bool odd_strides,
                           uint64_t seed);

/* dtype: of q, k, v and dO; fp32 lets them be moved by small steps. Head dims DIM and DIM_V. */
void fixture_make(struct fixture *fixture, const struct variant *variant, int32_t activation, int32_t dtype);
void fixture_free(struct fixture *fixture);

/* The four results, filled with 12345. */
struct fixture_results {
    double *o, *dq, *dk, *dv;
};
struct fixture_results fixture_results_allocate(const struct reference_sizes *sizes);
void fixture_results_free(struct fixture_results *results);

#endif
