/*
 * Kernels that are compiled but not kept are of no use to warm.
 */
#ifndef GDPA_TOOLS_WARM_KEPT_H
#define GDPA_TOOLS_WARM_KEPT_H

#include "tools/compile_worker.h"

/* Before and after: whether the cache can be written at all. An exit code. */
int warm_check_cache(struct tool *tool, gdpa_ctx *ctx);

/* After: whether every kernel that was compiled is in it. An exit code. */
int warm_check_kept(struct tool *tool, gdpa_ctx *ctx, const struct outcome *outcomes, size_t count);

#endif
