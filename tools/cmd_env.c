/*
 * gdpa-jit env: every variable of the environment that the library reads, its value and where that comes from. The library
 * itself is asked, so that what is printed is what holds.
 */
#include "tools/commands.h"
#include "tools/facts.h"
#include "tools/json.h"
#include "tools/table.h"
#include "tools/tool.h"

#include <stdlib.h>
#include <string.h>

static const struct {
    const char *name, *doc;
} variables[] = {
#define ENV(suffix, name, fallback, doc) {name, doc},
#include "runtime/env.def"
#undef ENV
};
enum { VARIABLE_COUNT = sizeof variables / sizeof *variables };

static const struct table_column columns[] = {
    {"name", TABLE_TEXT, 0, "of the variable"},
    {"value", TABLE_TEXT, 0, "in effect"},
    {"origin", TABLE_TEXT, 0, "environment or default"},
    {"doc", TABLE_TEXT, 0, "what it is for"},
};

static const struct option_row options[] = {
    {.name = NULL},
};

/* "value (origin)" -> a row. */
static void add_row(struct table *table, const char *name, const char *fact, const char *doc)
{
    table_row(table);
    table_set_text(table, "name", name);
    table_set_text(table, "doc", doc);
    const char *bracket = fact == NULL ? NULL : strrchr(fact, '(');
    if (bracket == NULL || bracket == fact || fact[strlen(fact) - 1] != ')') {
        table_set_text(table, "value", fact);
        return;
    }
    char *value = tool_format("%.*s", (int)(bracket - fact - 1), fact);
    char *origin = tool_format("%.*s", (int)strlen(bracket) - 2, bracket + 1);
    table_set_text(table, "value", value);
    table_set_text(table, "origin", origin);
    free(value);
    free(origin);
}

static int run(struct tool *tool)
{
    if (tool->args.word_count > 0) {
        return tool_usage(tool, "env takes no %s", tool->args.words[0]);
    }
    gdpa_ctx *ctx = tool_context(tool);
    char *text = NULL;
    gdpa_status status = ctx == NULL ? tool->ctx_status : tool_describe(ctx, &text);
    if (status != GDPA_OK) {
        return tool_fail(tool, status);
    }
    struct facts facts;
    facts_parse(text, &facts);
    struct table *table = table_create(columns, sizeof columns / sizeof *columns);
    for (size_t i = 0; i < VARIABLE_COUNT; i++) {
        add_row(table, variables[i].name, facts_find(&facts, variables[i].name), variables[i].doc);
    }
    if (tool->json) {
        json_t *report = json_report("env");
        json_set(report, "variables", table_json(table));
        json_print(stdout, report);
    } else {
        table_print(table, stdout, tool->color);
    }
    table_destroy(table);
    facts_deinit(&facts);
    free(text);
    return EXIT_DONE;
}

const struct command command_env = {
    .name = "env",
    .summary = "every GDPAJIT_ variable, its value and where it comes from",
    .synopsis = "[OPTIONS]",
    .details = NULL,
    .options = options,
    .examples = {"env", "env --json", "env --cache-dir /var/cache/gdpajit"},
    .run = run,
};
