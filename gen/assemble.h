/*
 * Source of a kernel: templates (embedded at build time by gen/embed.c) + options + constants -> one flat CUDA file.
 * Directives, includes and the config block are described in templates/README.md.
 */
#ifndef GDPA_GEN_ASSEMBLE_H
#define GDPA_GEN_ASSEMBLE_H

#include "gen/plan.h"

/* Version of the generator and of all templates and tables together: 32 hex digits, made at build time. */
const char *generator_id(void);

/* Entry symbol: gdpa_fwd_sm90_d128_bf16_relu_..._<8 hex digits of the hash of spec, plan and generator_id>. */
void kernel_name(const gdpa_spec *normalised, const struct kernel_plan *plan, struct sbuf *name);

/* The whole source. Deterministic. */
gdpa_status source_generate(const gdpa_spec *normalised, const struct kernel_plan *plan, struct sbuf *source,
                            struct sbuf *why);

/* XXH3-128 of a source as 32 hex digits and a final 0. */
void source_hash(const char *source, size_t length, char hex[33]);

#endif
