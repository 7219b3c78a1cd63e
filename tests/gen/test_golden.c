/*
 * golden: generated sources against tests/golden/, so that a change of a template, a plan or the generator shows what it
 * does to kernels. `make golden-update` writes the files anew.
 *
 * The version of the generator changes with every edit and is left out of the files.
 */
#include <dirent.h>

#include "gen/assemble.h"
#include "gen/tables.h"
#include "tests/gen/update.h"

static const struct {
    const char *file, *spec;
} goldens[] = {
#define GOLDEN(file, spec) {"tests/golden/" file, spec},
#include "tests/golden/golden.def"
#undef GOLDEN
};

/* The source with the generator's version blanked out. */
static void golden_source(const char *text, struct sbuf *golden)
{
    gdpa_spec spec = spec_of(text);
    struct kernel_plan plan = plan_of(&spec);
    struct sbuf source, why;
    sbuf_init(&source, (size_t)1 << 22);
    sbuf_init(&why, 4096);
    if (source_generate(&spec, &plan, &source, &why) != GDPA_OK) {
        fail_msg("%s: %s", text, why.text);
    }
    char *id = strstr(source.text, generator_id());
    assert_non_null(id);
    assert_null(strstr(id + 1, generator_id()));
    sbuf_add(golden, source.text, (size_t)(id - source.text));
    sbuf_addstr(golden, "(this version)");
    sbuf_addstr(golden, id + strlen(generator_id()));
    assert_false(golden->overflow);
    sbuf_deinit(&why);
    sbuf_deinit(&source);
}

static void sources_are_those_of_the_golden_files(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(goldens); ++i) {
        struct sbuf golden;
        sbuf_init(&golden, (size_t)1 << 22);
        golden_source(goldens[i].spec, &golden);
        assert_tree_file(goldens[i].file, golden.text);
        sbuf_deinit(&golden);
    }
}

static bool is_listed(const char *name)
{
    for (size_t i = 0; i < COUNT_OF(goldens); ++i) {
        if (strcmp(strrchr(goldens[i].file, '/') + 1, name) == 0) {
            return true;
        }
    }
    return false;
}

static void every_golden_file_is_listed(void **state)
{
    (void)state;
    DIR *folder = opendir(TEST_SOURCE_DIR "/tests/golden");
    assert_non_null(folder);
    size_t found = 0;
    for (struct dirent *entry; (entry = readdir(folder)) != NULL;) {
        size_t length = strlen(entry->d_name);
        if (length > 3 && strcmp(entry->d_name + length - 3, ".cu") == 0) {
            if (!is_listed(entry->d_name)) {
                fail_msg("tests/golden/%s is not in tests/golden/golden.def", entry->d_name);
            }
            ++found;
        }
    }
    closedir(folder);
    assert_int_equal(found, COUNT_OF(goldens));
}

/* Which values of each choice, and which sides of each on/off option, have a golden source. */
static void golden_specs_cover_the_small_choices(void **state)
{
    (void)state;
    static const enum option_id covered[] = {OPTION_ID_dtype,    OPTION_ID_out_dtype, OPTION_ID_causal,
                                             OPTION_ID_align,    OPTION_ID_layout_q,  OPTION_ID_layout_k,
                                             OPTION_ID_unaligned};
    for (size_t c = 0; c < COUNT_OF(covered); ++c) {
        const struct option_row *row = &option_rows[covered[c]];
        for (int32_t value = row->lowest; value <= row->highest; ++value) {
            bool found = false;
            for (size_t i = 0; i < COUNT_OF(goldens) && !found; ++i) {
                gdpa_spec spec = spec_of(goldens[i].spec);
                found = option_get(row, &spec) == value;
            }
            if (!found) {
                fail_msg("no golden source has %s %d", row->name, value);
            }
        }
    }
}

static void golden_sources_are_of_every_family(void **state)
{
    (void)state;
    struct choice_table families = choice_table(OPTION_KIND_CHOICE_FAMILY);
    for (size_t f = 0; f < families.count; ++f) {
        bool found = families.rows[f].number == GDPA_FAMILY_AUTO;
        for (size_t i = 0; i < COUNT_OF(goldens) && !found; ++i) {
            gdpa_spec spec = spec_of(goldens[i].spec);
            found = plan_of(&spec).family == families.rows[f].number;
        }
        if (!found) {
            fail_msg("no golden source is of family %s", families.rows[f].name);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sources_are_those_of_the_golden_files),
        cmocka_unit_test(every_golden_file_is_listed),
        cmocka_unit_test(golden_specs_cover_the_small_choices),
        cmocka_unit_test(golden_sources_are_of_every_family),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
