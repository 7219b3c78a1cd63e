/*
 * Reading and writing of the caller's structs of any known size; see structs.h.
 */
#include "runtime/structs.h"

#include <string.h>

/* Where a struct grew, `smallest` is the offset of its first field that came later. */
#define RULE(type, text)                                                                                               \
    {                                                                                                                  \
        .name = #type, .remedy = text, .known = sizeof(type), .smallest = sizeof(type)                                 \
    }

#define RULE_GROWN(type, later, text)                                                                                  \
    {                                                                                                                  \
        .name = #type, .remedy = text, .known = sizeof(type), .smallest = offsetof(type, later)                        \
    }

const struct struct_rule rule_args = RULE_GROWN(gdpa_args, dout, "start from GDPA_ARGS_INIT");
const struct struct_rule rule_ctx_options =
    RULE_GROWN(gdpa_ctx_options, cache_limit_bytes, "start from GDPA_CTX_OPTIONS_INIT");
const struct struct_rule rule_stats = RULE_GROWN(gdpa_stats, process_waits, "set size = sizeof(gdpa_stats)");
const struct struct_rule rule_kernel_info = RULE(gdpa_kernel_info, "set size = sizeof(gdpa_kernel_info)");
const struct struct_rule rule_cache_summary =
    RULE_GROWN(gdpa_cache_summary, foreign_entries, "set size = sizeof(gdpa_cache_summary)");
const struct struct_rule rule_cache_gc_report = RULE(gdpa_cache_gc_report, "set size = sizeof(gdpa_cache_gc_report)");
const struct struct_rule rule_pack_report = RULE(gdpa_pack_report, "set size = sizeof(gdpa_pack_report)");

static size_t size_of(const void *bytes)
{
    size_t size;
    memcpy(&size, bytes, sizeof size);
    return size;
}

static gdpa_status size_check(const struct struct_rule *rule, size_t size)
{
    FAIL_IF(size < rule->smallest, GDPA_E_VERSION, "%s.size is %zu, smaller than any version of it (%zu bytes); %s",
            rule->name, size, rule->smallest, rule->remedy);
    FAIL_IF(size > rule->known + 4096, GDPA_E_VERSION,
            "%s.size is %zu, far larger than the %zu bytes of this library; %s", rule->name, size, rule->known,
            rule->remedy);
    return GDPA_OK;
}

gdpa_status struct_check_size(const struct struct_rule *rule, const void *bytes)
{
    return bytes == NULL ? GDPA_OK : size_check(rule, size_of(bytes));
}

gdpa_status struct_check(const struct struct_rule *rule, const void *bytes)
{
    const size_t size = size_of(bytes);
    TRY(size_check(rule, size));
    for (size_t i = rule->known; i < size; i++) {
        FAIL_IF(((const unsigned char *)bytes)[i] != 0, GDPA_E_VERSION,
                "%s has a field at byte %zu that library version %s (%zu bytes) does not know; update the library, or "
                "leave the field zero",
                rule->name, i, GDPA_VERSION_STRING, rule->known);
    }
    return GDPA_OK;
}

void struct_read(const struct struct_rule *rule, const void *bytes, void *own)
{
    const size_t size = size_of(bytes);
    memset(own, 0, rule->known);
    memcpy(own, bytes, size < rule->known ? size : rule->known);
    memcpy(own, &rule->known, sizeof rule->known);
}

gdpa_status struct_write(const struct struct_rule *rule, const void *own, void *bytes)
{
    const size_t size = size_of(bytes);
    TRY(size_check(rule, size));
    memset(bytes, 0, size);
    memcpy(bytes, own, size < rule->known ? size : rule->known);
    memcpy(bytes, &size, sizeof size);
    return GDPA_OK;
}
