/*
 * The one-call forward: gdpa_kernel_get and gdpa_launch, with the choice of the unaligned kernel where it is needed, of the family that
 * the lengths suggest, and of the schedule `dynamic` where the caller has one.
 */
#include "gen/plan.h"
#include "runtime/kernel.h"
#include "runtime/launch_checks.h"

/* The family that the lengths suggest for a spec that leaves the choice; GDPA_FAMILY_AUTO: none. */
static int32_t family_by_lengths(const gdpa_spec *spec, const gdpa_args *args)
{
    const int64_t longest_k =
        longest_rows(spec->layout_k == GDPA_LAYOUT_JAGGED, args->seqlen_k, args->total_k, args->max_seqlen_k);
    if (longest_k > PLAN_FEW_KEYS) {
        return GDPA_FAMILY_AUTO; /* at once, for most calls */
    }
    struct plan_lengths lengths = {.longest_q = longest_rows(spec->layout_q == GDPA_LAYOUT_JAGGED, args->seqlen_q,
                                                             args->total_q, args->max_seqlen_q),
                                   .longest_k = longest_k,
                                   .mean_k = longest_k};
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
    const bool dynamic = schedule_is_followed(spec, args);
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
    TRY(kernel_borrow_better(ctx, spec, chosen, stream, &kernel));
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
