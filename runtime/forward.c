/*
 * The one-call forward: gdpa_kernel_get and gdpa_launch, with the choice of the unaligned kernel where it is needed, and of the
 * family that the lengths suggest.
 */
#include "gen/plan.h"
#include "runtime/kernel.h"
#include "runtime/launch_checks.h"

static int64_t longest(bool jagged, int64_t seqlen, int64_t total, int64_t max_seqlen)
{
    return !jagged ? seqlen : max_seqlen > 0 && max_seqlen < total ? max_seqlen : total;
}

/*
 * The family that the lengths suggest for a spec that leaves the choice; GDPA_FAMILY_AUTO: none, or structs of another version, which are
 * left as they are.
 */
static int32_t family_by_lengths(const gdpa_spec *spec, const gdpa_args *args)
{
    if (spec->size != sizeof *spec || args->size != sizeof *args) {
        return GDPA_FAMILY_AUTO;
    }
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

/* In mode strict a kernel that was made beforehand, though slower, is better than none. */
static gdpa_status borrow(gdpa_ctx *ctx, const gdpa_spec *spec, int32_t family, struct CUstream_st *stream,
                          gdpa_kernel **kernel)
{
    if (family != GDPA_FAMILY_AUTO) {
        gdpa_spec own = *spec;
        own.family = family;
        const gdpa_status status = kernel_borrow(ctx, &own, stream, kernel);
        if (status != GDPA_E_NOT_READY) {
            return status;
        }
    }
    return kernel_borrow(ctx, spec, stream, kernel);
}

static gdpa_status forward(gdpa_ctx *ctx, const gdpa_spec *spec, int32_t family, const gdpa_args *args,
                           struct CUstream_st *stream)
{
    const bool as_it_is =
        spec->size == sizeof *spec && (spec->unaligned != 0 || args_unaligned_tensor(spec, args) == NULL);
    gdpa_kernel *kernel = NULL;
    gdpa_spec own;
    if (!as_it_is) {
        TRY(spec_for_tensors(spec, args, &own));
        spec = &own;
        family = GDPA_FAMILY_AUTO;
    }
    FAIL_IF(spec->pass == GDPA_PASS_BACKWARD, GDPA_E_ARGUMENT, "pass is bwd; gdpa_forward runs forward kernels");
    TRY(borrow(ctx, spec, family, stream, &kernel));
    return gdpa_launch(kernel, args, NULL, 0, stream);
}

gdpa_status gdpa_forward(gdpa_ctx *ctx, const gdpa_spec *spec, const gdpa_args *args, struct CUstream_st *stream)
{
    FAIL_IF(ctx == NULL || spec == NULL || args == NULL, GDPA_E_ARGUMENT, "%s is NULL",
            ctx == NULL    ? "ctx"
            : spec == NULL ? "spec"
                           : "args");
    gdpa_status status = GDPA_OK;
    const int32_t family = family_by_lengths(spec, args);
    gdpa_spec own;
    const gdpa_spec *likely = spec;
    if (family != GDPA_FAMILY_AUTO) {
        own = *spec;
        own.family = family;
        likely = &own;
    }
    gdpa_kernel *kernel = kernel_at_hand(ctx, likely);
    if (kernel != NULL && kernel_launch_quickly(kernel, args, stream, &status)) {
        kernel_hit(ctx);
        return status;
    }
    return forward(ctx, spec, family, args, stream);
}
