/*
 * Making one kernel, by whichever way is shortest: the disk cache, else NVRTC. Called once a kernel and context.
 *
 *     source ──> key ──> disk, by the exact key, or by the source alone where there is no compiler ──> kernel
 *                          └─> NVRTC ──> disk ───────────────────────────────────────────────────────────┘
 *
 * What the key is made of: docs/decisions/060-cache-lookup-without-nvrtc.md.
 */
#ifndef GDPA_RUNTIME_KERNEL_JOB_H
#define GDPA_RUNTIME_KERNEL_JOB_H

#include "runtime/kernel.h"

/* The kernel of a normalised spec with its arch; nobody holds it yet. The reason of a failure is in `why`. */
gdpa_status kernel_produce(gdpa_ctx *ctx, const gdpa_spec *spec, gdpa_kernel **kernel, struct sbuf *why);

/*
 * The same kernel with other code than that, which the driver refused: of an older NVRTC where the one at hand is newer
 * than the driver. What this process compiled itself is not compiled again by the same NVRTC. An entry with the refused
 * code is replaced where the compiler now gives other code, else it is left: it is right, and another driver may take it.
 */
gdpa_status kernel_remake(const gdpa_kernel *refused, const struct driver *driver, gdpa_kernel **kernel,
                          struct sbuf *why);

/* What a kernel is looked for by, and where it is found. */
struct kernel_identity {
    struct sbuf name, source, spec_text;
    struct cache_key key; /* where there is material */
    struct cache_bytes material;
    const struct cache *found_in; /* cache or pack; NULL: it would be compiled */
    struct sbuf no_key;           /* why there is none: the compiler is missing */
};

/* The identity is to be freed in every case. */
gdpa_status kernel_identify(gdpa_ctx *ctx, const gdpa_spec *spec, struct kernel_identity *identity, struct sbuf *why);
void kernel_identity_deinit(struct kernel_identity *identity);

#endif
