/*
 * Whether what warm compiled is kept; see warm_kept.h.
 */
#include "tools/warm_kept.h"
#include "tools/entries.h"

#include <stdlib.h>
#include <string.h>

int warm_check_cache(struct tool *tool, gdpa_ctx *ctx)
{
    gdpa_cache_summary summary = {.size = sizeof summary};
    gdpa_status status = gdpa_cache_describe(ctx, &summary);
    if (status != GDPA_OK) {
        tool_fail(tool, status);
        return EXIT_CACHE_TROUBLE;
    }
    if (strcmp(summary.state, "read-write") != 0) {
        const char *mode = getenv("GDPAJIT_MODE");
        const bool by_mode = mode != NULL && (strcmp(mode, "off") == 0 || strcmp(mode, "readonly") == 0);
        tool_error(tool, "kernels could not be kept: %s%s; %s", cache_is_usable(&summary) ? "the cache is " : "",
                   summary.state, by_mode ? "GDPAJIT_MODE=auto lets them" : "--cache-dir chooses another folder");
        return EXIT_CACHE_TROUBLE;
    }
    return EXIT_DONE;
}

static int texts_compare(const void *left, const void *right)
{
    return strcmp(*(const char *const *)left, *(const char *const *)right);
}

/* The keys that the cache has, in order; freed with the list. */
static const char **keys_sorted(const struct entry_list *list)
{
    const char **keys = tool_alloc(list->count * sizeof *keys);
    for (size_t i = 0; i < list->count; i++) {
        keys[i] = list->entries[i].key;
    }
    qsort(keys, list->count, sizeof *keys, texts_compare);
    return keys;
}

/* Workers stored the kernels, and a full disk or a low limit is their trouble: what this run compiled must be there now. */
int warm_check_kept(struct tool *tool, gdpa_ctx *ctx, const struct outcome *outcomes, size_t count)
{
    struct entry_list list;
    const gdpa_status status = entry_list_read(ctx, &list);
    if (status != GDPA_OK) {
        tool_fail(tool, status);
        return EXIT_CACHE_TROUBLE;
    }
    const char **keys = keys_sorted(&list);
    size_t lost = 0, compiled = 0;
    for (size_t i = 0; i < count; i++) {
        const struct outcome *outcome = &outcomes[i];
        const bool made = outcome->key != NULL && outcome->status == GDPA_OK && !outcome->hit;
        compiled += made;
        lost += made && bsearch(&outcome->key, keys, list.count, sizeof *keys, texts_compare) == NULL;
    }
    free(keys);
    entry_list_deinit(&list);
    if (lost > 0) {
        tool_error(
            tool,
            "%zu of the %zu kernels that were compiled are not in the cache: the disk is full, or the limit of the "
            "cache too low (`gdpa-jit cache stats`); free space, raise GDPAJIT_CACHE_LIMIT, or choose another "
            "folder with --cache-dir",
            lost, compiled);
    }
    return lost > 0 ? EXIT_CACHE_TROUBLE : EXIT_DONE;
}
