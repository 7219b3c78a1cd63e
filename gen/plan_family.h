/*
 * What plan.c asks of a kernel family. A new family is a file plan_<name>.c with these functions and a row in plan.c, and so is
 * a pass of one that is there.
 */
#ifndef GDPA_GEN_PLAN_FAMILY_H
#define GDPA_GEN_PLAN_FAMILY_H

#include "gen/plan.h"
#include "gen/tables.h"

struct plan_family {
    int32_t pass;   /* gdpa_pass: a family has one of these structs for each pass it can run */
    int32_t number; /* enum kernel_family */
    const char *name;
    const char *entry; /* template with the entry function */
    int32_t cluster;   /* blocks that belong together; 0: each is alone */

    /* NULL; or why a plan never takes the family by itself, and whether it is the one for such lengths. */
    const char *by_request;
    bool (*suits)(const gdpa_spec *spec, const struct plan_lengths *lengths);
    /* Why the family has no kernel for a spec with an arch; NULL: it has one. */
    const char *(*refusal)(const gdpa_spec *spec);
    /* Fills a plan whose family is set, with a reason for each choice. */
    gdpa_status (*make)(const gdpa_spec *spec, struct kernel_plan *plan, struct sbuf *reasons, struct sbuf *why);
    /* What the family's template asks of a plan, beyond what every plan must hold. */
    gdpa_status (*check)(const gdpa_spec *spec, const struct kernel_plan *plan, struct sbuf *why);
    int64_t (*smem_bytes)(const gdpa_spec *spec, const struct kernel_plan *plan);
    int32_t (*registers)(const gdpa_spec *spec, const struct kernel_plan *plan);
};

extern const struct plan_family plan_portable;
extern const struct plan_family plan_short;
extern const struct plan_family plan_stream;
extern const struct plan_family plan_sm90;
extern const struct plan_family plan_bwd_portable;
extern const struct plan_family plan_bwd_sm90;
extern const struct plan_family plan_bwd_whole;
extern const struct plan_family plan_bwd_pairs;

/* The second kernel of a backward pass, but for that of a deterministic one of sm90 (plan_bwd_portable.c): its fields, once block_m and block_n are chosen. */
void plan_choose_second(const gdpa_spec *spec, struct kernel_plan *plan, const struct arch_row *arch,
                        struct sbuf *reasons);
gdpa_status plan_check_second(const gdpa_spec *spec, const struct kernel_plan *plan, struct sbuf *why);

/* The narrowest width of wgmma that holds so many columns, 0 when there is none; and whether they are one (plan_sm90.c). */
int32_t plan_wgmma_width(int32_t columns);
bool plan_is_wgmma_width(int32_t columns);

/* How many blocks of a plan an SM holds, by what ends first, and the registers of a thread that were reckoned with. */
struct plan_residents {
    int32_t registers, by_registers, by_memory;
};

/* Of a plan whose threads and smem_bytes are set, `most_warps` an SM; fills its min_blocks (plan.c). */
struct plan_residents plan_fill_sm(struct kernel_plan *plan, int32_t registers, const struct arch_row *arch,
                                   int32_t most_warps);

/* Shared memory that each resident block costs beyond what it asks for, on every arch of the table. */
enum { SMEM_RESERVED_BYTES = 1024 };

#endif
