/*
 * Arguments -> kernel parameters and grid of a forward. No driver in here: the emulator and the tests use it as the launch does.
 */
#ifndef GDPA_RUNTIME_LAUNCH_PARAMS_H
#define GDPA_RUNTIME_LAUNCH_PARAMS_H

#include "gen/plan.h"
#include "runtime/tensor_box.h"
#include "templates/params.h"

struct launch_shape {
    struct gdpa_fwd_params params;
    uint32_t grid;      /* blocks in x; 0: nothing to do, nothing is launched */
    uint32_t grid_y;    /* 1, but for launches of more than 2^31-1 blocks */
    uint32_t block;     /* threads */
    uint32_t smem;      /* dynamic bytes */
    bool persistent;    /* blocks loop over the tiles: as many as there are SMs are enough */
    bool boxed;         /* the kernel takes a gdpa_fwd_sm90_params, with the tensor maps of the boxes */
    uint32_t sm_margin; /* multiprocessors that a persistent kernel leaves free */
    size_t schedule;    /* bytes of the schedule that the kernel needs; params.schedule is what the caller gave */
    size_t schedule_given;
    struct tensor_box boxes[TENSOR_BOX_COUNT];
};

/* Checks every argument against the spec (spec.md section 6) and fills *shape; untouched on failure. Sets the last error. */
gdpa_status launch_shape_fill(const gdpa_spec *normalised, const struct kernel_plan *plan, const gdpa_args *args,
                              struct launch_shape *shape);

/*
 * The grid of a persistent kernel on a device with so many multiprocessors, and how its blocks share the tiles. Does nothing to
 * other kernels.
 */
void launch_shape_fit(struct launch_shape *shape, const struct kernel_plan *plan, uint32_t multiprocessors);

/* What the making of a schedule reads of the parameters; the rest is 0. */
gdpa_status schedule_params_fill(const gdpa_spec *normalised, const gdpa_args *args, struct gdpa_fwd_params *params);

#endif
