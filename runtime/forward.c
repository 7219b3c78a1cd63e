/*
 * The one-call forward: gdpa_kernel_get and gdpa_launch, with the choice of the unaligned kernel where it is needed.
 */
#include "runtime/kernel.h"
#include "runtime/launch_checks.h"

/* The spec to use: the caller's, or *own with unaligned set. */
static gdpa_status spec_for_tensors(const gdpa_spec *spec, const gdpa_args *args, gdpa_spec *own,
                                    const gdpa_spec **chosen)
{
    *chosen = spec;
    if (spec->size == sizeof *spec && (spec->unaligned != 0 || !args_are_unaligned(spec, args))) {
        return GDPA_OK;
    }
    struct sbuf why;
    sbuf_init(&why, WHY_LIMIT);
    const gdpa_status status = spec_normalise(spec, true, own, &why);
    if (status != GDPA_OK) {
        error_set_why(status, &why);
    } else {
        own->unaligned = own->unaligned != 0 || args_are_unaligned(own, args);
        *chosen = own;
    }
    sbuf_deinit(&why);
    return status;
}

gdpa_status gdpa_forward(gdpa_ctx *ctx, const gdpa_spec *spec, const gdpa_args *args, struct CUstream_st *stream)
{
    FAIL_IF(ctx == NULL || spec == NULL || args == NULL, GDPA_E_ARGUMENT, "%s is NULL",
            ctx == NULL    ? "ctx"
            : spec == NULL ? "spec"
                           : "args");
    gdpa_spec own;
    const gdpa_spec *chosen = NULL;
    TRY(spec_for_tensors(spec, args, &own, &chosen));
    FAIL_IF(chosen->size == sizeof *chosen && chosen->pass == GDPA_PASS_BACKWARD, GDPA_E_ARGUMENT,
            "pass is bwd; gdpa_forward runs forward kernels");
    gdpa_kernel *kernel = NULL;
    TRY(kernel_get(ctx, chosen, stream, &kernel));
    const gdpa_status status = gdpa_launch(kernel, args, NULL, 0, stream);
    gdpa_kernel_release(kernel);
    return status;
}
