/*
 * The public calls on specs: gen/ does the work, reasons become the last error.
 */
#include "gen/plan.h"
#include "runtime/kernel.h"

#include <string.h>

static gdpa_status finish(gdpa_status status, struct sbuf *why)
{
    if (status != GDPA_OK) {
        error_set_why(status, why);
    }
    sbuf_deinit(why);
    return status;
}

gdpa_status gdpa_spec_parse(const char *text, gdpa_spec *spec)
{
    FAIL_IF(text == NULL || spec == NULL, GDPA_E_ARGUMENT, "%s is NULL", text == NULL ? "text" : "spec");
    struct sbuf why;
    sbuf_init(&why, WHY_LIMIT);
    return finish(spec_parse(text, spec, &why), &why);
}

gdpa_status gdpa_spec_format(const gdpa_spec *spec, char *text, size_t capacity, size_t *length)
{
    FAIL_IF(spec == NULL, GDPA_E_ARGUMENT, "spec is NULL");
    struct sbuf why, canonical;
    gdpa_spec normalised;
    sbuf_init(&why, WHY_LIMIT);
    TRY(finish(spec_normalise(spec, true, &normalised, &why), &why));
    sbuf_init(&canonical, 4096);
    spec_print(&normalised, &canonical);
    const gdpa_status status = canonical.overflow ? error_set(GDPA_E_MEMORY, "no memory for the text of a spec")
                                                  : bytes_give("text of the spec", canonical.text, canonical.length,
                                                               true, text, capacity, length);
    sbuf_deinit(&canonical);
    return status;
}

static gdpa_status check(const gdpa_spec *spec, struct sbuf *why)
{
    gdpa_spec normalised;
    struct kernel_plan plan;
    TRY(spec_normalise(spec, true, &normalised, why));
    return normalised.arch == 0 ? plan_check_pass(&normalised, why) : plan_make(&normalised, &plan, NULL, why);
}

gdpa_status gdpa_spec_check(const gdpa_spec *spec)
{
    FAIL_IF(spec == NULL, GDPA_E_ARGUMENT, "spec is NULL");
    struct sbuf why;
    sbuf_init(&why, WHY_LIMIT);
    return finish(check(spec, &why), &why);
}

gdpa_status gdpa_spec_bounds(const char *option, int32_t *lowest, int32_t *highest, int32_t *step)
{
    FAIL_IF(option == NULL, GDPA_E_ARGUMENT, "option is NULL");
    int32_t bounds[3] = {0, 0, 0};
    struct sbuf why;
    sbuf_init(&why, WHY_LIMIT);
    TRY(finish(spec_bounds(option, &bounds[0], &bounds[1], &bounds[2], &why), &why));
    int32_t *const outputs[] = {lowest, highest, step};
    for (int i = 0; i < 3; i++) {
        if (outputs[i] != NULL) {
            *outputs[i] = bounds[i];
        }
    }
    return GDPA_OK;
}
