/*
 * Texts and structs of specs, as anybody may give them: what is accepted has one canonical form that is accepted again and
 * says the same; nothing else happens.
 *
 *     byte 0: even: the rest is a text; odd: the rest are the bytes of a struct
 */
#include "tests/fuzz/fuzz.h"

#include "gen/assemble.h"
#include "gen/plan.h"
#include "gen/spec.h"

#include <string.h>

/* The canonical text of a normalised spec, parsed and normalised, is that spec. */
static void expect_stable(const gdpa_spec *normalised)
{
    struct sbuf text, again, why;
    gdpa_spec parsed, second;
    sbuf_init(&text, 4096);
    sbuf_init(&again, 4096);
    sbuf_init(&why, 1 << 16);
    spec_print(normalised, &text);
    memset(&parsed, 0, sizeof parsed);
    parsed.size = sizeof parsed;
    FUZZ_EXPECT(spec_parse(text.text, &parsed, &why) == GDPA_OK);
    FUZZ_EXPECT(spec_normalise(&parsed, true, &second, &why) == GDPA_OK);
    FUZZ_EXPECT(memcmp(normalised, &second, sizeof second) == 0);
    spec_print(&second, &again);
    FUZZ_EXPECT(strcmp(text.text, again.text) == 0);
    sbuf_deinit(&why);
    sbuf_deinit(&again);
    sbuf_deinit(&text);
}

/* A spec with an arch has a plan that passes its own checks, or a reason why not. */
static void expect_plan(const gdpa_spec *normalised)
{
    struct kernel_plan plan;
    struct sbuf why, name;
    sbuf_init(&why, 1 << 16);
    sbuf_init(&name, 512);
    if (normalised->arch != 0 && plan_make(normalised, &plan, NULL, &why) == GDPA_OK) {
        FUZZ_EXPECT(plan_check(normalised, &plan, &why) == GDPA_OK);
        kernel_name(normalised, &plan, &name);
        FUZZ_EXPECT(!name.overflow && name.length > 0);
    } else {
        FUZZ_EXPECT(normalised->arch == 0 || why.length > 0);
    }
    sbuf_deinit(&name);
    sbuf_deinit(&why);
}

static void take_spec(const gdpa_spec *spec)
{
    struct sbuf why;
    gdpa_spec normalised;
    sbuf_init(&why, 1 << 16);
    if (spec_normalise(spec, true, &normalised, &why) == GDPA_OK) {
        expect_stable(&normalised);
        expect_plan(&normalised);
    } else {
        FUZZ_EXPECT(why.length > 0);
    }
    sbuf_deinit(&why);
}

static void take_text(const struct fuzz_input *input)
{
    struct sbuf why;
    gdpa_spec spec, untouched;
    char *text = malloc(input->size + 1);
    FUZZ_EXPECT(text != NULL);
    memcpy(text, input->data, input->size);
    text[input->size] = '\0';
    memset(&spec, 0x5a, sizeof spec);
    untouched = spec;
    sbuf_init(&why, 1 << 16);
    if (spec_parse(text, &spec, &why) == GDPA_OK) {
        take_spec(&spec);
    } else {
        FUZZ_EXPECT(why.length > 0 && memcmp(&spec, &untouched, sizeof spec) == 0);
    }
    sbuf_deinit(&why);
    free(text);
}

/* Exactly as large as it says, so that a look beyond its end is seen. */
static void take_struct(const struct fuzz_input *input)
{
    const size_t size = input->size < sizeof(size_t) ? sizeof(size_t) : input->size;
    gdpa_spec *spec = calloc(1, size);
    FUZZ_EXPECT(spec != NULL);
    memcpy(spec, input->data, input->size);
    memcpy(spec, &size, sizeof size);
    take_spec(spec);
    free(spec);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_input input = {data, size};
    if (fuzz_byte(&input) % 2 == 0) {
        take_text(&input);
    } else {
        take_struct(&input);
    }
    return 0;
}
