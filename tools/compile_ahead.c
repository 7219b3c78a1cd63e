/*
 * See compile_ahead.h.
 */
#include "tools/compile_ahead.h"

#include "tools/compile_worker.h"
#include "tools/pool.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

struct ahead {
    struct tool *tool;
    const char *const *texts;
    size_t count, compiled, failed;
    double timeout;
    struct compile_crew crew;
    struct progress progress;
};

static void compile_one(size_t item, void *result, void *user)
{
    struct ahead *ahead = user;
    compile_crew_run(&ahead->crew, ahead->texts[item], ahead->timeout, result);
}

static bool take_outcome(size_t item, void *result, void *user)
{
    struct ahead *ahead = user;
    struct outcome *outcome = result;
    (void)item;
    bool usable = true;
    if (outcome != NULL) {
        usable = outcome->status == GDPA_OK || tool_exit_code(outcome->status) != EXIT_NO_DEVICE;
        ahead->compiled += outcome->status == GDPA_OK && !outcome->hit ? 1 : 0;
        ahead->failed += outcome->status != GDPA_OK ? 1 : 0;
        outcome_deinit(outcome);
    }
    return usable && !tool_interrupted();
}

static bool show_progress(size_t done, size_t running, void *user)
{
    struct ahead *ahead = user;
    pthread_mutex_lock(&ahead->tool->stderr_lock);
    const char *label = running < ahead->count ? ahead->texts[running] : NULL;
    progress_update(&ahead->progress, done, ahead->failed, label, clock_seconds());
    pthread_mutex_unlock(&ahead->tool->stderr_lock);
    return !tool_interrupted();
}

void compile_ahead(struct tool *tool, const char *const *texts, size_t count, int jobs, double timeout,
                   enum progress_mode mode)
{
    if (count < 2 || jobs < 2) {
        return;
    }
    struct ahead ahead = {.tool = tool, .texts = texts, .count = count, .timeout = timeout};
    const struct pool_work work = {
        .count = count,
        .threads = jobs,
        .result_size = sizeof(struct outcome),
        .run = compile_one,
        .over = take_outcome,
        .tick = show_progress,
        .user = &ahead,
    };
    enum pool_state *states = tool_alloc(count * sizeof *states);
    const double start = clock_seconds();
    progress_init(&ahead.progress, stderr, tool->quiet ? PROGRESS_NEVER : mode, count, start);
    tool->progress = &ahead.progress;
    compile_crew_init(&ahead.crew, tool);
    pool_run(&work, states); /* no limit of time in the pool: no thread is left behind */
    compile_crew_deinit(&ahead.crew);
    progress_hide(&ahead.progress);
    tool->progress = NULL;
    if (ahead.compiled > 0) {
        tool_note(tool, "%zu kernel%s compiled ahead in %.1f s, %d at a time", ahead.compiled,
                  ahead.compiled == 1 ? "" : "s", clock_seconds() - start, jobs);
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
