/*
 * gdpa-jit pack and unpack: kernels in one file, for fleets and containers.
 */
#include "tools/commands.h"
#include "tools/entries.h"
#include "tools/json.h"
#include "tools/tool.h"

#include <stdlib.h>
#include <string.h>

static const struct option_row pack_options[] = {
    {.name = "code-only", .kind = OPTION_FLAG, .doc = "leave sources, PTX, logs and plans out"},
    {.name = "target", .kind = OPTION_TEXT, .values = "NAME", .doc = "only kernels for this target, such as sm_90a"},
    {.name = NULL},
};

static const struct option_row unpack_options[] = {
    {.name = "check", .kind = OPTION_FLAG, .doc = "check and compare only; store nothing"},
    {.name = NULL},
};

void pack_print(struct tool *tool, const char *path, const gdpa_pack_report *report)
{
    if (tool->json) {
        json_t *record = json_report("pack");
        json_set_text(record, "path", path);
        json_set_integer(record, "entries", report->entries);
        json_set_integer(record, "bad", report->bad);
        json_set_integer(record, "bytes", report->bytes);
        json_set_text(record, "sha256", report->sha256);
        json_print(stdout, record);
    } else if (!tool->quiet) {
        printf("%s: %lld kernel%s, %lld bytes\nsha256 %s\n", path, (long long)report->entries,
               report->entries == 1 ? "" : "s", (long long)report->bytes, report->sha256);
    }
    if (report->bad > 0) {
        tool_error(tool, "%lld damaged entries were left out; `gdpa-jit cache verify` removes them",
                   (long long)report->bad);
    }
}

/* ---------------------------------------------------------------------------------------------------------------
 * pack
 * ------------------------------------------------------------------------------------------------------------- */

struct selection {
    const char **keys; /* into the list */
    size_t count;
};

static bool select_words(struct tool *tool, const struct entry_list *list, struct selection *selection)
{
    for (size_t i = 1; i < tool->args.word_count; i++) {
        char why[512];
        const gdpa_cache_entry *entry = entry_find(list, tool->args.words[i], why, sizeof why);
        if (entry == NULL) {
            tool_error(tool, "%s", why);
            return false;
        }
        selection->keys[selection->count++] = entry->key;
    }
    return true;
}

static bool select_entries(struct tool *tool, const struct entry_list *list, struct selection *selection)
{
    const char *target = args_text(&tool->args, "target", NULL);
    if (tool->args.word_count > 1) {
        return select_words(tool, list, selection);
    }
    for (size_t i = 0; i < list->count; i++) {
        if (target == NULL || strcmp(list->entries[i].target, target) == 0) {
            selection->keys[selection->count++] = list->entries[i].key;
        }
    }
    if (selection->count == 0) {
        tool_error(tool, "there is nothing to pack%s%s; `gdpa-jit list` shows what the cache has",
                   target != NULL ? " for " : "", target != NULL ? target : "");
    }
    return selection->count > 0;
}

static int run_pack(struct tool *tool)
{
    struct entry_list list;
    struct selection selection = {NULL, 0};
    gdpa_pack_report report = {.size = sizeof report};
    if (tool->args.word_count < 1) {
        return tool_usage(tool, "pack needs the name of the file to write");
    }
    if (tool_context(tool) == NULL) {
        return tool_fail(tool, tool->ctx_status);
    }
    gdpa_status status = entry_list_read(tool->ctx, &list);
    if (status != GDPA_OK) {
        return tool_fail(tool, status);
    }
    tool_catch_interrupts(); /* seconds at most, and a file that was begun is not left behind */
    selection.keys = tool_alloc((list.count + tool->args.word_count) * sizeof *selection.keys);
    int code = EXIT_SOME_FAILED;
    if (select_entries(tool, &list, &selection)) {
        status = gdpa_pack_write(tool->ctx, tool->args.words[0], selection.keys, selection.count,
                                 args_flag(&tool->args, "code-only"), &report);
        code = status == GDPA_OK ? EXIT_DONE : tool_fail(tool, status);
    }
    if (code == EXIT_DONE) {
        pack_print(tool, tool->args.words[0], &report);
    }
    free(selection.keys);
    entry_list_deinit(&list);
    return code;
}

const struct command command_pack = {
    .name = "pack",
    .summary = "write kernels of the cache into one file, for other machines",
    .synopsis = "FILE [KEY...] [OPTIONS]",
    .details = "KEY are keys, names, or the first letters of one; without any: the whole cache. Programs find\n"
               "packs through GDPAJIT_PACKS and look into them before the cache. FILE is replaced at once.",
    .options = pack_options,
    .examples = {"pack fleet.pack", "pack hopper.pack --target sm_90a --code-only", "pack one.pack gdpa_fwd_sm90_d128"},
    .run = run_pack,
};

/* ---------------------------------------------------------------------------------------------------------------
 * unpack
 * ------------------------------------------------------------------------------------------------------------- */

static void unpack_print(struct tool *tool, const char *path, const gdpa_pack_report *report)
{
    if (tool->json) {
        json_t *record = json_report("unpack");
        json_set_text(record, "path", path);
        json_set_integer(record, "entries", report->entries);
        json_set_integer(record, "bad", report->bad);
        json_set_integer(record, "present", report->present);
        json_set_integer(record, "different", report->different);
        json_set_integer(record, "stored", report->stored);
        json_set_integer(record, "bytes", report->bytes);
        json_set_text(record, "sha256", report->sha256);
        json_print(stdout, record);
        return;
    }
    if (!tool->quiet) {
        printf("%s: %lld good, %lld damaged; %lld stored, %lld in the cache already\nsha256 %s\n", path,
               (long long)report->entries, (long long)report->bad, (long long)report->stored,
               (long long)report->present, report->sha256);
    }
    if (report->different > 0) {
        tool_note(tool,
                  "%lld kernels are other code in the cache under the same key; both are valid, and a pack in "
                  "GDPAJIT_PACKS is used first",
                  (long long)report->different);
    }
}

static int run_unpack(struct tool *tool)
{
    int code = EXIT_DONE;
    if (tool->args.word_count < 1) {
        return tool_usage(tool, "unpack needs the name of a pack: FILE, or FILE@sha256:HEX");
    }
    if (tool_context(tool) == NULL) {
        return tool_fail(tool, tool->ctx_status);
    }
    for (size_t i = 0; i < tool->args.word_count; i++) {
        gdpa_pack_report report = {.size = sizeof report};
        gdpa_status status = gdpa_pack_read(tool->ctx, tool->args.words[i], !args_flag(&tool->args, "check"), &report);
        if (status != GDPA_OK) {
            code = tool_fail(tool, status);
            continue;
        }
        unpack_print(tool, tool->args.words[i], &report);
        code = report.bad > 0 ? EXIT_SOME_FAILED : code;
    }
    return code;
}

const struct command command_unpack = {
    .name = "unpack",
    .summary = "check a pack and put its kernels into the cache",
    .synopsis = "FILE[@sha256:HEX]... [OPTIONS]",
    .details = "A pack that belongs to somebody else than root or this user, or that others may write, is used\n"
               "only when its SHA-256 is named.",
    .options = unpack_options,
    .examples = {"unpack fleet.pack", "unpack --check fleet.pack --json", "unpack a.pack b.pack"},
    .run = run_unpack,
};
