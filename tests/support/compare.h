/*
 * The accuracy rule: ours is right when
 *
 *     max |ours - exact|  <=  factor * max |eager - exact|  +  1 ulp
 *
 * with factor 2 for a forward and 3 for gradients; exact and eager come from tests/support/reference.h. The ulp is that
 * of the output type at the magnitude of the largest exact element (of the smallest normal number, if that is larger).
 * An element whose gradient hangs on a score at a kink of the activation is allowed to be off by what the reference says,
 * too. How many are, and how many made use of it, is counted: they must be few, or the check would hide faults. Every element may be off by what the
 * reference says that the bound of an exact activation makes of it, which is little unless few pairs with a tiny f or f' make the element.
 *
 * The maxima are taken over one group at a time, so that a large sequence does not hide an error in a small one. Groups
 * with fewer than COMPARE_POOL_BELOW elements, or fewer than COMPARE_POOL_BELOW_PAIRS visible pairs of query and key where
 * these are told, have an eager error that may be small by luck. They are pooled into one, whose ulp is that of the input
 * type where that is larger: with a single key the result is one P times v, and P has that rounding.
 */
#ifndef GDPA_TESTS_SUPPORT_COMPARE_H
#define GDPA_TESTS_SUPPORT_COMPARE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    COMPARE_POOL_BELOW = 1024,
    COMPARE_POOL_BELOW_PAIRS = 512,
};

/* Where an element is, for messages. */
struct compare_place {
    int64_t sequence, head, row, column;
};

struct compare_group {
    int64_t count;
    int64_t pairs;    /* 0: not told */
    double max_error; /* beyond what the element is allowed */
    double max_eager_error, max_exact;
    struct compare_place place;    /* of max_error */
    double ours, exact, allowance; /* there */
};

struct compare {
    int32_t dtype;       /* of the output */
    int32_t input_dtype; /* the same, unless it is set after compare_init */
    double factor;
    struct compare_group group, pool;
    /* Results, complete after compare_finish. */
    struct compare_group worst; /* the group with the largest max_error / bound */
    double worst_bound;
    double worst_ratio; /* of that group, at most 1 when the rule holds */
    int64_t count;      /* elements compared */
    int64_t allowed;    /* of them, those at a kink */
    int64_t excused; /* those that were beyond the bound, as it stood when they came, without what they are allowed */
    int64_t broken;  /* not finite, or not the zero that they must be */
    int64_t overflowing;  /* the exact or eager result does not fit the type: nothing can be said, choose other data */
    double error_squares; /* sums over all elements, for the Frobenius norms */
    double exact_squares;
};

void compare_init(struct compare *compare, int32_t dtype, double factor);

/* One element. */
void compare_add(struct compare *compare, double ours, double exact, double eager, struct compare_place place);

/* What the reference says of an element: see "allowed" and "inexact" there. */
struct compare_allowance {
    double kink;    /* 0 for most */
    double inexact; /* 0 for many activations */
};

/* One element that is allowed so much more. */
void compare_add_allowed(struct compare *compare, double ours, double exact, double eager,
                         struct compare_allowance allowance, struct compare_place place);

/* The elements of a row come from so many visible keys. Optional. */
void compare_add_pairs(struct compare *compare, int64_t pairs);

/* One element that must be +0, bit for bit. */
void compare_add_zero(struct compare *compare, double ours, struct compare_place place);

/* Ends a group; the next element starts another. */
void compare_group_end(struct compare *compare);

/* Ends the last group and the pool. */
void compare_finish(struct compare *compare);

/* Whether the rule held for every group and nothing was broken or overflowing. */
bool compare_holds(const struct compare *compare);

/* |ours - exact| / |exact| in the Frobenius norm; 0 when all exact elements are 0. */
double compare_frobenius(const struct compare *compare);

/* What is wrong, in words, for a failure; "" when the rule holds. At most capacity bytes with the final 0. */
void compare_explain(const struct compare *compare, char *text, size_t capacity);

#endif
