/*
 * Entry symbols. Fixed order, defaults left out, so that a profiler's list reads and sorts well:
 *
 *     gdpa_fwd_sm90_d128_bf16_silu_causal_jqjk_4f1c9a2b
 *
 * The last part is the hash of canonical spec, plan and body: kernels of other code have other names.
 */
#include "gen/body.h"
#include "gen/hash.h"
#include "gen/tables.h"

static const char *choice_name(enum option_id option, const gdpa_spec *spec)
{
    const struct option_row *row = &option_rows[option];
    return choice_by_number(row->kind, option_get(row, spec))->name;
}

static void add_readable(const gdpa_spec *spec, struct sbuf *name)
{
    sbuf_addf(name, "gdpa_%s_sm%d_d%d", choice_by_number(OPTION_KIND_CHOICE_PASS, spec->pass)->name, (int)spec->arch,
              (int)spec->head_dim);
    if (spec->head_dim_v != spec->head_dim) {
        sbuf_addf(name, "_dv%d", (int)spec->head_dim_v);
    }
    sbuf_addf(name, "_%s", choice_name(OPTION_ID_dtype, spec));
    if (spec->out_dtype != spec->dtype) {
        sbuf_addf(name, "_o%s", choice_name(OPTION_ID_out_dtype, spec));
    }
    sbuf_addf(name, "_%s%s", choice_name(OPTION_ID_activation, spec), spec->causal ? "_causal" : "");
    if ((spec->flags & GDPA_SPEC_WINDOW_LEFT) != 0) {
        sbuf_addf(name, "_wl%d", (int)spec->window_left);
    }
    if ((spec->flags & GDPA_SPEC_WINDOW_RIGHT) != 0) {
        sbuf_addf(name, "_wr%d", (int)spec->window_right);
    }
    sbuf_addstr(name, spec->align == GDPA_ALIGN_TOP_LEFT ? "_tl" : "");
    bool jagged_q = spec->layout_q == GDPA_LAYOUT_JAGGED, jagged_k = spec->layout_k == GDPA_LAYOUT_JAGGED;
    sbuf_addf(name, "%s%s%s", jagged_q || jagged_k ? "_" : "", jagged_q ? "jq" : "", jagged_k ? "jk" : "");
    sbuf_addstr(name, spec->unaligned ? "_unaligned" : "");
    sbuf_addstr(name, spec->deterministic ? "_deterministic" : "");
    if (spec->schedule != GDPA_SCHEDULE_AUTO) {
        sbuf_addf(name, "_%s", choice_name(OPTION_ID_schedule, spec));
    }
    if (spec->family != GDPA_FAMILY_AUTO) {
        sbuf_addf(name, "_%s", choice_name(OPTION_ID_family, spec));
    }
}

void kernel_name_of_body(const gdpa_spec *normalised, const struct kernel_plan *plan, const struct sbuf *body,
                         struct sbuf *name)
{
    struct sbuf material;
    char hex[33];
    sbuf_init(&material, SOURCE_LIMIT);
    spec_print(normalised, &material);
    sbuf_addstr(&material, "\n");
    plan_print_line(plan, &material);
    sbuf_addstr(&material, "\n");
    sbuf_add(&material, body->text, body->length);
    hash_hex(material.text, material.length, hex);
    bool incomplete = material.overflow;
    sbuf_deinit(&material);
    add_readable(normalised, name);
    sbuf_addf(name, "_%.8s", hex);
    name->overflow = name->overflow || incomplete;
}

void kernel_name(const gdpa_spec *normalised, const struct kernel_plan *plan, struct sbuf *name)
{
    struct sbuf body;
    sbuf_init(&body, SOURCE_LIMIT);
    /* A body that cannot be made is source_generate's to report; the name is then that of what there is of it. */
    (void)body_assemble(&embedded_templates, normalised, plan, &body, NULL);
    kernel_name_of_body(normalised, plan, &body, name);
    sbuf_deinit(&body);
}
