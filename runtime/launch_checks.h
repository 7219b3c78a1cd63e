/*
 * Checks of the arguments of a launch and what they mean, for both passes. No driver in here. All set the last error.
 */
#ifndef GDPA_RUNTIME_LAUNCH_CHECKS_H
#define GDPA_RUNTIME_LAUNCH_CHECKS_H

#include "gen/spec.h"

#include <stdint.h>

/* One tensor of a call, with its extents; a jagged one is a batch of 1. */
struct view {
    const char *name;
    const gdpa_tensor *tensor;
    bool jagged, output;
    int32_t dtype, element; /* legal type and its bytes */
    int64_t batch, rows, heads, dim;
};

/* In elements; 0 where the extent is 1 or less, so that no stride without meaning reaches the kernel. */
struct strides {
    int64_t batch, row, head;
};

struct views {
    struct view q, k, v, o;
    struct view dout, dq, dk, dv;
};

/* The numbers of a call, defaults filled in. */
struct scalars {
    float scale, out_scale, activation_param;
};

/* *args as this library knows it: itself, or *own. */
gdpa_status args_read(const gdpa_args **args, gdpa_args *own);

struct views views_make(const gdpa_spec *spec, const gdpa_args *args);
bool view_is_empty(const struct view *view);

/* Flags, sizes, offsets and lengths. */
gdpa_status sizes_check(const gdpa_spec *spec, const gdpa_args *args);

/* One tensor, and the strides that are used. untouched: no element of it will be read or written. */
gdpa_status tensor_check(const struct view *view, bool unaligned, bool untouched, struct strides *strides);

gdpa_status scalars_fill(const gdpa_spec *spec, const gdpa_args *args, struct scalars *scalars);

/* The name of a tensor of args that needs spec.unaligned; NULL: none does. */
const char *args_unaligned_tensor(const gdpa_spec *spec, const gdpa_args *args);

/* Refuses, naming the tensor, where the spec asks for a family by name that cannot take one that args_unaligned_tensor found. */
gdpa_status unaligned_family_check(const gdpa_spec *spec, const char *tensor);

static inline bool args_are_unaligned(const gdpa_spec *spec, const gdpa_args *args)
{
    return args_unaligned_tensor(spec, args) != NULL;
}

/*
 * Whether a launch follows the schedule of its arguments although the spec leaves the choice. Dense sequences without used lengths are
 * alike: there the order that needs none is as even.
 */
bool schedule_is_followed(const gdpa_spec *spec, const gdpa_args *args);

/* The most rows that a sequence of one side may have, as the host knows it. */
static inline int64_t longest_rows(bool jagged, int64_t seqlen, int64_t total, int64_t max_seqlen)
{
    return !jagged ? seqlen : max_seqlen > 0 && max_seqlen < total ? max_seqlen : total;
}

#define GRID_LIMIT INT64_C(2147483647)    /* largest grid.x; more tiles take a second dimension */
#define SCHEDULE_LIMIT (INT64_C(1) << 30) /* sequences of a schedule, and places that are counted in it */

int64_t divide_up(int64_t value, int64_t divisor);

/* How many of so many multiprocessors a persistent kernel takes. */
static inline uint32_t without_margin(uint32_t multiprocessors, uint32_t margin)
{
    return margin < multiprocessors ? multiprocessors - margin : 1;
}

/* Blocks for so many tiles of `rows` rows; grid 0: nothing to do. */
gdpa_status grid_fill(int64_t tiles, const char *kind, int32_t rows, uint32_t *grid, uint32_t *grid_y);

#endif
