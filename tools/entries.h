/*
 * What is in the cache, as a list that outlives the call that read it.
 */
#ifndef GDPA_TOOLS_ENTRIES_H
#define GDPA_TOOLS_ENTRIES_H

#include "include/gdpajit.h"

#include <stdbool.h>

struct entry_list {
    gdpa_cache_entry *entries; /* texts are malloced */
    size_t count, capacity;
};

/* Whether a cache can be read. When it cannot, summary->state says why. */
bool cache_is_usable(const gdpa_cache_summary *summary);

gdpa_status entry_list_read(gdpa_ctx *ctx, struct entry_list *list);
void entry_list_deinit(struct entry_list *list);

/*
 * The entry whose key or name is the text or begins with it. NULL, with the reason in why, when there is none or more than
 * one.
 */
const gdpa_cache_entry *entry_find(const struct entry_list *list, const char *prefix, char *why, size_t why_size);

#endif
