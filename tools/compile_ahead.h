/*
 * Kernels that a command is going to use one after the other, compiled on all processors before it begins: it then finds them in the cache.
 */
#ifndef GDPA_TOOLS_COMPILE_AHEAD_H
#define GDPA_TOOLS_COMPILE_AHEAD_H

#include "tools/bench_case.h"
#include "tools/progress.h"
#include "tools/tool.h"

#include <stddef.h>

/*
 * Compiles those that are not in the cache, `jobs` at a time, each in at most `timeout` seconds (0: no limit). What fails is left to the command,
 * which meets it again and says why. Without a compiler or a device, and at an interrupt, no more are begun. Nothing is open in this process
 * afterwards: it may fork.
 */
void compile_ahead(struct tool *tool, const char *const *texts, size_t count, int jobs, double timeout,
                   enum progress_mode mode);

/* The same of the kernels of a benchmark on a device of this architecture, as --jobs says. */
void compile_ahead_cases(struct tool *tool, const struct bench_case *cases, size_t count, int arch);

#endif
