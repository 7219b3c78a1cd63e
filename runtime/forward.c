/*
 * The one-call forward: gdpa_kernel_get and gdpa_launch, with the choice of the unaligned kernel where it is needed, of the family that
 * the lengths suggest, and of the schedule `dynamic` where the caller has one.
 */
#include "gen/plan.h"
#include "runtime/kernel.h"
#include "runtime/launch_checks.h"

static int64_t longest(bool jagged, int64_t seqlen, int64_t total, int64_t max_seqlen)
{
    return !jagged ? seqlen : max_seqlen > 0 && max_seqlen < total ? max_seqlen : total;
}

/* The family that the lengths suggest for a spec that leaves the choice; GDPA_FAMILY_AUTO: none. */
static int32_t family_by_lengths(const gdpa_spec *spec, const gdpa_args *args)
{
    const int64_t longest_k =
        longest(spec->layout_k == GDPA_LAYOUT_JAGGED, args->seqlen_k, args->total_k, args->max_seqlen_k);
    if (longest_k > PLAN_FEW_KEYS) {
        return GDPA_FAMILY_AUTO; /* at once, for most calls */
    }
    struct plan_lengths lengths = {
        longest(spec->layout_q == GDPA_LAYOUT_JAGGED, args->seqlen_q, args->total_q, args->max_seqlen_q), longest_k,
        INT64_MAX};
    if (__builtin_mul_overflow(args->batch, args->heads_q, &lengths.pairs)) {
        return GDPA_FAMILY_AUTO; /* the launch refuses it */
    }
    return plan_family_for(spec, &lengths);
}

/* Whether *own, then filled in, is a better spec for these arguments. Structs of another version are left as they are. */
static bool choose(const gdpa_spec *spec, const gdpa_args *args, gdpa_spec *own)
{
    if (spec->size != sizeof *spec || args->size != sizeof *args) {
        return false;
    }
    const int32_t family = family_by_lengths(spec, args);
    const bool dynamic =
        args->schedule != NULL && (spec->schedule == GDPA_SCHEDULE_DEFAULT || spec->schedule == GDPA_SCHEDULE_AUTO);
    if (family == GDPA_FAMILY_AUTO && !dynamic) {
        return false;
    }
    *own = *spec;
    if (family != GDPA_FAMILY_AUTO) {
        own->family = family;
    } else {
        own->schedule = GDPA_SCHEDULE_DYNAMIC;
    }
    return true;
}

/* *own becomes the spec normalised, with unaligned set where a tensor needs it. */
static gdpa_status spec_for_tensors(const gdpa_spec *spec, const gdpa_args *args, gdpa_spec *own)
{
    struct sbuf why;
    sbuf_init(&why, WHY_LIMIT);
    gdpa_status status = spec_normalise(spec, true, own, &why);
    if (status != GDPA_OK) {
        error_set_why(status, &why);
    }
    sbuf_deinit(&why);
    TRY(status);
    const char *tensor = own->unaligned != 0 ? NULL : args_unaligned_tensor(own, args);
    if (tensor != NULL) {
        TRY(unaligned_family_check(spec, tensor));
        own->unaligned = 1;
    }
    return GDPA_OK;
}

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
        error_prefix("with these arguments the kernel of the last spec named here is the faster one");
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

/* In mode strict a kernel that was made beforehand, though slower, is better than none. `chosen` may be NULL. */
static gdpa_status borrow(gdpa_ctx *ctx, const gdpa_spec *spec, const gdpa_spec *chosen, struct CUstream_st *stream,
                          gdpa_kernel **kernel)
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

static gdpa_status forward(gdpa_ctx *ctx, const gdpa_spec *spec, const gdpa_spec *chosen, const gdpa_args *args,
                           struct CUstream_st *stream)
{
    const bool as_it_is =
        spec->size == sizeof *spec && (spec->unaligned != 0 || args_unaligned_tensor(spec, args) == NULL);
    gdpa_kernel *kernel = NULL;
    gdpa_spec own;
    if (!as_it_is) {
        TRY(spec_for_tensors(spec, args, &own));
        spec = &own;
        chosen = NULL;
    }
    FAIL_IF(spec->pass == GDPA_PASS_BACKWARD, GDPA_E_ARGUMENT, "pass is bwd; gdpa_forward runs forward kernels");
    TRY(borrow(ctx, spec, chosen, stream, &kernel));
    return gdpa_launch(kernel, args, NULL, 0, stream);
}

gdpa_status gdpa_forward(gdpa_ctx *ctx, const gdpa_spec *spec, const gdpa_args *args, struct CUstream_st *stream)
{
    FAIL_IF(ctx == NULL || spec == NULL || args == NULL, GDPA_E_ARGUMENT, "%s is NULL",
            ctx == NULL    ? "ctx"
            : spec == NULL ? "spec"
                           : "args");
    gdpa_status status = GDPA_OK;
    gdpa_spec own;
    const gdpa_spec *chosen = choose(spec, args, &own) ? &own : NULL;
    gdpa_kernel *kernel = kernel_at_hand(ctx, chosen != NULL ? chosen : spec);
    if (kernel != NULL && kernel_launch_quickly(kernel, args, stream, &status)) {
        kernel_hit(ctx);
        return status;
    }
    return forward(ctx, spec, chosen, args, stream);
}
