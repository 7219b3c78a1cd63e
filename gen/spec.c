/*
 * Specs: check and normalise. The ranges come from options.def; what depends on more than one field is here.
 */
#include "gen/spec.h"

#include <string.h>

#include "gen/fail.h"
#include "gen/plan.h"
#include "gen/tables.h"

/* The oldest struct that could be meant ends after the last required field. Fields are appended, one int32_t each. */
enum { SMALLEST_SIZE = offsetof(gdpa_spec, causal), LARGEST_SIZE = 4096 };

#define KNOWN_FLAGS (GDPA_SPEC_WINDOW_LEFT | GDPA_SPEC_WINDOW_RIGHT)

/* The caller's struct in the size that this library knows; what an older caller's struct lacks stays 0 in *copy. */
static gdpa_status copy_known(const gdpa_spec *spec, gdpa_spec *copy, struct sbuf *why)
{
    if (spec == NULL) {
        return fail(why, GDPA_E_ARGUMENT, "spec is NULL");
    }
    size_t size;
    memcpy(&size, spec, sizeof(size));
    if (size < SMALLEST_SIZE || size > LARGEST_SIZE || size % sizeof(int32_t) != 0) {
        return fail(why, GDPA_E_VERSION,
                    "spec.size is %zu, this library knows %zu; initialise the spec with GDPA_SPEC_INIT", size,
                    sizeof(*copy));
    }
    memcpy(copy, spec, size < sizeof(*copy) ? size : sizeof(*copy));
    for (size_t i = sizeof(*copy); i < size; ++i) {
        if (((const unsigned char *)spec)[i] != 0) {
            return fail(why, GDPA_E_VERSION,
                        "spec.size is %zu and byte %zu of it is set, beyond the %zu bytes that this library knows; "
                        "use a newer libgdpajit",
                        size, i, sizeof(*copy));
        }
    }
    if ((copy->flags & ~KNOWN_FLAGS) != 0) {
        return fail(why, GDPA_E_VERSION, "spec.flags is 0x%x; this library knows 0x%x", (unsigned)copy->flags,
                    KNOWN_FLAGS);
    }
    copy->size = sizeof(*copy);
    return GDPA_OK;
}

static void add_names(struct sbuf *why, const struct option_row *row)
{
    struct choice_table table = choice_table(row->kind);
    const char *separator = "";
    for (size_t i = 0; i < table.count; ++i) {
        if (table.rows[i].number >= row->lowest && table.rows[i].number <= row->highest) {
            sbuf_addf(why, "%s%s (%d)", separator, table.rows[i].name, (int)table.rows[i].number);
            separator = ", ";
        }
    }
}

gdpa_status option_check(const struct option_row *row, int32_t value, struct sbuf *why)
{
    if (value >= row->lowest && value <= row->highest && ((int64_t)value - row->lowest) % row->step == 0) {
        if (choice_table(row->kind).count == 0 || choice_by_number(row->kind, value) != NULL) {
            return GDPA_OK;
        }
    }
    if (row->kind == OPTION_KIND_BOOL) {
        return fail(why, GDPA_E_ARGUMENT, "%s is %d; legal are 0 and 1", row->name, (int)value);
    }
    if (row->kind == OPTION_KIND_INT && row->step == 1) {
        return fail(why, GDPA_E_ARGUMENT, "%s is %d; legal are %d to %d", row->name, (int)value, (int)row->lowest,
                    (int)row->highest);
    }
    if (row->kind == OPTION_KIND_INT) {
        return fail(why, GDPA_E_ARGUMENT, "%s is %d; legal are multiples of %d from %d to %d", row->name, (int)value,
                    (int)row->step, (int)row->lowest, (int)row->highest);
    }
    const struct choice *known = choice_by_number(row->kind, value);
    fail(why, GDPA_E_ARGUMENT, "%s is %s%s%d%s; legal are ", row->name, known != NULL ? known->name : "",
         known != NULL ? " (" : "", (int)value, known != NULL ? ")" : "");
    add_names(why, row);
    return GDPA_E_ARGUMENT;
}

/* The required fields, which have no default. */
static gdpa_status check_required(const gdpa_spec *spec, bool arch_optional, struct sbuf *why)
{
    if (spec->head_dim == 0) {
        return fail(why, GDPA_E_ARGUMENT, "head_dim is not given; legal are multiples of 8 from 8 to 256");
    }
    if (spec->activation == GDPA_ACTIVATION_UNSET) {
        fail(why, GDPA_E_ARGUMENT, "activation is not given, and there is no default; legal are ");
        add_names(why, &option_rows[OPTION_ID_activation]);
        return GDPA_E_ARGUMENT;
    }
    if (spec->arch == 0 && !arch_optional) {
        fail(why, GDPA_E_ARGUMENT, "arch is not given; legal are ");
        add_names(why, &option_rows[OPTION_ID_arch]);
        return GDPA_E_ARGUMENT;
    }
    return GDPA_OK;
}

static gdpa_status check_window(const char *name, int32_t value, bool flagged, struct sbuf *why)
{
    if (!flagged && value > 0) {
        return fail(why, GDPA_E_ARGUMENT,
                    "%s is %d, but its bit in spec.flags is not set; set GDPA_SPEC_WINDOW_%s, or leave the field 0",
                    name, (int)value, strcmp(name, "window_left") == 0 ? "LEFT" : "RIGHT");
    }
    return GDPA_OK;
}

static gdpa_status check_fields(const gdpa_spec *spec, bool arch_optional, struct sbuf *why)
{
    if (spec->pass != GDPA_PASS_DEFAULT && choice_by_number(OPTION_KIND_CHOICE_PASS, spec->pass) == NULL) {
        return fail(why, GDPA_E_ARGUMENT, "pass is %d; legal are fwd (1), bwd (2)", (int)spec->pass);
    }
    TRY(check_required(spec, arch_optional, why));
    for (size_t i = 0; i < OPTION_COUNT; ++i) {
        int32_t value = option_get(&option_rows[i], spec);
        if (value != 0) { /* 0 is the default of every field that is not required */
            TRY(option_check(&option_rows[i], value, why));
        }
    }
    TRY(check_window("window_left", spec->window_left, (spec->flags & GDPA_SPEC_WINDOW_LEFT) != 0, why));
    return check_window("window_right", spec->window_right, (spec->flags & GDPA_SPEC_WINDOW_RIGHT) != 0, why);
}

static int32_t value_or(int32_t value, int32_t otherwise)
{
    return value != 0 ? value : otherwise;
}

/* No sequence is longer than INT32_MAX - 1, so a side of INT32_MAX sees everything. */
static bool side_is_bounded(bool flagged, int32_t value)
{
    return flagged && value >= 0 && value < INT32_MAX;
}

static void normalise_band(gdpa_spec *spec)
{
    bool left = side_is_bounded((spec->flags & GDPA_SPEC_WINDOW_LEFT) != 0, spec->window_left);
    bool right = side_is_bounded((spec->flags & GDPA_SPEC_WINDOW_RIGHT) != 0, spec->window_right);
    /* causal is the window_right of 0 under its better known name. */
    if (spec->causal || (right && spec->window_right == 0)) {
        spec->causal = 1;
        right = false;
    }
    spec->flags = (left ? GDPA_SPEC_WINDOW_LEFT : 0) | (right ? GDPA_SPEC_WINDOW_RIGHT : 0);
    spec->window_left = left ? spec->window_left : -1;
    spec->window_right = right ? spec->window_right : -1;
    bool masked = left || right || spec->causal;
    spec->align = masked ? value_or(spec->align, GDPA_ALIGN_BOTTOM_RIGHT) : GDPA_ALIGN_BOTTOM_RIGHT;
}

/* A family that would be taken anyway is not asked for. Without an arch nobody knows yet which one that is. */
static void normalise_family(gdpa_spec *spec)
{
    if (spec->family == GDPA_FAMILY_DEFAULT || (spec->arch != 0 && spec->family == plan_auto_family(spec))) {
        spec->family = GDPA_FAMILY_AUTO;
    }
}

bool spec_bounds_left(const gdpa_spec *spec)
{
    return (spec->flags & GDPA_SPEC_WINDOW_LEFT) != 0;
}

bool spec_bounds_right(const gdpa_spec *spec)
{
    return spec->causal != 0 || (spec->flags & GDPA_SPEC_WINDOW_RIGHT) != 0;
}

bool spec_is_listed(const gdpa_spec *spec)
{
    return spec->schedule == GDPA_SCHEDULE_ZIGZAG || spec->schedule == GDPA_SCHEDULE_DYNAMIC;
}

/* Whether the planner's choice may be another one than tiles dealt out in turn. */
static bool may_share_out(const gdpa_spec *spec)
{
    return spec->layout_q == GDPA_LAYOUT_JAGGED && !spec_bounds_left(spec) && !spec_bounds_right(spec);
}

/* Whether blocks loop over tiles. Without an arch nobody knows yet which family it will be. */
static bool may_be_persistent(const gdpa_spec *spec)
{
    if (spec->arch == 0) {
        return spec->family != GDPA_FAMILY_PORTABLE;
    }
    return (spec->family == GDPA_FAMILY_AUTO ? plan_auto_family(spec) : spec->family) == GDPA_FAMILY_SM90;
}

/*
 * A schedule that changes nothing is not asked for: the hardware deals the blocks of the portable family out, one by one as an SM becomes
 * free.
 */
static void normalise_schedule(gdpa_spec *spec)
{
    const bool same =
        spec->schedule == GDPA_SCHEDULE_STATIC && (spec->pass == GDPA_PASS_BACKWARD || !may_share_out(spec));
    if (spec->schedule == GDPA_SCHEDULE_DEFAULT || !may_be_persistent(spec) || same) {
        spec->schedule = GDPA_SCHEDULE_AUTO;
    }
}

gdpa_status spec_normalise(const gdpa_spec *spec, bool arch_optional, gdpa_spec *out, struct sbuf *why)
{
    gdpa_spec copy = {0};
    TRY(copy_known(spec, &copy, why));
    TRY(check_fields(&copy, arch_optional, why));
    copy.pass = value_or(copy.pass, GDPA_PASS_FORWARD);
    copy.head_dim_v = value_or(copy.head_dim_v, copy.head_dim);
    copy.dtype = value_or(copy.dtype, GDPA_DTYPE_BF16);
    copy.out_dtype = value_or(copy.out_dtype, copy.dtype);
    copy.layout_q = value_or(copy.layout_q, GDPA_LAYOUT_DENSE);
    copy.layout_k = value_or(copy.layout_k, GDPA_LAYOUT_DENSE);
    normalise_family(&copy);
    if (copy.pass == GDPA_PASS_FORWARD) {
        copy.deterministic = 0;
    }
    normalise_band(&copy);
    normalise_schedule(&copy);
    *out = copy;
    return GDPA_OK;
}

gdpa_status spec_bounds(const char *option, int32_t *lowest, int32_t *highest, int32_t *step, struct sbuf *why)
{
    if (option == NULL) {
        return fail(why, GDPA_E_ARGUMENT, "option is NULL");
    }
    const struct option_row *row = option_find(option, strlen(option));
    if (row == NULL) {
        return option_unknown(option, strlen(option), GDPA_E_NOT_FOUND, why);
    }
    if (lowest != NULL) {
        *lowest = row->lowest;
    }
    if (highest != NULL) {
        *highest = row->highest;
    }
    if (step != NULL) {
        *step = row->step;
    }
    return GDPA_OK;
}
