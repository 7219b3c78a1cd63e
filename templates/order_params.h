/*
 * The order in which the blocks of the Hopper backward take key tiles (templates/bwd_scout_sm90.cuh), as the host says it; shared by host C and
 * generated CUDA like templates/params.h.
 */
#ifndef GDPA_TEMPLATES_ORDER_PARAMS_H
#define GDPA_TEMPLATES_ORDER_PARAMS_H

#include "params.h"

#define GDPA_BWD_MOST_SHARED 8 /* tiles that several blocks have */
/* Bytes of the counter of claims and of those of the warps that share tiles, behind which the records lie. */
#define GDPA_BWD_COUNTER_BYTES 512

struct gdpa_bwd_order {
    uint32_t *counter; /* of the numbers that are claimed, and others behind it, zeros at the start; null: each block has numbers of its own */
    float *records;    /* sums of tiles that several blocks have */
    int64_t num_numbers;
    int64_t first_shared; /* tiles from this one on have `pieces` numbers each, the others one */
    int32_t pieces;
    int32_t turns; /* (sequence, kv head) pairs whose tiles take turns; direct mapping only */
    //@if listed
    uint32_t *schedule; /* templates/schedule_format.h; last, so that kernels without one do not have it */
    //@endif
};

struct gdpa_bwd_sm90_main_params {
    struct gdpa_bwd_sm90_params tiles;
    struct gdpa_bwd_order order;
};

#endif
