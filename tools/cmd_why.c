/*
 * gdpa-jit why: why a kernel would be compiled, and what comes nearest to it.
 */
#include "tools/commands.h"
#include "tools/json.h"
#include "tools/specs.h"
#include "tools/tool.h"

#include <stdlib.h>
#include <string.h>

static const struct option_row options[] = {
    {.name = "arch",
     .kind = OPTION_TEXT,
     .values = "ARCH",
     .doc = "for a spec without arch; default: that of this GPU"},
    {.name = NULL},
};

static gdpa_status ask(struct tool *tool, const gdpa_spec *spec, char **text)
{
    size_t length = 0;
    gdpa_status status = gdpa_cache_why(tool->ctx, spec, NULL, 0, &length);
    *text = tool_alloc(length + 1);
    return status == GDPA_E_BUFFER ? gdpa_cache_why(tool->ctx, spec, *text, length + 1, &length) : status;
}

/* "name: value" lines become fields; "different" ones a list. */
static void print_json(const char *text)
{
    json_t *report = json_report("why");
    json_t *different = json_array();
    char *copy = tool_strdup(text);
    char *rest = NULL;
    for (char *line = strtok_r(copy, "\n", &rest); line != NULL; line = strtok_r(NULL, "\n", &rest)) {
        char *colon = strstr(line, ": ");
        if (colon == NULL) {
            continue; /* more lines of a reason */
        }
        *colon = 0;
        if (strcmp(line, "different") == 0 || strcmp(line, "different.also") == 0) {
            json_array_append_new(different, json_string(colon + 2));
        } else {
            json_set_text(report, line, colon + 2);
        }
    }
    free(copy);
    json_object_set_new(report, "different", different);
    json_print(stdout, report);
}

/* Of the command line; false, with the reason in why, when it is not one. */
static bool spec_of(const struct args *args, gdpa_spec *spec, char *why, size_t why_size)
{
    if (args->word_count == 0) {
        snprintf(why, why_size, "why needs a spec");
        return false;
    }
    for (size_t i = 1; i < args->word_count; i++) {
        if (strcmp(args->words[i], "fwd") == 0 || strcmp(args->words[i], "bwd") == 0 ||
            strpbrk(args->words[i], " \t") != NULL) {
            snprintf(why, why_size, "why takes one spec, and another one begins at '%s'", args->words[i]);
            return false;
        }
    }
    return spec_from_words(args->words, args->word_count, spec, why, why_size) &&
           spec_arch_default("why", args_text(args, "arch", NULL), spec, why, why_size);
}

static int run(struct tool *tool)
{
    gdpa_spec spec = GDPA_SPEC_INIT;
    char why[1024];
    char *text = NULL;
    if (!spec_of(&tool->args, &spec, why, sizeof why)) {
        return tool_usage(tool, "%s", why);
    }
    if (tool_context(tool) == NULL) {
        return tool_fail(tool, tool->ctx_status);
    }
    gdpa_status status = ask(tool, &spec, &text);
    if (status == GDPA_E_NO_DRIVER && spec.arch == 0) {
        tool_error(tool, "the spec names no architecture; --arch sm_90a, say, needs no GPU");
    }
    int code = status == GDPA_OK ? EXIT_DONE : tool_fail(tool, status);
    if (status == GDPA_OK && tool->json) {
        print_json(text);
    } else if (status == GDPA_OK) {
        fputs(text, stdout);
    }
    if (status == GDPA_OK && strstr(text, "\nfound: no\n") != NULL) {
        code = EXIT_SOME_FAILED;
    }
    free(text);
    return code;
}

const struct command command_why = {
    .name = "why",
    .summary = "why a kernel would be compiled: the nearest entry, and what differs",
    .synopsis = "SPEC [OPTIONS]",
    .details = "Ends with 0 when a pack or the cache has the kernel, with 1 when it would be compiled.",
    .options = options,
    .takes_specs = true,
    .examples = {"why head_dim=128 activation=silu arch=sm_90a", "why head_dim=64 activation=relu --arch sm_90a --json",
                 "why 'bwd head_dim=128 activation=gelu arch=sm_90a'"},
    .run = run,
};
