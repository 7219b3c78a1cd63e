/*
 * A list of kernels, compiled several at a time in processes of their own, with a bar of progress.
 */
#ifndef GDPA_TOOLS_COMPILE_LIST_H
#define GDPA_TOOLS_COMPILE_LIST_H

#include "tools/compile_worker.h"
#include "tools/pool.h"
#include "tools/progress.h"

struct compile_list {
    struct tool *tool;
    const char *const *texts; /* specs, in the order in which they are begun */
    size_t count;
    int jobs;
    double timeout; /* seconds a kernel; 0: no limit */
    enum progress_mode mode;
    /* One at a time: a kernel is over. The outcome's texts pass to it. False, or an interrupt: no more are begun. */
    bool (*take)(size_t item, struct outcome *outcome, void *user);
    void *user;
    /* What came of it. */
    size_t failed; /* as outcomes say when `take` is done with them, added to what it was */
    double seconds;
    long long peak_bytes; /* largest resident set of a worker */
    struct compile_crew crew;
    struct progress progress;
};

/* states: what became of each. No thread and no process is left behind. */
void compile_list_run(struct compile_list *list, enum pool_state *states);

#endif
