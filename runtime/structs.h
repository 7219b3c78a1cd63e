/*
 * The size rules of public structs: each starts with `size_t size`. A smaller one comes from an older header, its
 * missing fields get their defaults (zero); a larger one from a newer header, and is accepted while the bytes that this
 * library does not know are zero.
 */
#ifndef GDPA_RUNTIME_STRUCTS_H
#define GDPA_RUNTIME_STRUCTS_H

#include "runtime/error.h"

struct struct_rule {
    const char *name;   /* "gdpa_args" */
    const char *remedy; /* "start from GDPA_ARGS_INIT" */
    size_t known;       /* sizeof here */
    size_t smallest;    /* sizeof in 0.1, its first version */
};

extern const struct struct_rule rule_args, rule_ctx_options, rule_stats, rule_kernel_info, rule_cache_summary,
    rule_cache_gc_report, rule_pack_report;

/* Checks a struct that comes in. */
gdpa_status struct_check(const struct struct_rule *rule, const void *bytes);

/* Copies a checked struct to `own` (rule->known bytes), zero where the caller's ends; size becomes rule->known. */
void struct_read(const struct struct_rule *rule, const void *bytes, void *own);

/* Fills a caller's struct from `own` as far as it reaches; keeps its size and zeroes what is not known here. */
gdpa_status struct_write(const struct struct_rule *rule, const void *own, void *bytes);

/* That struct_write will work: for calls that do something before it. NULL is good. */
gdpa_status struct_check_size(const struct struct_rule *rule, const void *bytes);

#endif
