/*
 * What is in the cache; see entries.h.
 */
#include "tools/entries.h"

#include "tools/tool.h"

#include <stdlib.h>
#include <string.h>

bool cache_is_usable(const gdpa_cache_summary *summary)
{
    return strcmp(summary->state, "read-write") == 0 || strncmp(summary->state, "read-only", strlen("read-only")) == 0;
}

static char *copy(const char *text)
{
    return tool_strdup(text != NULL ? text : "");
}

static int take_entry(const gdpa_cache_entry *entry, void *user)
{
    struct entry_list *list = user;
    if (list->count == list->capacity) {
        list->capacity = list->capacity == 0 ? 64 : 2 * list->capacity;
        list->entries = tool_realloc(list->entries, list->capacity * sizeof *list->entries);
    }
    gdpa_cache_entry *mine = &list->entries[list->count++];
    *mine = *entry;
    mine->key = copy(entry->key);
    mine->name = copy(entry->name);
    mine->spec = copy(entry->spec);
    mine->target = copy(entry->target);
    mine->nvrtc = copy(entry->nvrtc);
    mine->source_hash = copy(entry->source_hash);
    return 0;
}

gdpa_status entry_list_read(gdpa_ctx *ctx, struct entry_list *list)
{
    memset(list, 0, sizeof *list);
    gdpa_status status = gdpa_cache_list(ctx, take_entry, list);
    if (status != GDPA_OK) {
        entry_list_deinit(list);
    }
    return status;
}

void entry_list_deinit(struct entry_list *list)
{
    for (size_t i = 0; i < list->count; i++) {
        free((void *)list->entries[i].key);
        free((void *)list->entries[i].name);
        free((void *)list->entries[i].spec);
        free((void *)list->entries[i].target);
        free((void *)list->entries[i].nvrtc);
        free((void *)list->entries[i].source_hash);
    }
    free(list->entries);
    memset(list, 0, sizeof *list);
}

const gdpa_cache_entry *entry_find(const struct entry_list *list, const char *prefix, char *why, size_t why_size)
{
    const gdpa_cache_entry *found = NULL;
    size_t matches = 0;
    size_t length = strlen(prefix);
    for (size_t i = 0; i < list->count; i++) {
        const gdpa_cache_entry *entry = &list->entries[i];
        if (strcmp(entry->key, prefix) == 0 || strcmp(entry->name, prefix) == 0) {
            return entry;
        }
        if (strncmp(entry->key, prefix, length) == 0 || strncmp(entry->name, prefix, length) == 0) {
            found = entry;
            matches++;
        }
    }
    if (matches == 1 && length > 0) {
        return found;
    }
    if (matches == 0 || length == 0) {
        snprintf(why, why_size, "no cached kernel has a key or name that begins with '%s'; `gdpa-jit list` shows them",
                 prefix);
    } else {
        snprintf(why, why_size, "%zu cached kernels have a key or name that begins with '%s'; give more of it", matches,
                 prefix);
    }
    return NULL;
}
