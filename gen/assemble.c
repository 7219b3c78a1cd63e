/*
 * Source of a kernel: provenance comment and body. See assemble.h.
 */
#include "gen/assemble.h"

#include <string.h>

#include "gen/body.h"
#include "gen/fail.h"
#include "gen/hash.h"

/* How every source begins; a text that begins otherwise (an edited one) has no provenance comment. */
static const char provenance_start[] = "/*\n * Made by libgdpajit ";
static const char provenance_end[] = "\n */\n";

const char *generator_id(void)
{
    return embedded_templates.id;
}

static void add_provenance(const struct template_set *set, const gdpa_spec *spec, const struct kernel_plan *plan,
                           const char *name, struct sbuf *source)
{
    struct sbuf text;
    sbuf_init(&text, 4096);
    spec_print(spec, &text);
    sbuf_addf(source, "%s" GDPA_VERSION_STRING ". The kernel is at the end, what it calls before it.\n *\n",
              provenance_start);
    sbuf_addf(source, " * spec       %s\n * kernel     %s\n * generator  %s\n * plan       ", text.text, name, set->id);
    plan_print_line(plan, source);
    sbuf_addf(source, "\n * again      gdpa-jit show source \"%s\"%s", text.text, provenance_end);
    source->overflow = source->overflow || text.overflow;
    sbuf_deinit(&text);
}

static gdpa_status generate(const struct template_set *set, const gdpa_spec *spec, const struct kernel_plan *plan,
                            struct sbuf *body, struct sbuf *name, struct sbuf *source, struct sbuf *why)
{
    TRY(body_assemble(set, spec, plan, body, why));
    kernel_name_of_body(spec, plan, body, name);
    add_provenance(set, spec, plan, name->text, source);
    sbuf_addstr(source, "\n");
    if (body_add_named(body, name->text, source) == 0) {
        return fail(why, GDPA_E_INTERNAL, "templates/%s has no entry function called " ENTRY_PLACEHOLDER,
                    plan_family_template(spec->pass, plan->family));
    }
    if (source->overflow || name->overflow) {
        return fail(why, GDPA_E_MEMORY, "out of memory for a kernel source of %zu bytes", body->length);
    }
    return GDPA_OK;
}

gdpa_status source_generate_from(const struct template_set *set, const gdpa_spec *normalised,
                                 const struct kernel_plan *plan, struct sbuf *source, struct sbuf *why)
{
    struct sbuf body, name;
    sbuf_init(&body, SOURCE_LIMIT);
    sbuf_init(&name, 256);
    gdpa_status status = generate(set, normalised, plan, &body, &name, source, why);
    sbuf_deinit(&name);
    sbuf_deinit(&body);
    return status;
}

gdpa_status source_generate(const gdpa_spec *normalised, const struct kernel_plan *plan, struct sbuf *source,
                            struct sbuf *why)
{
    return source_generate_from(&embedded_templates, normalised, plan, source, why);
}

void source_hash(const char *source, size_t length, char hex[33])
{
    size_t start = sizeof(provenance_start) - 1;
    const char *body = source;
    if (length >= start && memcmp(source, provenance_start, start) == 0) {
        size_t end = sizeof(provenance_end) - 1;
        for (size_t i = start; i + end <= length; ++i) {
            if (memcmp(source + i, provenance_end, end) == 0) {
                body = source + i + end;
                break;
            }
        }
    }
    hash_hex(body, length - (size_t)(body - source), hex);
}
