/*
 * tables: every .def table against the public header, against itself and against the documents made from it
 * (docs/options.md and docs/activations.md, written by `make golden-update`).
 */
#include "gen/tables.h"

#include <math.h>

#include "gen/template.h"
#include "tests/gen/update.h"

/* ---- the header ---- */

static void numbers_are_those_of_the_header(void **state)
{
    (void)state;
#define ACTIVATION(SUFFIX, number, name, aliases, file, kind, rel, abs, param, formula, derivative)                    \
    assert_int_equal(GDPA_ACTIVATION_##SUFFIX, number);
#include "gen/activations.def"
#undef ACTIVATION
#define DTYPE(SUFFIX, number, name, aliases, bytes, is_input) assert_int_equal(GDPA_DTYPE_##SUFFIX, number);
#include "gen/dtypes.def"
#undef DTYPE
#define PASS(SUFFIX, number, name, aliases, doc) assert_int_equal(GDPA_PASS_##SUFFIX, number);
#define LAYOUT(SUFFIX, number, name, aliases, doc) assert_int_equal(GDPA_LAYOUT_##SUFFIX, number);
#define ALIGN(SUFFIX, number, name, aliases, doc) assert_int_equal(GDPA_ALIGN_##SUFFIX, number);
#define SCHEDULE(SUFFIX, number, name, aliases, doc) assert_int_equal(GDPA_SCHEDULE_##SUFFIX, number);
#define FAMILY(SUFFIX, number, name, aliases, doc) assert_int_equal(GDPA_FAMILY_##SUFFIX, number);
#include "gen/choices.def"
}

/* How many enumerators of the header start with the prefix: " = " stands behind each of them. */
static size_t count_enumerators(const char *header, const char *prefix)
{
    size_t count = 0;
    for (const char *at = strstr(header, prefix); at != NULL; at = strstr(at + 1, prefix)) {
        size_t word = strspn(at, "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_");
        count += strncmp(at + word, " = ", 3) == 0;
    }
    return count;
}

static void the_header_has_no_value_that_a_table_lacks(void **state)
{
    (void)state;
    static const struct {
        const char *prefix;
        enum option_kind kind;
    } cases[] = {
        {"GDPA_ACTIVATION_", OPTION_KIND_CHOICE_ACTIVATION},
        {"GDPA_DTYPE_", OPTION_KIND_CHOICE_DTYPE},
        {"GDPA_PASS_", OPTION_KIND_CHOICE_PASS},
        {"GDPA_LAYOUT_", OPTION_KIND_CHOICE_LAYOUT},
        {"GDPA_ALIGN_", OPTION_KIND_CHOICE_ALIGN},
        {"GDPA_SCHEDULE_", OPTION_KIND_CHOICE_SCHEDULE},
        {"GDPA_FAMILY_", OPTION_KIND_CHOICE_FAMILY},
    };
    struct sbuf header;
    sbuf_init(&header, (size_t)1 << 20);
    assert_true(read_tree_file("include/gdpajit.h", &header));
    for (size_t i = 0; i < COUNT_OF(cases); ++i) {
        size_t rows = choice_table(cases[i].kind).count;
        assert_int_equal(count_enumerators(header.text, cases[i].prefix), rows + 1); /* and the one that is 0 */
    }
    sbuf_deinit(&header);
}

static void every_field_of_a_spec_is_an_option(void **state)
{
    (void)state;
    /* size, flags and pass are no options; all others are one int32_t each. */
    assert_int_equal(sizeof(gdpa_spec), sizeof(size_t) + sizeof(uint32_t) + sizeof(int32_t) * (OPTION_COUNT + 1));
    for (size_t i = 0; i < OPTION_COUNT; ++i) {
        gdpa_spec spec = {0}, empty = {0};
        option_set(&option_rows[i], &spec, -7);
        assert_int_equal(option_get(&option_rows[i], &spec), -7);
        assert_memory_not_equal(&spec, &empty, sizeof(spec));
        assert_int_equal(option_rows[i].id, i);
    }
}

static void the_header_lists_the_architectures(void **state)
{
    (void)state;
    struct sbuf header, list;
    sbuf_init(&header, (size_t)1 << 20);
    sbuf_init(&list, 4096);
    assert_true(read_tree_file("include/gdpajit.h", &header));
    struct choice_table archs = choice_table(OPTION_KIND_CHOICE_ARCH);
    for (size_t i = 0; i < archs.count; ++i) {
        sbuf_addf(&list, "%s%d", i > 0 ? ", " : "compute capability * 10: ", archs.rows[i].number);
    }
    sbuf_addstr(&list, ";");
    assert_contains(header.text, list.text);
    sbuf_deinit(&list);
    sbuf_deinit(&header);
}

/* ---- the tables by themselves ---- */

static void ranges_of_choices_are_those_of_their_tables(void **state)
{
    (void)state;
    for (size_t i = 0; i < OPTION_COUNT; ++i) {
        const struct option_row *row = &option_rows[i];
        struct choice_table table = choice_table(row->kind);
        if (table.count == 0) {
            continue;
        }
        assert_int_equal(row->step, 1);
        int32_t lowest = INT32_MAX, highest = 0;
        for (size_t j = 0; j < table.count; ++j) {
            const struct dtype_row *dtype = dtype_find(table.rows[j].number);
            if (row->id == OPTION_ID_dtype && !dtype->is_input) {
                continue;
            }
            lowest = table.rows[j].number < lowest ? table.rows[j].number : lowest;
            highest = table.rows[j].number > highest ? table.rows[j].number : highest;
        }
        assert_int_equal(row->lowest, lowest);
        assert_int_equal(row->highest, highest);
    }
}

/* Adds each word of a list to *seen, and fails when it is there. */
static void add_words(const char *list, struct sbuf *seen)
{
    char words[300], *rest = words;
    assert_true(strlen(list) < sizeof(words));
    strcpy(words, list);
    for (char *word; (word = strtok_r(rest, " ", &rest)) != NULL;) {
        if (word_list_has(seen->text, word, strlen(word))) {
            fail_msg("'%s' is there twice", word);
        }
        sbuf_addf(seen, "%s ", word);
    }
}

static void no_name_or_alias_is_there_twice(void **state)
{
    (void)state;
    struct sbuf seen;
    sbuf_init(&seen, 1 << 16);
    for (size_t i = 0; i < OPTION_COUNT; ++i) {
        add_words(option_rows[i].name, &seen);
        add_words(option_rows[i].aliases, &seen);
    }
    /* A pass may not have the name of an option: it stands in the same place. */
    for (int kind = OPTION_KIND_CHOICE_PASS; kind <= OPTION_KIND_CHOICE_ARCH; ++kind) {
        if (kind != OPTION_KIND_CHOICE_PASS) {
            sbuf_reset(&seen);
        }
        struct choice_table table = choice_table((enum option_kind)kind);
        assert_true(table.count > 0);
        for (size_t i = 0; i < table.count; ++i) {
            add_words(table.rows[i].name, &seen);
            add_words(table.rows[i].aliases, &seen);
            assert_true(table.rows[i].number > 0); /* 0 is the default */
            assert_true(i == 0 || table.rows[i].number > table.rows[i - 1].number);
        }
    }
    sbuf_deinit(&seen);
}

static void rows_are_found_by_number_and_by_word(void **state)
{
    (void)state;
    assert_string_equal(activation_find(GDPA_ACTIVATION_FAST_GELU)->file, "fast_gelu");
    assert_false(activation_find(GDPA_ACTIVATION_FAST_GELU)->exact);
    assert_true(activation_find(GDPA_ACTIVATION_GELU)->exact);
    assert_true(activation_find(GDPA_ACTIVATION_LEAKY_RELU)->param_default == 0.01);
    assert_null(activation_find(0));
    assert_int_equal(dtype_find(GDPA_DTYPE_FP32)->bytes, 4);
    assert_false(dtype_find(GDPA_DTYPE_FP32)->is_input);
    assert_null(dtype_find(4));
    assert_string_equal(arch_find(90)->target, "sm_90a");
    assert_null(arch_find(91));
    assert_int_equal(option_find("dv", 2)->id, OPTION_ID_head_dim_v);
    assert_null(option_find("head_di", 7));
    assert_null(option_find("", 0));
    assert_int_equal(choice_by_word(OPTION_KIND_CHOICE_ARCH, "hopper", 6)->number, 90);
    assert_null(choice_by_word(OPTION_KIND_CHOICE_ARCH, "hopper ", 7));
    assert_null(choice_by_word(OPTION_KIND_INT, "64", 2));
    assert_null(choice_by_number(OPTION_KIND_BOOL, 1));
}

static void word_lists_hold_whole_words(void **state)
{
    (void)state;
    assert_true(word_list_has("ab cd  ef", "cd", 2));
    assert_true(word_list_has("ab cd  ef", "ef", 2));
    assert_false(word_list_has("ab cd  ef", "c", 1));
    assert_false(word_list_has("ab cd  ef", "ab cd", 5));
    assert_false(word_list_has("ab", "", 0));
    assert_false(word_list_has("", "a", 1));
}

static void architectures_can_hold_a_block(void **state)
{
    (void)state;
    struct choice_table archs = choice_table(OPTION_KIND_CHOICE_ARCH);
    for (size_t i = 0; i < archs.count; ++i) {
        const struct arch_row *arch = arch_find(archs.rows[i].number);
        char target[16];
        assert_int_equal(arch->smem_block + 1024, arch->smem_sm);
        assert_int_equal(arch->regs_sm, 65536);
        assert_true(arch->warps_sm == 48 || arch->warps_sm == 64);
        /* From Hopper on, a target with its suffix: code for this chip and no other. */
        snprintf(target, sizeof(target), "sm_%d%s", arch->number, arch->number >= 90 ? "a" : "");
        assert_string_equal(arch->target, target);
    }
}

static void every_activation_has_its_template(void **state)
{
    (void)state;
    struct choice_table activations = choice_table(OPTION_KIND_CHOICE_ACTIVATION);
    for (size_t i = 0; i < activations.count; ++i) {
        const struct activation_row *row = activation_find(activations.rows[i].number);
        char path[96];
        snprintf(path, sizeof(path), "activation/%s.cuh", row->file);
        assert_non_null(template_find(&embedded_templates, path, strlen(path)));
        assert_int_equal(row->exact, row->rel == 0 && row->abs == 0);
    }
}

/* "constexpr int NAME = VALUE;" lines: the default config declares exactly the generated names, in their order. */
static void the_default_config_has_the_generated_names(void **state)
{
    (void)state;
    static const char *const names[] = {
#define CONFIG(name, when, value, doc) #name,
#include "gen/config.def"
#undef CONFIG
    };
    const struct template_file *file = template_find(&embedded_templates, "config_default.cuh", 18);
    assert_non_null(file);
    size_t count = 0;
    for (const char *at = strstr(file->text, "constexpr int "); at != NULL; at = strstr(at + 1, "constexpr int ")) {
        char name[64];
        assert_int_equal(sscanf(at, "constexpr int %63[A-Za-z0-9_] = ", name), 1);
        assert_true(count < COUNT_OF(names));
        assert_string_equal(name, names[count]);
        ++count;
    }
    assert_int_equal(count, COUNT_OF(names));
}

/* ---- the documents ---- */

/* Table cells may not hold a bar. */
static void add_cell(struct sbuf *text, const char *cell)
{
    for (; *cell != '\0'; ++cell) {
        sbuf_addf(text, *cell == '|' ? "\\%c" : "%c", *cell);
    }
}

static void add_words_as_code(struct sbuf *text, const char *list)
{
    for (const char *separator = ""; *list != '\0'; separator = ", ") {
        size_t length = strcspn(list, " ");
        sbuf_addf(text, "%s`%.*s`", separator, (int)length, list);
        list += length;
        list += strspn(list, " ");
    }
}

static void add_values(struct sbuf *text, const struct option_row *row)
{
    struct choice_table table = choice_table(row->kind);
    if (row->kind == OPTION_KIND_BOOL) {
        sbuf_addstr(text, "on, off");
    } else if (row->kind == OPTION_KIND_INT && row->step == 1) {
        sbuf_addf(text, "%d to %d", row->lowest, row->highest);
    } else if (row->kind == OPTION_KIND_INT) {
        sbuf_addf(text, "multiples of %d from %d to %d", row->step, row->lowest, row->highest);
    } else if (row->kind == OPTION_KIND_CHOICE_ACTIVATION) {
        sbuf_addstr(text, "[activations.md](activations.md)");
    } else if (row->kind == OPTION_KIND_CHOICE_ARCH) {
        sbuf_addstr(text, "[below](#architectures)");
    } else {
        const char *separator = "";
        for (size_t i = 0; i < table.count; ++i) {
            if (table.rows[i].number <= row->highest) {
                sbuf_addf(text, "%s`%s`", separator, table.rows[i].name);
                separator = ", ";
            }
        }
    }
}

static void add_choices(struct sbuf *text, const char *title, enum option_kind kind)
{
    struct choice_table table = choice_table(kind);
    sbuf_addf(text, "\n## %s\n\n| name | also | number | |\n|---|---|---|---|\n", title);
    for (size_t i = 0; i < table.count; ++i) {
        sbuf_addf(text, "| `%s` | ", table.rows[i].name);
        add_words_as_code(text, table.rows[i].aliases);
        sbuf_addf(text, " | %d | ", table.rows[i].number);
        add_cell(text, table.rows[i].doc);
        sbuf_addstr(text, " |\n");
    }
}

static void the_page_of_options_is_that_of_the_tables(void **state)
{
    (void)state;
    struct sbuf text;
    sbuf_init(&text, 1 << 16);
    sbuf_addstr(&text,
                "# Options of a spec\n\n"
                "Made from `gen/options.def`, `gen/choices.def`, `gen/dtypes.def` and `gen/archs.def` by "
                "`make golden-update`.\n\n"
                "A spec in text is the pass (`fwd` may be left out), then options in any order: `name=value`, or the "
                "name alone to "
                "switch an on/off option on\n(else `1`, `true`, `on`, `yes`, `0`, `false`, `off`, `no`). The canonical "
                "text has them "
                "in the order of this table, always with `head_dim`, `dtype` and\n`activation`, and without what is a "
                "default or has "
                "no effect:\n\n    fwd head_dim=128 dtype=bf16 activation=silu causal layout_q=jagged arch=sm_90a\n\n"
                "## Options\n\n| name | also | values | |\n|---|---|---|---|\n");
    for (size_t i = 0; i < OPTION_COUNT; ++i) {
        const struct option_row *row = &option_rows[i];
        sbuf_addf(&text, "| `%s` | ", row->name);
        add_words_as_code(&text, row->aliases);
        sbuf_addstr(&text, " | ");
        add_values(&text, row);
        sbuf_addstr(&text, " | ");
        add_cell(&text, row->doc);
        sbuf_addstr(&text, " |\n");
    }
    add_choices(&text, "Passes", OPTION_KIND_CHOICE_PASS);
    add_choices(&text, "Element types", OPTION_KIND_CHOICE_DTYPE);
    add_choices(&text, "Alignments", OPTION_KIND_CHOICE_ALIGN);
    add_choices(&text, "Layouts", OPTION_KIND_CHOICE_LAYOUT);
    add_choices(&text, "Schedules", OPTION_KIND_CHOICE_SCHEDULE);
    add_choices(&text, "Families", OPTION_KIND_CHOICE_FAMILY);
    add_choices(&text, "Architectures", OPTION_KIND_CHOICE_ARCH);
    assert_false(text.overflow);
    assert_tree_file("docs/options.md", text.text);
    sbuf_deinit(&text);
}

/* "2^-7" */
static void add_power_of_2(struct sbuf *text, double value)
{
    int exponent = 0;
    assert_true(frexp(value, &exponent) == 0.5);
    sbuf_addf(text, "2^%d", exponent - 1);
}

static void add_bound(struct sbuf *text, const struct activation_row *row)
{
    if (row->exact) {
        sbuf_addstr(text, "exact");
        return;
    }
    add_power_of_2(text, row->rel);
    sbuf_addstr(text, " max(1, abs x)");
    if (row->abs > 0) {
        sbuf_addstr(text, " + ");
        add_power_of_2(text, row->abs);
    }
}

static void the_page_of_activations_is_that_of_the_table(void **state)
{
    (void)state;
    struct choice_table activations = choice_table(OPTION_KIND_CHOICE_ACTIVATION);
    struct sbuf text;
    sbuf_init(&text, 1 << 16);
    sbuf_addstr(
        &text,
        "# Activations\n\n"
        "Made from `gen/activations.def` by `make golden-update`. The function f of a kernel and its derivative f', "
        "for "
        "float64 input x; both are computed\nin fp32 by `templates/activation/`.\n\n"
        "*exact*: the error is at most 2^-10 abs f(x) + 2^-14 for every x, and so for f'. Otherwise the bound of both "
        "is in the "
        "table. `a` is the run-time\nargument `activation_param`. At a kink the derivative is that of PyTorch. A score "
        "that is not a number "
        "gives NaN, and so\n"
        "does its derivative but for relu (0), leaky_relu (a) and identity (1); an infinite one "
        "gives the "
        "limit of f, or NaN where f is a product with 0 there.\n\n"
        "| name | also | number | f(x) | f'(x) | error | a |\n|---|---|---|---|---|---|---|\n");
    for (size_t i = 0; i < activations.count; ++i) {
        const struct activation_row *row = activation_find(activations.rows[i].number);
        sbuf_addf(&text, "| `%s` | ", row->name);
        add_words_as_code(&text, row->aliases);
        sbuf_addf(&text, " | %d | ", row->number);
        add_cell(&text, row->formula);
        sbuf_addstr(&text, " | ");
        add_cell(&text, row->derivative);
        sbuf_addstr(&text, " | ");
        add_bound(&text, row);
        if (row->param_default != 0) {
            sbuf_addf(&text, " | %g |\n", row->param_default);
        } else {
            sbuf_addstr(&text, " | |\n");
        }
    }
    assert_false(text.overflow);
    assert_tree_file("docs/activations.md", text.text);
    sbuf_deinit(&text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_are_those_of_the_header),
        cmocka_unit_test(the_header_has_no_value_that_a_table_lacks),
        cmocka_unit_test(every_field_of_a_spec_is_an_option),
        cmocka_unit_test(the_header_lists_the_architectures),
        cmocka_unit_test(ranges_of_choices_are_those_of_their_tables),
        cmocka_unit_test(no_name_or_alias_is_there_twice),
        cmocka_unit_test(rows_are_found_by_number_and_by_word),
        cmocka_unit_test(word_lists_hold_whole_words),
        cmocka_unit_test(architectures_can_hold_a_block),
        cmocka_unit_test(every_activation_has_its_template),
        cmocka_unit_test(the_default_config_has_the_generated_names),
        cmocka_unit_test(the_page_of_options_is_that_of_the_tables),
        cmocka_unit_test(the_page_of_activations_is_that_of_the_table),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
