/*
 * gdpa-jit cache: upkeep of the kernel cache.
 */
#include "tools/commands.h"
#include "tools/entries.h"
#include "tools/json.h"
#include "tools/tool.h"

#include <string.h>

static const struct verb_row verbs[] = {
    {"stats", "folder, state, entries, bytes and limit"},
    {"verify", "check every entry; remove what is damaged"},
    {"clear", "remove every entry"},
    {"remove", "remove the entries KEY...: keys, names, or the first letters of one"},
    {"path", "print where the database is"},
    {NULL, NULL},
};

static const struct option_row options[] = {
    {.name = NULL},
};

/* EXIT_DONE when there is a cache that can be read; otherwise says why not. */
static int describe(struct tool *tool, gdpa_cache_summary *summary)
{
    memset(summary, 0, sizeof *summary);
    summary->size = sizeof *summary;
    gdpa_status status = gdpa_cache_describe(tool->ctx, summary);
    if (status != GDPA_OK) {
        return tool_fail(tool, status);
    }
    if (!cache_is_usable(summary)) {
        tool_error(tool, "there is no usable cache: %s", summary->state);
        return EXIT_CACHE_TROUBLE;
    }
    return EXIT_DONE;
}

static int stats(struct tool *tool)
{
    gdpa_cache_summary summary;
    int code = describe(tool, &summary);
    if (code != EXIT_DONE) {
        return code;
    }
    if (tool->json) {
        json_t *report = json_report("cache");
        json_set_text(report, "path", summary.path);
        json_set_text(report, "state", summary.state);
        json_set_integer(report, "entries", summary.entries);
        json_set_integer(report, "bytes", summary.bytes);
        json_set_integer(report, "limit_bytes", summary.limit_bytes);
        json_print(stdout, report);
        return EXIT_DONE;
    }
    printf("path     %s\nstate    %s\nentries  %lld\nbytes    %lld\n", summary.path, summary.state,
           (long long)summary.entries, (long long)summary.bytes);
    if (summary.limit_bytes > 0) {
        printf("limit    %lld bytes, %.1f %% used\n", (long long)summary.limit_bytes,
               100.0 * (double)summary.bytes / (double)summary.limit_bytes);
    } else {
        printf("limit    none\n");
    }
    return EXIT_DONE;
}

static int print_path(struct tool *tool)
{
    gdpa_cache_summary summary;
    int code = describe(tool, &summary);
    if (code == EXIT_DONE && tool->json) {
        json_t *report = json_report("cache");
        json_set_text(report, "path", summary.path);
        json_print(stdout, report);
    } else if (code == EXIT_DONE) {
        printf("%s\n", summary.path);
    }
    return code;
}

static int verify(struct tool *tool)
{
    int64_t good = 0;
    int64_t bad = 0;
    gdpa_status status = gdpa_cache_verify(tool->ctx, &good, &bad);
    if (status != GDPA_OK) {
        return tool_fail(tool, status);
    }
    if (tool->json) {
        json_t *report = json_report("cache");
        json_set_integer(report, "good", good);
        json_set_integer(report, "bad", bad);
        json_print(stdout, report);
    } else {
        printf("%lld good, %lld damaged%s\n", (long long)good, (long long)bad,
               bad > 0 ? " and removed; they will be compiled again" : "");
    }
    return bad > 0 ? EXIT_CACHE_TROUBLE : EXIT_DONE;
}

static void print_removed(struct tool *tool, int64_t removed)
{
    if (tool->json) {
        json_t *report = json_report("cache");
        json_set_integer(report, "removed", removed);
        json_print(stdout, report);
    } else {
        printf("%lld %s removed\n", (long long)removed, removed == 1 ? "entry" : "entries");
    }
}

static int clear(struct tool *tool)
{
    int64_t removed = 0;
    gdpa_status status = gdpa_cache_remove(tool->ctx, NULL, &removed);
    if (status != GDPA_OK) {
        return tool_fail(tool, status);
    }
    print_removed(tool, removed);
    return EXIT_DONE;
}

static int remove_keys(struct tool *tool)
{
    struct entry_list list;
    gdpa_status status = entry_list_read(tool->ctx, &list);
    if (status != GDPA_OK) {
        return tool_fail(tool, status);
    }
    int code = EXIT_DONE;
    int64_t total = 0;
    for (size_t i = 1; i < tool->args.word_count; i++) {
        char why[512];
        int64_t removed = 0;
        const gdpa_cache_entry *entry = entry_find(&list, tool->args.words[i], why, sizeof why);
        if (entry == NULL) {
            tool_error(tool, "%s", why);
            code = EXIT_SOME_FAILED;
            continue;
        }
        status = gdpa_cache_remove(tool->ctx, entry->key, &removed);
        if (status != GDPA_OK && status != GDPA_E_NOT_FOUND) { /* another process may have been faster */
            code = tool_fail(tool, status);
        }
        total += removed;
    }
    entry_list_deinit(&list);
    print_removed(tool, total);
    return code;
}

static int run(struct tool *tool)
{
    char why[512];
    const struct verb_row *verb = args_verb(&tool->args, why, sizeof why);
    if (verb == NULL) {
        return tool_usage(tool, "%s", why);
    }
    bool removes = strcmp(verb->name, "remove") == 0;
    if (removes && tool->args.word_count < 2) {
        return tool_usage(tool, "cache remove needs a key or name; `gdpa-jit list` shows them");
    }
    if (!removes && tool->args.word_count > 1) {
        return tool_usage(tool, "cache %s takes no %s", verb->name, tool->args.words[1]);
    }
    if (tool_context(tool) == NULL) {
        return tool_fail(tool, GDPA_E_MEMORY);
    }
    static int (*const actions[])(struct tool * tool) = {stats, verify, clear, remove_keys, print_path};
    return actions[verb - verbs](tool);
}

const struct command command_cache = {
    .name = "cache",
    .summary = "size, check and clean the cache",
    .synopsis = "stats|verify|clear|path|remove KEY... [OPTIONS]",
    .details = NULL,
    .verbs = verbs,
    .options = options,
    .examples = {"cache stats", "cache verify --json", "cache remove gdpa_fwd_sm80_d64"},
    .run = run,
};
