/*
 * Source of a kernel: templates (embedded at build time by gen/embed.c) + options + constants -> one flat CUDA file.
 * Directives, includes and the config block are described in templates/README.md.
 *
 * A source is a provenance comment and a body. The comment names the generator; the body, and with it the kernel name and
 * the source hash, changes only when the code of this kernel does: records made for a kernel outlive other changes.
 */
#ifndef GDPA_GEN_ASSEMBLE_H
#define GDPA_GEN_ASSEMBLE_H

#include "gen/plan.h"
#include "gen/template.h"

/* Version of the generator and of all templates and tables together: 32 hex digits, made at build time. */
const char *generator_id(void);

/* Entry symbol: gdpa_fwd_sm90_d128_bf16_relu_..._<8 hex digits of the hash of spec, plan and body>. */
void kernel_name(const gdpa_spec *normalised, const struct kernel_plan *plan, struct sbuf *name);

/* The whole source. Deterministic. */
gdpa_status source_generate(const gdpa_spec *normalised, const struct kernel_plan *plan, struct sbuf *source,
                            struct sbuf *why);

/* The same from another set of templates than the embedded one. */
gdpa_status source_generate_from(const struct template_set *set, const gdpa_spec *normalised,
                                 const struct kernel_plan *plan, struct sbuf *source, struct sbuf *why);

/* XXH3-128 of a source, its provenance comment left out, as 32 hex digits and a final 0. */
void source_hash(const char *source, size_t length, char hex[33]);

#endif
