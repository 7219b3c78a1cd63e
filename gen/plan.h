/*
 * Plans: which kernel template runs a spec, with which tile sizes, and why. Pure arithmetic; one file a kernel family
 * and pass (plan_portable.c, plan_bwd_portable.c: mma.sync, sm_80 and later; plan_sm90.c: wgmma and TMA, sm_90a).
 */
#ifndef GDPA_GEN_PLAN_H
#define GDPA_GEN_PLAN_H

#include "gen/spec.h"

enum kernel_family {
    KERNEL_FAMILY_PORTABLE = GDPA_FAMILY_PORTABLE, /* templates/fwd_portable.cuh, bwd_portable.cuh */
    KERNEL_FAMILY_SM90 = GDPA_FAMILY_SM90,         /* templates/fwd_sm90.cuh, bwd_sm90.cuh */
    KERNEL_FAMILY_SHORT = GDPA_FAMILY_SHORT,       /* templates/fwd_short.cuh; no backward */
    KERNEL_FAMILY_STREAM = GDPA_FAMILY_STREAM,     /* templates/fwd_stream.cuh; no backward */
    KERNEL_FAMILY_WHOLE = GDPA_FAMILY_WHOLE,       /* templates/bwd_sm90.cuh, where a block has all keys; no forward */
    KERNEL_FAMILY_PAIRS = GDPA_FAMILY_PAIRS,       /* the same, where a cluster of two blocks has */
};

struct kernel_plan {
    int32_t family;  /* enum kernel_family */
    int32_t block_m; /* query rows a block; backward: a step of a block */
    int32_t block_n; /* keys a tile; backward: a block */
    int32_t warps;   /* a block; portable: each owns block_m / warps query rows; sm90: 4 of them feed the others */
    int32_t stages;  /* key/value tiles in shared memory at a time */
    int32_t q_in_registers; /* 1: Q fragments are loaded once; 0: re-read from shared memory for each key tile */
    int32_t slice_n;        /* keys that are activated and multiplied at a time, block_n or a part of it */
    int32_t threads;        /* a block */
    int32_t min_blocks;     /* a SM, for __launch_bounds__ */
    int32_t smem_bytes;     /* dynamic shared memory */
    /* sm90 only; 0 in the portable family. */
    int32_t query_stages;       /* query tiles in shared memory at a time */
    int32_t value_columns;      /* head_dim_v rounded up to a width of wgmma */
    int32_t producer_registers; /* a thread, after setmaxnreg */
    int32_t consumer_registers;
    /* Backward only; 0 in the forward. */
    int32_t slice_m;       /* portable: query rows whose scores a warp holds at a time */
    int32_t column_parts;  /* portable: warps that share keys and divide the columns of dK and dV among them */
    int32_t dq_threads;    /* of a block of the second kernel */
    int32_t dq_smem_bytes; /* dynamic shared memory of the same */
    int32_t depth_columns; /* sm90: head_dim rounded up to a width of wgmma */
    int32_t share_columns; /* sm90: columns of dQ that one of the two consumer warpgroups makes */
    /* Second kernel of a deterministic pass of sm90; 0 elsewhere, where it owns block_m query rows, in tiles of slice_n keys. */
    int32_t dq_rows;               /* query rows of a block, which loops over such tiles */
    int32_t dq_keys;               /* keys a tile, slice_n of which are graded and multiplied at a time */
    int32_t dq_key_stages;         /* key and value tiles in shared memory at a time */
    int32_t dq_producer_registers; /* a thread, after setmaxnreg */
    int32_t dq_consumer_registers;
    int32_t cluster; /* pairs: blocks that have neighbouring tiles of keys and share what they add to dQ; 0 elsewhere */
};

/* Whether a kernel copies through the copy engine and multiplies by warpgroups. */
bool plan_is_hopper(const struct kernel_plan *plan);

/* Whether a backward kernel has all keys of a sequence in one block or cluster, and so makes dQ without sums in memory. */
bool plan_has_all_keys(const struct kernel_plan *plan);

/* Whether the copy engine stores dQ: of such kernels those with results of 16 bits, where no two warpgroups have columns of one chunk. */
bool plan_stores_queries(const gdpa_spec *normalised, const struct kernel_plan *plan);

/* Keys of what the blocks of a backward are dealt out: a tile, or one for each block of a cluster. */
int32_t plan_tile_keys(const struct kernel_plan *plan);

/* Whether the family of a normalised spec has kernels for its pass, whatever the arch is. */
gdpa_status plan_check_pass(const gdpa_spec *normalised, struct sbuf *why);

/* The family that `auto` stands for, of a spec with an arch. */
int32_t plan_auto_family(const gdpa_spec *spec);

/* Beyond so many keys no family of a forward is chosen by lengths, and none of a backward. */
enum { PLAN_FEW_KEYS = 64, PLAN_PAIR_KEYS = 256 };

/*
 * What arguments say of the lengths: upper bounds, how many (sequence, head) pairs there are (heads of queries; of keys in a backward), and
 * how many keys a sequence has at most on average.
 */
struct plan_lengths {
    int64_t longest_q, longest_k, pairs, mean_k;
};

/*
 * The family that kernels for such lengths are better made with than by the plan's own choice, which knows the spec only: short or stream of
 * a forward, whole or pairs of a backward that has dq to make, or auto for none. Of any legal spec; one that names a family keeps it. Only
 * those of a backward ask for the arch.
 */
int32_t plan_family_for(const gdpa_spec *spec, const struct plan_lengths *lengths);

/* The plan of a normalised spec with an arch; `reasons` (may be NULL) gets a line for each choice. */
gdpa_status plan_make(const gdpa_spec *normalised, struct kernel_plan *plan, struct sbuf *reasons, struct sbuf *why);

/*
 * Whether a plan from elsewhere (a tuner's candidate) can run a normalised spec with an arch: sizes that the template can
 * do, shared memory and warps that the arch has. GDPA_OK or GDPA_E_ARGUMENT.
 */
gdpa_status plan_check(const gdpa_spec *normalised, const struct kernel_plan *plan, struct sbuf *why);

/* Dynamic shared memory of a plan, from block_m, block_n and stages. */
int64_t plan_smem_bytes(const gdpa_spec *normalised, const struct kernel_plan *plan);

/* Query rows of a tile of the second kernel of a backward. */
int32_t plan_second_rows(const struct kernel_plan *plan);

/* Whether a forward of sm90 asks for the values of a tile before the keys of the next one. */
bool plan_values_first(const gdpa_spec *normalised, const struct kernel_plan *plan);

/* About how many registers a thread needs; more than 255 will spill. */
int32_t plan_registers(const gdpa_spec *normalised, const struct kernel_plan *plan);

/* A head dim as the tiles hold it: columns up to a multiple of 32, in chunks of 64 where that divides, else of 32. */
int32_t plan_padded_dim(int32_t dim);

/* "portable". NULL for a number that is none. */
const char *plan_family_name(int32_t family);

/* "fwd_portable.cuh". NULL where the family has no kernel for the pass. */
const char *plan_family_template(int32_t pass, int32_t family);

/* "block_m: 128" lines, then the reasons. */
gdpa_status plan_print(const gdpa_spec *normalised, struct sbuf *text, struct sbuf *why);

/* The fields of a plan in one line: "portable block_m=128 ...". */
void plan_print_line(const struct kernel_plan *plan, struct sbuf *text);

#endif
