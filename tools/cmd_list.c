/*
 * gdpa-jit list: what is in the cache, as a table.
 */
#include "tools/commands.h"
#include "tools/entries.h"
#include "tools/json.h"
#include "tools/table.h"
#include "tools/term.h"
#include "tools/tool.h"
#include "tools/vocabulary.h"

#include <stdlib.h>
#include <string.h>

enum { KEY_DIGITS_SHOWN = 12, FILTERS_LIMIT = 64 };

static const struct table_column columns[] = {
    {"key", TABLE_TEXT, 0, "of the cache; its first digits are enough for show"},
    {"name", TABLE_TEXT, 0, "entry symbol, as profilers show it"},
    {"target", TABLE_TEXT, 0, "architecture"},
    {"registers", TABLE_INTEGER, 0, "a thread"},
    {"spill_bytes", TABLE_INTEGER, 0, "registers spilled to local memory"},
    {"smem_dynamic", TABLE_INTEGER, 0, "bytes of shared memory a block"},
    {"threads", TABLE_INTEGER, 0, "a block"},
    {"binary_bytes", TABLE_INTEGER, 0, "of the code"},
    {"stored_bytes", TABLE_INTEGER, 0, "of code, source, PTX and log as stored"},
    {"compile_ms", TABLE_REAL, 0, "that NVRTC took"},
    {"nvrtc", TABLE_TEXT, 0, "version that made it"},
    {"hits", TABLE_INTEGER, 0, "how often it was found"},
    {"sequence", TABLE_INTEGER, 0, "larger: used more recently"},
    {"source_hash", TABLE_TEXT, 0, "of the generated source"},
    {"spec", TABLE_TEXT, 0, "canonical text"},
};
enum { COLUMN_COUNT = sizeof columns / sizeof *columns };

static const char default_columns[] = "key,target,registers,spill_bytes,smem_dynamic,threads,binary_bytes,compile_ms,"
                                      "hits,spec";

static const struct option_row options[] = {
    {.name = "columns", .kind = OPTION_TEXT, .values = "LIST", .doc = "which, separated by commas; all: every column"},
    {.name = "sort",
     .kind = OPTION_TEXT,
     .values = "COLUMN",
     .doc = "numbers largest first, texts A to Z; default: sequence"},
    {.name = "reverse", .letter = 'r', .kind = OPTION_FLAG, .doc = "the other way round"},
    {.name = "spilling", .kind = OPTION_FLAG, .doc = "only kernels that spill registers"},
    {.name = "name", .kind = OPTION_TEXT, .values = "TEXT", .doc = "only kernels whose key or name holds this text"},
    {.name = "limit",
     .letter = 'n',
     .kind = OPTION_INTEGER,
     .values = "N",
     .doc = "at most N rows",
     .lowest = 0,
     .highest = 1000000000},
    {.name = NULL},
};

/* An option of the spec and the values asked for. */
struct filter {
    const struct spec_word *word;
    int *values;
    size_t count;
};

struct filters {
    struct filter rows[FILTERS_LIMIT];
    size_t count;
};

static void filters_deinit(struct filters *filters)
{
    for (size_t i = 0; i < filters->count; i++) {
        free(filters->rows[i].values);
    }
}

/* The option a word names: "causal", "fwd" or what stands before "=". *values gets what stands behind. */
static const struct spec_word *filter_word(const char *text, const char **values)
{
    const char *equals = strchr(text, '=');
    const struct spec_word *word = spec_word_find(text, equals == NULL ? strlen(text) : (size_t)(equals - text));
    if (equals != NULL) {
        *values = equals + 1;
        return word;
    }
    if (word != NULL && strcmp(word->kind, "BOOL") == 0) {
        *values = "1";
        return word;
    }
    *values = text; /* fwd, bwd or both */
    return spec_word_find("pass", strlen("pass"));
}

static bool parse_value(const struct spec_word *word, const char *value, int *number)
{
    gdpa_spec spec = GDPA_SPEC_INIT;
    bool is_pass = strcmp(word->name, "pass") == 0;
    char *text = is_pass ? tool_strdup(value) : tool_format("%s=%s", word->name, value);
    bool good = gdpa_spec_parse(text, &spec) == GDPA_OK;
    free(text);
    if (good) {
        *number = spec_word_number(word, &spec);
    }
    return good;
}

static bool filter_parse(const char *text, struct filter *filter, char *why, size_t why_size)
{
    const char *values = NULL;
    filter->word = filter_word(text, &values);
    filter->count = 0;
    filter->values = tool_alloc((strlen(values) + 1) * sizeof *filter->values);
    if (filter->word == NULL) {
        struct nearest nearest = NEAREST_INIT(text);
        char hint[96];
        char *name = tool_format("%.*s", (int)strcspn(text, "="), text);
        nearest.word = name;
        for (size_t i = 0; i < spec_word_count; i++) {
            nearest_offer(&nearest, spec_words[i].name);
        }
        snprintf(why, why_size, "no option of a spec is called %s%s", name, nearest_hint(&nearest, hint, sizeof hint));
        free(name);
        return false;
    }
    char *list = tool_strdup(values);
    char *rest = NULL;
    bool good = true;
    for (char *value = strtok_r(list, ",", &rest); good && value != NULL; value = strtok_r(NULL, ",", &rest)) {
        good = parse_value(filter->word, value, &filter->values[filter->count]);
        filter->count++;
    }
    free(list);
    if (!good) {
        snprintf(why, why_size, "%s", gdpa_last_error());
    }
    return good;
}

static bool filters_parse(const struct args *args, struct filters *filters, char *why, size_t why_size)
{
    filters->count = 0;
    for (size_t i = 0; i < args->word_count; i++) {
        if (filters->count == FILTERS_LIMIT) {
            snprintf(why, why_size, "more than %d filters", FILTERS_LIMIT);
            return false;
        }
        if (!filter_parse(args->words[i], &filters->rows[filters->count++], why, why_size)) {
            return false;
        }
    }
    return true;
}

static bool filter_takes(const struct filter *filter, const gdpa_spec *spec)
{
    int number = spec_word_number(filter->word, spec);
    for (size_t i = 0; i < filter->count; i++) {
        if (filter->values[i] == number) {
            return true;
        }
    }
    return false;
}

static bool wanted(const struct tool *tool, const struct filters *filters, const gdpa_cache_entry *entry)
{
    const char *text = args_text(&tool->args, "name", "");
    if (args_flag(&tool->args, "spilling") && entry->spill_bytes == 0) {
        return false;
    }
    if (strstr(entry->name, text) == NULL && strstr(entry->key, text) == NULL) {
        return false;
    }
    if (filters->count == 0) {
        return true;
    }
    gdpa_spec spec = GDPA_SPEC_INIT;
    if (gdpa_spec_parse(entry->spec, &spec) != GDPA_OK) {
        return false; /* of another version of the library: it has no options that could be compared */
    }
    for (size_t i = 0; i < filters->count; i++) {
        if (!filter_takes(&filters->rows[i], &spec)) {
            return false;
        }
    }
    return true;
}

static void add_row(struct table *table, const gdpa_cache_entry *entry, bool whole_key)
{
    char key[64];
    snprintf(key, sizeof key, "%.*s", whole_key ? (int)sizeof key - 1 : KEY_DIGITS_SHOWN, entry->key);
    table_row(table);
    table_set_text(table, "key", key);
    table_set_text(table, "name", entry->name);
    table_set_text(table, "target", entry->target);
    table_set_integer(table, "registers", entry->registers);
    table_set_integer(table, "spill_bytes", entry->spill_bytes);
    table_set_integer(table, "smem_dynamic", entry->smem_dynamic);
    table_set_integer(table, "threads", entry->threads);
    table_set_integer(table, "binary_bytes", entry->binary_bytes);
    table_set_integer(table, "stored_bytes", entry->stored_bytes);
    table_set_real(table, "compile_ms", entry->compile_ms);
    table_set_text(table, "nvrtc", entry->nvrtc);
    table_set_integer(table, "hits", (long long)entry->hits);
    table_set_integer(table, "sequence", (long long)entry->sequence);
    table_set_text(table, "source_hash", entry->source_hash);
    table_set_text(table, "spec", entry->spec);
}

static int unknown_column(struct tool *tool, const char *name)
{
    char names[512] = "";
    for (size_t i = 0; i < COLUMN_COUNT; i++) {
        size_t length = strlen(names);
        snprintf(names + length, sizeof names - length, "%s%s", i == 0 ? "" : ", ", columns[i].name);
    }
    const char *nearest = table_column_nearest(columns, COLUMN_COUNT, name);
    return tool_usage(tool, "no column %s%s%s%s; columns are %s", name, nearest != NULL ? " (did you mean " : "",
                      nearest != NULL ? nearest : "", nearest != NULL ? "?)" : "", names);
}

/* Refuses wrong names before anything is read. */
static int arrange(struct tool *tool, struct table *table)
{
    char unknown[64];
    const char *chosen = args_text(&tool->args, "columns", tool->json ? "all" : default_columns);
    if (strcmp(chosen, "all") != 0 && !table_choose(table, chosen, unknown, sizeof unknown)) {
        return unknown_column(tool, unknown);
    }
    const char *sort = args_text(&tool->args, "sort", "sequence");
    return table_column_find(columns, COLUMN_COUNT, sort) == NULL ? unknown_column(tool, sort) : EXIT_DONE;
}

static void print(struct tool *tool, struct table *table)
{
    const char *sort = args_text(&tool->args, "sort", "sequence");
    bool descending = table_column_find(columns, COLUMN_COUNT, sort)->kind != TABLE_TEXT;
    table_sort(table, sort, descending != args_flag(&tool->args, "reverse"));
    long limit = args_integer(&tool->args, "limit", -1);
    if (limit >= 0) {
        table_truncate(table, (size_t)limit);
    }
    if (tool->json) {
        json_t *report = json_report("list");
        json_set(report, "kernels", table_json(table));
        json_print(stdout, report);
    } else if (table_row_count(table) > 0) {
        table_print(table, stdout, tool->color);
    } else {
        tool_note(tool, "no cached kernel%s", tool->args.word_count > 0 ? " is like that" : "");
    }
}

static int list_entries(struct tool *tool, const struct filters *filters, struct table *table)
{
    gdpa_ctx *ctx = tool_context(tool);
    if (ctx == NULL) {
        return tool_fail(tool, tool->ctx_status);
    }
    struct entry_list list;
    gdpa_status status = entry_list_read(ctx, &list);
    if (status != GDPA_OK) {
        return tool_fail(tool, status);
    }
    for (size_t i = 0; i < list.count; i++) {
        if (wanted(tool, filters, &list.entries[i])) {
            add_row(table, &list.entries[i], tool->json);
        }
    }
    entry_list_deinit(&list);
    print(tool, table);
    return EXIT_DONE;
}

static int run(struct tool *tool)
{
    struct filters filters;
    char why[1024];
    int code = EXIT_DONE;
    struct table *table = table_create(columns, COLUMN_COUNT);
    if (!filters_parse(&tool->args, &filters, why, sizeof why)) {
        code = tool_usage(tool, "%s", why);
    } else {
        code = arrange(tool, table);
    }
    if (code == EXIT_DONE) {
        code = list_entries(tool, &filters, table);
    }
    filters_deinit(&filters);
    table_destroy(table);
    return code;
}

const struct command command_list = {
    .name = "list",
    .summary = "show what is in the cache",
    .synopsis = "[OPTIONS] [OPTION=VALUES...]",
    .details = "Words of a spec choose kernels: head_dim=64,128 causal=0 shows those with head_dim 64 or 128 that are\n"
               "not causal. The most recently used comes first.\n"
               "Columns: key name target registers spill_bytes smem_dynamic threads binary_bytes stored_bytes\n"
               "compile_ms nvrtc hits sequence source_hash spec",
    .options = options,
    .takes_specs = true,
    .examples = {"list", "list arch=sm_90a activation=silu --sort compile_ms --limit 10",
                 "list --spilling --columns spec,registers,spill_bytes --json"},
    .run = run,
};
