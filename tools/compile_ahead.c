/*
 * See compile_ahead.h.
 */
#include "tools/compile_ahead.h"

#include "tools/compile_list.h"

#include <stdlib.h>

/* Counts what was compiled. Where one has no compiler or no device, none has. */
static bool take_outcome(size_t item, struct outcome *outcome, void *user)
{
    size_t *compiled = user;
    (void)item;
    *compiled += outcome->status == GDPA_OK && !outcome->hit ? 1 : 0;
    outcome_deinit(outcome);
    return outcome->status == GDPA_OK || tool_exit_code(outcome->status) != EXIT_NO_DEVICE;
}

void compile_ahead(struct tool *tool, const char *const *texts, size_t count, int jobs, double timeout,
                   enum progress_mode mode)
{
    if (count < 2 || jobs < 2) {
        return;
    }
    size_t compiled = 0;
    struct compile_list list = {
        .tool = tool,
        .texts = texts,
        .count = count,
        .jobs = jobs,
        .timeout = timeout,
        .mode = mode,
        .take = take_outcome,
        .user = &compiled,
    };
    enum pool_state *states = tool_alloc(count * sizeof *states);
    compile_list_run(&list, states);
    if (compiled > 0) {
        tool_note(tool, "%zu kernel%s compiled ahead in %.1f s, %d at a time", compiled, compiled == 1 ? "" : "s",
                  list.seconds, jobs);
    }
    free(states);
}

void compile_ahead_cases(struct tool *tool, const struct bench_case *cases, size_t count, int arch)
{
    char **texts = tool_alloc((count + 1) * sizeof *texts);
    size_t taken = 0;
    for (size_t i = 0; i < count; i++) {
        gdpa_spec spec = cases[i].spec;
        spec.arch = spec.arch != 0 ? spec.arch : arch;
        taken += tool_spec_text(&spec, &texts[taken]) == GDPA_OK ? 1 : 0; /* else its case says why */
    }
    compile_ahead(tool, (const char *const *)texts, taken, compile_jobs(tool), 0, progress_mode_from("auto"));
    for (size_t i = 0; i < taken; i++) {
        free(texts[i]);
    }
    free(texts);
}
