/*
 * gdpa-jit cache: upkeep of the kernel cache.
 */
#include "tools/commands.h"
#include "tools/entries.h"
#include "tools/json.h"
#include "tools/tool.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static const struct verb_row verbs[] = {
    {"stats", "folder, state, entries, bytes and limit"},
    {"verify", "check every entry; remove what is damaged"},
    {"gc", "bring it below its limit, give free space back, remove what is stale"},
    {"clear", "remove every entry"},
    {"remove", "remove the entries KEY...: keys, names, or the first letters of one"},
    {"path", "print where the database is"},
    {NULL, NULL},
};

static const struct option_row options[] = {
    {.name = "limit", .kind = OPTION_TEXT, .values = "SIZE", .doc = "of gc: 500M, 2G; default GDPAJIT_CACHE_LIMIT"},
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
        json_set_integer(report, "part_bytes", summary.part_bytes);
        json_set_integer(report, "file_bytes", summary.file_bytes);
        json_set_integer(report, "foreign_entries", summary.foreign_entries);
        json_set_integer(report, "set_aside", summary.set_aside);
        json_set_text(report, "file_system", summary.network ? "network" : "local");
        json_set_text(report, "locks", summary.locks < 0 ? NULL : summary.locks > 0 ? "yes" : "no");
        json_print(stdout, report);
        return EXIT_DONE;
    }
    printf("path     %s\nstate    %s\nentries  %lld, %lld of them of other versions\n", summary.path, summary.state,
           (long long)summary.entries, (long long)summary.foreign_entries);
    printf("bytes    %lld, %lld of them sources, PTX, logs and plans\n", (long long)summary.bytes,
           (long long)summary.part_bytes);
    printf("on disk  %lld, %s file system%s\n", (long long)summary.file_bytes, summary.network ? "network" : "local",
           summary.locks == 0 ? " without locks: every process compiles for itself" : "");
    if (summary.set_aside > 0) {
        printf("aside    %lld damaged %s; `gdpa-jit cache gc` removes %s\n", (long long)summary.set_aside,
               summary.set_aside == 1 ? "database" : "databases", summary.set_aside == 1 ? "it" : "them");
    }
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

/* "500M" -> bytes; k, M, G and T are powers of 1024. False when it is no size, or 0. */
static bool parse_size(const char *text, int64_t *bytes)
{
    static const char units[] = "kMGT";
    char *end = NULL;
    errno = 0;
    const long long number = strtoll(text, &end, 10);
    int shift = 0;
    if (errno != 0 || end == text || number <= 0) {
        return false;
    }
    if (*end != '\0') {
        const char *unit = strchr(units, *end == 'K' ? 'k' : *end);
        if (unit == NULL || end[1] != '\0') {
            return false;
        }
        shift = 10 * (int)(unit - units + 1);
    }
    if (number > INT64_MAX >> shift) {
        return false;
    }
    *bytes = (int64_t)number << shift;
    return true;
}

static int gc(struct tool *tool)
{
    int64_t limit = 0;
    const char *text = args_text(&tool->args, "limit", NULL);
    if (text != NULL && !parse_size(text, &limit)) {
        return tool_usage(tool, "--limit is '%s'; it must be a size such as 500M or 2G", text);
    }
    gdpa_cache_gc_report done = {.size = sizeof done};
    gdpa_status status = gdpa_cache_gc(tool->ctx, limit, &done);
    if (status != GDPA_OK) {
        return tool_fail(tool, status);
    }
    if (tool->json) {
        json_t *report = json_report("cache");
        json_set_integer(report, "removed", done.entries);
        json_set_integer(report, "removed_parts", done.parts);
        json_set_integer(report, "removed_set_aside", done.set_aside);
        json_set_integer(report, "bytes_before", done.bytes_before);
        json_set_integer(report, "bytes_after", done.bytes_after);
        json_print(stdout, report);
    } else {
        printf("%lld %s, %lld %s and %lld damaged %s removed; %lld bytes on the disk, before %lld\n",
               (long long)done.entries, done.entries == 1 ? "entry" : "entries", (long long)done.parts,
               done.parts == 1 ? "part" : "parts", (long long)done.set_aside,
               done.set_aside == 1 ? "database" : "databases", (long long)done.bytes_after,
               (long long)done.bytes_before);
    }
    return EXIT_DONE;
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
    if (strcmp(verb->name, "gc") != 0 && args_text(&tool->args, "limit", NULL) != NULL) {
        return tool_usage(tool, "--limit belongs to cache gc, not to cache %s", verb->name);
    }
    if (tool_context(tool) == NULL) {
        return tool_fail(tool, tool->ctx_status);
    }
    static int (*const actions[])(struct tool * tool) = {stats, verify, gc, clear, remove_keys, print_path};
    return actions[verb - verbs](tool);
}

const struct command command_cache = {
    .name = "cache",
    .summary = "size, check and clean the cache",
    .synopsis = "stats|verify|gc|clear|path|remove KEY... [OPTIONS]",
    .details = NULL,
    .verbs = verbs,
    .options = options,
    .examples = {"cache stats", "cache gc --limit 500M", "cache remove gdpa_fwd_sm80_d64"},
    .run = run,
};
