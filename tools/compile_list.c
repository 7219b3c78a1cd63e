/*
 * See compile_list.h.
 */
#include "tools/compile_list.h"

#include <pthread.h>
#include <stdio.h>

static void compile_one(size_t item, void *result, void *user)
{
    struct compile_list *list = user;
    compile_crew_run(&list->crew, list->texts[item], list->timeout, result);
}

/* The pool has no limit of time, so there is always a result. */
static bool take_outcome(size_t item, void *result, void *user)
{
    struct compile_list *list = user;
    struct outcome *outcome = result;
    const bool more = list->take(item, outcome, list->user);
    list->failed += outcome->status != GDPA_OK ? 1 : 0;
    return more && !tool_interrupted();
}

static bool show_progress(size_t done, size_t running, void *user)
{
    struct compile_list *list = user;
    pthread_mutex_lock(&list->tool->stderr_lock);
    const char *label = running < list->count ? list->texts[running] : NULL;
    progress_update(&list->progress, done, list->failed, label, clock_seconds());
    pthread_mutex_unlock(&list->tool->stderr_lock);
    return !tool_interrupted();
}

void compile_list_run(struct compile_list *list, enum pool_state *states)
{
    const struct pool_work work = {
        .count = list->count,
        .threads = list->jobs,
        .result_size = sizeof(struct outcome),
        .run = compile_one,
        .over = take_outcome,
        .tick = show_progress,
        .user = list,
    };
    const double start = clock_seconds();
    progress_init(&list->progress, stderr, list->tool->quiet ? PROGRESS_NEVER : list->mode, work.count, start);
    list->tool->progress = &list->progress;
    compile_crew_init(&list->crew, list->tool);
    pool_run(&work, states);
    compile_crew_deinit(&list->crew);
    progress_hide(&list->progress);
    list->tool->progress = NULL;
    list->seconds = clock_seconds() - start;
    list->peak_bytes = list->crew.peak_bytes;
}
