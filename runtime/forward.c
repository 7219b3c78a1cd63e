/*
 * The one-call forward: gdpa_kernel_get and gdpa_launch, with the choice of the unaligned kernel where it is needed.
 */
#include "runtime/kernel.h"
#include "runtime/launch_checks.h"

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

static gdpa_status forward(gdpa_ctx *ctx, const gdpa_spec *spec, const gdpa_args *args, struct CUstream_st *stream)
{
    const bool as_it_is =
        spec->size == sizeof *spec && (spec->unaligned != 0 || args_unaligned_tensor(spec, args) == NULL);
    gdpa_kernel *kernel = NULL;
    gdpa_spec own;
    if (!as_it_is) {
        TRY(spec_for_tensors(spec, args, &own));
        spec = &own;
    }
    FAIL_IF(spec->pass == GDPA_PASS_BACKWARD, GDPA_E_ARGUMENT, "pass is bwd; gdpa_forward runs forward kernels");
    TRY(kernel_borrow(ctx, spec, stream, &kernel));
    return gdpa_launch(kernel, args, NULL, 0, stream);
}

gdpa_status gdpa_forward(gdpa_ctx *ctx, const gdpa_spec *spec, const gdpa_args *args, struct CUstream_st *stream)
{
    FAIL_IF(ctx == NULL || spec == NULL || args == NULL, GDPA_E_ARGUMENT, "%s is NULL",
            ctx == NULL    ? "ctx"
            : spec == NULL ? "spec"
                           : "args");
    gdpa_status status = GDPA_OK;
    gdpa_kernel *kernel = kernel_at_hand(ctx, spec);
    if (kernel != NULL && kernel_launch_quickly(kernel, args, stream, &status)) {
        kernel_hit(ctx);
        return status;
    }
    return forward(ctx, spec, args, stream);
}
