/*
 * Arguments -> kernel parameters, grids and workspace of a backward. No driver in here: the emulator and the tests use it as the launch
 * does.
 */
#ifndef GDPA_RUNTIME_BACKWARD_PARAMS_H
#define GDPA_RUNTIME_BACKWARD_PARAMS_H

#include "gen/plan.h"
#include "runtime/tensor_box.h"
#include "templates/order_params.h"

struct backward_grid {
    uint32_t x; /* blocks; 0: the kernel is not launched */
    uint32_t y;
    uint32_t block; /* threads */
    uint32_t smem;  /* dynamic bytes */
};

struct backward_shape {
    struct gdpa_bwd_params params; /* dq_sum is set by backward_shape_place */
    struct backward_grid main;     /* dK, dV and, but in a deterministic kernel, dQ or its sums */
    struct backward_grid second;   /* dQ from the sums, or from scratch */
    size_t workspace;              /* bytes: the sums of dQ, then what the order of the main kernel needs */
    size_t sums;                   /* bytes of the sums; where that is 0 the kernels do without a workspace, too */
    size_t zeros;                  /* bytes at the start of the workspace to be filled with zeros first */
    bool ordered;                  /* numbers are claimed; see gdpa_bwd_order for these: */
    bool shares;                   /* the last tiles may be shared */
    int64_t num_numbers;
    int64_t first_shared;
    int32_t pieces;
    int32_t turns;
    void *memory;   /* the workspace */
    void *schedule; /* of the arguments, where the main kernel reads one, or NULL */
    size_t schedule_given;
    size_t schedule_bytes; /* that it needs; 0: it reads none */
    uint32_t cluster;      /* blocks of the main kernel that belong together; its grid counts blocks */
    uint32_t sm_margin;    /* multiprocessors that persistent kernels leave free */
    bool persistent;       /* blocks of the main kernel loop over its tiles */
    bool boxed;            /* the main kernel takes a gdpa_bwd_sm90_main_params, with the maps of the boxes */
    struct tensor_box boxes[BACKWARD_BOX_COUNT];
    bool second_boxed; /* the second kernel too, with boxes of its own; its blocks loop over its tiles */
    struct tensor_box second_boxes[BACKWARD_BOX_COUNT];
};

/* Checks every argument against the spec (spec.md section 6) and fills *shape; untouched on failure. Sets the last error. */
gdpa_status backward_shape_fill(const gdpa_spec *normalised, const struct kernel_plan *plan, const gdpa_args *args,
                                struct backward_shape *shape);

/* Where the workspace is; NULL where none is needed, though some was asked for. Before backward_shape_fit. */
void backward_shape_place(struct backward_shape *shape, void *workspace);

/* What a kernel with tensor maps is given besides them: the main one all of it, a second one `tiles`. After backward_shape_fit. */
void backward_boxed_fill(const struct backward_shape *shape, struct gdpa_bwd_sm90_main_params *boxed);

/* The grids of persistent kernels, and the order of their work, on a device with so many multiprocessors. Does nothing to other kernels. */
void backward_shape_fit(struct backward_shape *shape, uint32_t multiprocessors);

#endif
