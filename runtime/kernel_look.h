/*
 * Looking for one kernel in packs and the disk cache; of kernel_job.c, which knows what to do with a miss.
 */
#ifndef GDPA_RUNTIME_KERNEL_LOOK_H
#define GDPA_RUNTIME_KERNEL_LOOK_H

#include "runtime/kernel.h"

/* One kernel on its way. */
struct job {
    gdpa_ctx *ctx;
    const gdpa_spec *spec; /* normalised, with its arch */
    const struct arch_row *arch;
    struct kernel_plan plan;
    struct sbuf source, name, spec_text;
    struct sbuf why;
    char source_hash[33];
    double generate_ms;
    const struct nvrtc *nvrtc; /* NULL: there is none for this arch */
    gdpa_status nvrtc_status;
    struct sbuf nvrtc_why;
    struct cache_key key; /* with a compiler only */
    uint8_t *material;
    size_t material_size;
    const struct cache *found_in; /* cache or pack */
    const gdpa_kernel *refused;   /* this kernel is made in its place: the driver refuses its code; else NULL */
};

/* GDPA_E_NOT_FOUND: a miss. */
gdpa_status job_look_up(struct job *job, gdpa_kernel **kernel);

/* In the cache alone, by the exact key, and not the code that was refused. */
gdpa_status job_look_up_anew(struct job *job, gdpa_kernel **kernel);

#endif
