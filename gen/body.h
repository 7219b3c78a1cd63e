/*
 * The body of a source: templates without what the options exclude, spliced into one file, config block included. The entry
 * function still has its placeholder name, so that the name can be made from the body.
 */
#ifndef GDPA_GEN_BODY_H
#define GDPA_GEN_BODY_H

#include "gen/assemble.h"

#define ENTRY_PLACEHOLDER "gdpa_kernel_entry"

/* The second kernel of a source is called as the first one, with this behind it: in a backward pass; where a schedule is made. */
#define SECOND_ENTRY_SUFFIX "_dq"
#define SCHEDULE_ENTRY_SUFFIX "_schedule"

/* The one of the two that the source of a spec has, NULL: neither. */
const char *second_entry_suffix(const gdpa_spec *normalised);

gdpa_status body_assemble(const struct template_set *set, const gdpa_spec *normalised, const struct kernel_plan *plan,
                          struct sbuf *body, struct sbuf *why);

/* Appends the body with the placeholder replaced by the name; how often it was is returned. */
size_t body_add_named(const struct sbuf *body, const char *name, struct sbuf *source);

/* The name of the kernel with this body. Sets name->overflow when memory runs out. */
void kernel_name_of_body(const gdpa_spec *normalised, const struct kernel_plan *plan, const struct sbuf *body,
                         struct sbuf *name);

/* Largest source, larger than any by an order of magnitude. */
enum { SOURCE_LIMIT = 4 << 20 };

#endif
