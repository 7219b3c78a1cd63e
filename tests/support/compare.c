/*
 * The accuracy rule. See compare.h.
 */
#include "tests/support/compare.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "tests/support/half.h"

void compare_init(struct compare *compare, int32_t dtype, double factor)
{
    *compare = (struct compare){.dtype = dtype, .input_dtype = dtype, .factor = factor};
}

/* An element: how far it is off, beyond its allowance. */
struct element {
    double error, ours, exact, allowance;
    struct compare_place place;
};

static void group_take_error(struct compare_group *group, const struct element *element)
{
    /* Written so that a NaN error, which compares false, cannot slip by: the first element always sets the place. */
    if (group->count == 0 || element->error > group->max_error) {
        group->max_error = element->error;
        group->place = element->place;
        group->ours = element->ours;
        group->exact = element->exact;
        group->allowance = element->allowance;
    }
}

static double group_bound(const struct compare *compare, const struct compare_group *group)
{
    return compare->factor * group->max_eager_error + dtype_ulp(compare->dtype, group->max_exact);
}

void compare_add(struct compare *compare, double ours, double exact, double eager, struct compare_place place)
{
    compare_add_allowed(compare, ours, exact, eager, (struct compare_allowance){0, 0}, place);
}

void compare_add_allowed(struct compare *compare, double ours, double exact, double eager,
                         struct compare_allowance allowance, struct compare_place place)
{
    struct compare_group *group = &compare->group;
    if (!isfinite(eager) || !isfinite(dtype_round(compare->dtype, exact))) {
        compare->overflowing++;
        compare->count++;
        return;
    }
    double error = fabs(ours - exact);
    if (!isfinite(ours)) {
        compare->broken++;
        error = (double)INFINITY;
    }
    double all = allowance.kink + allowance.inexact;
    double excuse = isfinite(all) ? fmin(all, error) : 0;
    struct element element = {isfinite(error) ? error - excuse : error, ours, exact, excuse, place};
    group_take_error(group, &element);
    group->max_eager_error = fmax(group->max_eager_error, fabs(eager - exact));
    group->max_exact = fmax(group->max_exact, fabs(exact));
    group->count++;
    compare->allowed += allowance.kink > 0 ? 1 : 0;
    compare->excused += all > 0 && error > group_bound(compare, group) ? 1 : 0;
    compare->count++;
    compare->error_squares += error * error;
    compare->exact_squares += exact * exact;
}

void compare_add_zero(struct compare *compare, double ours, struct compare_place place)
{
    double error = fabs(ours);
    if (ours != 0 || signbit(ours)) {
        compare->broken++;
        error = (double)INFINITY;
    }
    struct element element = {error, ours, 0, 0, place};
    group_take_error(&compare->group, &element);
    compare->group.count++;
    compare->count++;
    compare->error_squares += error * error;
}

static void group_judge(struct compare *compare, const struct compare_group *group, double bound)
{
    double ratio = group->max_error / bound;
    if (compare->worst.count == 0 || ratio > compare->worst_ratio) {
        compare->worst = *group;
        compare->worst_bound = bound;
        compare->worst_ratio = ratio;
    }
}

static void pool_take(struct compare_group *pool, const struct compare_group *group)
{
    struct element element = {group->max_error, group->ours, group->exact, group->allowance, group->place};
    group_take_error(pool, &element);
    pool->max_eager_error = fmax(pool->max_eager_error, group->max_eager_error);
    pool->max_exact = fmax(pool->max_exact, group->max_exact);
    pool->count += group->count;
}

void compare_add_pairs(struct compare *compare, int64_t pairs)
{
    compare->group.pairs += pairs;
}

void compare_group_end(struct compare *compare)
{
    bool few_pairs = compare->group.pairs > 0 && compare->group.pairs < COMPARE_POOL_BELOW_PAIRS;
    if (compare->group.count >= COMPARE_POOL_BELOW && !few_pairs) {
        group_judge(compare, &compare->group, group_bound(compare, &compare->group));
    } else if (compare->group.count > 0) {
        pool_take(&compare->pool, &compare->group);
    }
    compare->group = (struct compare_group){0};
}

void compare_finish(struct compare *compare)
{
    compare_group_end(compare);
    if (compare->pool.count > 0) {
        double ulp = dtype_ulp(compare->dtype, compare->pool.max_exact);
        double input_ulp = dtype_ulp(compare->input_dtype, compare->pool.max_exact);
        group_judge(compare, &compare->pool, group_bound(compare, &compare->pool) + fmax(input_ulp - ulp, 0));
    }
    compare->pool = (struct compare_group){0};
}

bool compare_holds(const struct compare *compare)
{
    return compare->broken == 0 && compare->overflowing == 0 && compare->worst_ratio <= 1;
}

double compare_frobenius(const struct compare *compare)
{
    if (compare->exact_squares == 0) {
        return 0;
    }
    return sqrt(compare->error_squares / compare->exact_squares);
}

void compare_explain(const struct compare *compare, char *text, size_t capacity)
{
    const struct compare_group *worst = &compare->worst;
    if (compare_holds(compare)) {
        snprintf(text, capacity, "%s", "");
    } else if (compare->overflowing > 0) {
        snprintf(text, capacity,
                 "%" PRId64 " of %" PRId64 " expected elements do not fit %s: the data is too large for this check",
                 compare->overflowing, compare->count, dtype_name(compare->dtype));
    } else {
        snprintf(text, capacity,
                 "sequence %" PRId64 " head %" PRId64 " row %" PRId64 " column %" PRId64
                 ": got %.9g, expected %.9g, error %.3g, allowed %.3g; %" PRId64 " of %" PRId64
                 " elements are not finite or not the zero they must be",
                 worst->place.sequence, worst->place.head, worst->place.row, worst->place.column, worst->ours,
                 worst->exact, worst->max_error + worst->allowance, compare->worst_bound + worst->allowance,
                 compare->broken, compare->count);
    }
}
