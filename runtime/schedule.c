/*
 * Schedules of the caller: how large they are, and their making, by the forward kernel of the spec.
 */
#include "runtime/kernel.h"
#include "runtime/launch_checks.h"

/* *own: the spec of a forward kernel that reads schedules, where its family has such. */
static gdpa_status spec_of_reader(const gdpa_spec *spec, gdpa_spec *own)
{
    struct sbuf why;
    sbuf_init(&why, WHY_LIMIT);
    gdpa_spec forward = GDPA_SPEC_INIT;
    gdpa_status status = spec_normalise(spec, true, &forward, &why); /* of whatever version the caller's is */
    if (status != GDPA_OK) {
        error_set_why(status, &why);
    }
    sbuf_deinit(&why);
    TRY(status);
    forward.pass = GDPA_PASS_FORWARD;
    forward.deterministic = 0;
    forward.schedule = spec_is_listed(&forward) ? forward.schedule : GDPA_SCHEDULE_DYNAMIC;
    *own = forward;
    return GDPA_OK;
}

static gdpa_status reader_find(gdpa_ctx *ctx, const gdpa_spec *spec, const gdpa_args *args, struct CUstream_st *stream,
                               gdpa_kernel **kernel)
{
    FAIL_IF(ctx == NULL || spec == NULL || args == NULL, GDPA_E_ARGUMENT, "%s is NULL",
            ctx == NULL    ? "ctx"
            : spec == NULL ? "spec"
                           : "args");
    gdpa_spec own;
    TRY(spec_of_reader(spec, &own));
    return kernel_borrow(ctx, &own, stream, kernel);
}

gdpa_status gdpa_schedule_size(gdpa_ctx *ctx, const gdpa_spec *spec, const gdpa_args *args, size_t *bytes)
{
    FAIL_IF(bytes == NULL, GDPA_E_ARGUMENT, "bytes is NULL");
    gdpa_kernel *kernel = NULL;
    TRY(reader_find(ctx, spec, args, NULL, &kernel));
    struct gdpa_fwd_params params;
    TRY(schedule_params_fill(&kernel->spec, args, &params));
    *bytes = spec_is_listed(&kernel->spec) && params.batch > 0 ? (size_t)schedule_bytes(params.batch) : 0;
    return GDPA_OK;
}

gdpa_status gdpa_schedule_build(gdpa_ctx *ctx, const gdpa_spec *spec, const gdpa_args *args, void *schedule,
                                size_t bytes, struct CUstream_st *stream)
{
    gdpa_kernel *kernel = NULL;
    TRY(reader_find(ctx, spec, args, stream, &kernel));
    return kernel_make_schedule(kernel, args, schedule, bytes, stream);
}
