/*
 * The one-call backward: gdpa_kernel_get and gdpa_launch, with the choice of the unaligned kernel where it is needed, of the family that
 * the lengths suggest, and of the schedule `dynamic` where the caller has one.
 */
#include "gen/plan.h"
#include "runtime/kernel.h"
#include "runtime/launch_checks.h"

#include <string.h>

/* The spec to use, *own: that of the caller, made a backward one, and unaligned where the tensors need it. */
static gdpa_status spec_for_tensors(const gdpa_spec *spec, const gdpa_args *args, gdpa_spec *own)
{
    *own = (gdpa_spec)GDPA_SPEC_INIT;
    if (spec->size == sizeof *own) {
        *own = *spec;
    } else { /* one of another version: checked, then what is known of it, before a default pass would become fwd */
        struct sbuf why;
        gdpa_spec normalised;
        sbuf_init(&why, WHY_LIMIT);
        const gdpa_status status = spec_normalise(spec, true, &normalised, &why);
        if (status != GDPA_OK) {
            error_set_why(status, &why);
        }
        sbuf_deinit(&why);
        TRY(status);
        memcpy(own, spec, spec->size < sizeof *own ? spec->size : sizeof *own);
        own->size = sizeof *own;
    }
    FAIL_IF(own->pass == GDPA_PASS_FORWARD, GDPA_E_ARGUMENT,
            "pass is fwd; gdpa_backward runs backward kernels: leave pass out, or set it to bwd");
    own->pass = own->pass == GDPA_PASS_DEFAULT ? GDPA_PASS_BACKWARD : own->pass;
    const char *tensor = own->unaligned != 0 ? NULL : args_unaligned_tensor(own, args);
    if (tensor != NULL) {
        TRY(unaligned_family_check(own, tensor));
        own->unaligned = 1;
    }
    return GDPA_OK;
}

static int64_t longest_keys(const gdpa_spec *spec, const gdpa_args *args)
{
    return longest_rows(spec->layout_k == GDPA_LAYOUT_JAGGED, args->seqlen_k, args->total_k, args->max_seqlen_k);
}

/*
 * The family that the lengths suggest for a spec that leaves the choice; GDPA_FAMILY_AUTO: none. Args of another version suggest none.
 * without_sums: any that can do without sums of dq, if another one is faster or not.
 */
static int32_t family_by_lengths(gdpa_ctx *ctx, const gdpa_spec *spec, const gdpa_args *args, bool without_sums,
                                 struct CUstream_st *stream)
{
    if (args->size != sizeof *args || args->dq.data == NULL) {
        return GDPA_FAMILY_AUTO;
    }
    const bool jagged_k = spec->layout_k == GDPA_LAYOUT_JAGGED;
    struct plan_lengths lengths = {.longest_q = longest_rows(spec->layout_q == GDPA_LAYOUT_JAGGED, args->seqlen_q,
                                                             args->total_q, args->max_seqlen_q),
                                   .longest_k = longest_keys(spec, args)};
    lengths.mean_k = jagged_k && args->batch > 0 && !without_sums ? args->total_k / args->batch : lengths.longest_k;
    if (lengths.longest_k > PLAN_PAIR_KEYS || /* at once, for most calls */
        __builtin_mul_overflow(args->batch, args->heads_k, &lengths.pairs)) {
        return GDPA_FAMILY_AUTO;
    }
    lengths.pairs = without_sums ? INT64_MAX : lengths.pairs;
    gdpa_spec with_arch = *spec;
    with_arch.arch = kernel_arch(ctx, spec, stream);
    return with_arch.arch != 0 ? plan_family_for(&with_arch, &lengths) : GDPA_FAMILY_AUTO;
}

static gdpa_status kernel_for(gdpa_ctx *ctx, const gdpa_spec *spec, const gdpa_args *args, bool without_sums,
                              struct CUstream_st *stream, gdpa_kernel **kernel)
{
    FAIL_IF(ctx == NULL || spec == NULL || args == NULL, GDPA_E_ARGUMENT, "%s is NULL",
            ctx == NULL    ? "ctx"
            : spec == NULL ? "spec"
                           : "args");
    gdpa_spec own;
    TRY(spec_for_tensors(spec, args, &own));
    gdpa_spec chosen = own;
    const int32_t family = family_by_lengths(ctx, &own, args, without_sums, stream);
    if (family != GDPA_FAMILY_AUTO) {
        chosen.family = family;
    } else if (schedule_is_followed(&own, args)) {
        chosen.schedule = GDPA_SCHEDULE_DYNAMIC;
    } else {
        return kernel_borrow(ctx, &own, stream, kernel);
    }
    return kernel_borrow_better(ctx, &own, &chosen, stream, kernel);
}

gdpa_status gdpa_backward(gdpa_ctx *ctx, const gdpa_spec *spec, const gdpa_args *args, void *workspace,
                          size_t workspace_bytes, struct CUstream_st *stream)
{
    gdpa_kernel *kernel = NULL;
    TRY(kernel_for(ctx, spec, args, false, stream, &kernel));
    const gdpa_status status = gdpa_launch(kernel, args, workspace, workspace_bytes, stream);
    /*
     * Which kernel is the fastest depends on more than the maxima; but a workspace that was made for the largest call has to do for all. One
     * that is too small for sums is enough for a family without.
     */
    if (status != GDPA_E_WORKSPACE || args->size != sizeof *args || longest_keys(spec, args) > PLAN_PAIR_KEYS) {
        return status;
    }
    TRY(kernel_for(ctx, spec, args, true, stream, &kernel));
    return gdpa_launch(kernel, args, workspace, workspace_bytes, stream);
}

gdpa_status gdpa_backward_workspace_size(gdpa_ctx *ctx, const gdpa_spec *spec, const gdpa_args *args, size_t *bytes)
{
    FAIL_IF(bytes == NULL, GDPA_E_ARGUMENT, "bytes is NULL");
    gdpa_kernel *kernel = NULL;
    TRY(kernel_for(ctx, spec, args, false, NULL, &kernel));
    return gdpa_workspace_size(kernel, args, bytes);
}
