/*
 * The kernel that suits the arguments better than the spec's own; in mode strict the spec's own does where only that was made beforehand.
 */
#include "runtime/kernel.h"

/* Neither kernel is there: the last error, of the spec's own, names a command that makes both. */
static gdpa_status neither_ready(gdpa_ctx *ctx, const gdpa_spec *chosen, struct CUstream_st *stream)
{
    gdpa_spec complete;
    struct sbuf text;
    TRY(kernel_spec_complete(ctx, chosen, stream, &complete));
    sbuf_init(&text, WHY_LIMIT);
    sbuf_addf(&text, "%s '", gdpa_last_error()); /* the command ends it */
    spec_print(&complete, &text);
    sbuf_addstr(&text, "'");
    if (!text.overflow) {
        error_set_why(GDPA_E_NOT_READY, &text);
        error_prefix("with these arguments the kernel of the last spec named here is the better one");
    }
    sbuf_deinit(&text);
    return GDPA_E_NOT_READY;
}

/* Once a kernel that stands in; the last error is on the one that it stands in for. */
static void stand_in_note(const gdpa_ctx *ctx, gdpa_kernel *kernel)
{
    if (!atomic_exchange_explicit(&kernel->stands_in, true, memory_order_relaxed)) {
        log_write(&ctx->log, GDPA_LOG_INFO, LOG_CACHE,
                  "%s, which may be slower, is launched in place of another one: %s", kernel->name, gdpa_last_error());
    }
}

gdpa_status kernel_borrow_better(gdpa_ctx *ctx, const gdpa_spec *spec, const gdpa_spec *chosen,
                                 struct CUstream_st *stream, gdpa_kernel **kernel)
{
    gdpa_status status = chosen != NULL ? kernel_borrow(ctx, chosen, stream, kernel) : GDPA_E_NOT_READY;
    if (status != GDPA_E_NOT_READY) {
        return status;
    }
    status = kernel_borrow(ctx, spec, stream, kernel);
    if (status == GDPA_OK && chosen != NULL) {
        stand_in_note(ctx, *kernel);
    }
    return status == GDPA_E_NOT_READY && chosen != NULL ? neither_ready(ctx, chosen, stream) : status;
}
