/*
 * The matrices hold what they promise: every value of every option, every pair of factors, every shape; and they stay
 * within the size that a run can afford.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "include/gdpajit.h"
#include "tools/matrix.h"
#include "tools/shapes.h"
#include "tools/vocabulary.h"

enum {
    MOST_KERNELS = 400,
};

struct collected {
    char *texts[MOST_KERNELS];
    gdpa_spec specs[MOST_KERNELS];
    size_t count;
};

static bool collect_one(const char *text, void *user)
{
    struct collected *collected = user;
    assert_true(collected->count < MOST_KERNELS);
    gdpa_spec spec = GDPA_SPEC_INIT;
    if (gdpa_spec_parse(text, &spec) != GDPA_OK) {
        fail_msg("%s: %s", text, gdpa_last_error());
    }
    collected->specs[collected->count] = spec;
    collected->texts[collected->count] = strdup(text);
    assert_non_null(collected->texts[collected->count]);
    collected->count++;
    return true;
}

static struct collected *collect(const char *matrix, const char *arch)
{
    struct collected *collected = calloc(1, sizeof *collected);
    assert_non_null(collected);
    assert_true(matrix_specs(matrix, arch, collect_one, collected));
    assert_int_equal(collected->count, matrix_count(matrix));
    return collected;
}

static void collected_free(struct collected *collected)
{
    for (size_t i = 0; i < collected->count; i++) {
        free(collected->texts[i]);
    }
    free(collected);
}

static void every_spec_is_one_that_has_a_kernel(void **state)
{
    (void)state;
    for (size_t m = 0; matrices[m].name != NULL; m++) {
        struct collected *collected = collect(matrices[m].name, "sm_90a");
        for (size_t i = 0; i < collected->count; i++) {
            if (gdpa_spec_check(&collected->specs[i]) != GDPA_OK) {
                fail_msg("%s: %s", collected->texts[i], gdpa_last_error());
            }
            assert_int_equal(collected->specs[i].arch, 90);
        }
        collected_free(collected);
    }
}

static void no_kernel_is_listed_twice(void **state)
{
    (void)state;
    for (size_t m = 0; matrices[m].name != NULL; m++) {
        struct collected *collected = collect(matrices[m].name, "sm_80");
        char(*canonical)[512] = calloc(collected->count, sizeof *canonical);
        assert_non_null(canonical);
        for (size_t i = 0; i < collected->count; i++) {
            assert_int_equal(gdpa_spec_format(&collected->specs[i], canonical[i], sizeof canonical[i], NULL), GDPA_OK);
            for (size_t other = 0; other < i; other++) {
                if (strcmp(canonical[other], canonical[i]) == 0) {
                    fail_msg("%s: kernels %zu and %zu are %s", matrices[m].name, other, i, canonical[i]);
                }
            }
        }
        free(canonical);
        collected_free(collected);
    }
}

/* Whether a kernel of the list has this number in effect. */
static bool number_met(const struct collected *collected, const struct spec_word *word, int number)
{
    for (size_t i = 0; i < collected->count; i++) {
        if (spec_word_number(word, &collected->specs[i]) == number) {
            return true;
        }
    }
    return false;
}

static int number_of(const struct spec_word *word, const char *value)
{
    char text[128];
    snprintf(text, sizeof text, strcmp(word->name, "pass") == 0 ? "%s%s" : "%s=%s",
             strcmp(word->name, "pass") == 0 ? "" : word->name, value);
    gdpa_spec spec = GDPA_SPEC_INIT;
    assert_int_equal(gdpa_spec_parse(text, &spec), GDPA_OK);
    return spec_word_number(word, &spec);
}

static void default_has_every_value_of_every_option(void **state)
{
    (void)state;
    struct collected *collected = collect("default", NULL);
    for (size_t w = 0; w < spec_word_count; w++) {
        const struct spec_word *word = &spec_words[w];
        const char *value;
        if (strcmp(word->name, "arch") == 0) {
            continue; /* that of the machine */
        }
        for (size_t v = 0; (value = spec_word_value(word, v, NULL)) != NULL; v++) {
            /* auto finds that of an architecture, and those of lengths have a matrix of their own */
            bool elsewhere =
                strcmp(word->name, "family") == 0 &&
                (strncmp(value, "sm", 2) == 0 || strcmp(value, "short") == 0 || strcmp(value, "stream") == 0 ||
                 strcmp(value, "whole") == 0 || strcmp(value, "pairs") == 0);
            if (!elsewhere && !number_met(collected, word, number_of(word, value))) {
                fail_msg("no kernel has %s=%s", word->name, value);
            }
        }
        if (strcmp(word->kind, "BOOL") == 0) {
            assert_true(number_met(collected, word, 0) && number_met(collected, word, 1));
        }
    }
    collected_free(collected);
}

static void default_has_every_head_dimension_asked_for(void **state)
{
    (void)state;
    static const int dims[][2] = {{32, 32},   {64, 64},   {96, 96}, {128, 128}, {192, 192},
                                  {256, 256}, {192, 128}, {40, 40}, {120, 120}};
    struct collected *collected = collect("default", NULL);
    for (size_t d = 0; d < sizeof dims / sizeof *dims; d++) {
        for (int activation = 1; activation <= 17; activation++) {
            bool met = false;
            for (size_t i = 0; i < collected->count; i++) {
                const gdpa_spec *spec = &collected->specs[i];
                int dim_v = spec->head_dim_v != 0 ? spec->head_dim_v : spec->head_dim;
                met = met || (spec->head_dim == dims[d][0] && dim_v == dims[d][1] && spec->activation == activation);
            }
            assert_true(met);
        }
    }
    collected_free(collected);
}

/* Windows by what they bound. */
static void default_has_every_kind_of_mask(void **state)
{
    (void)state;
    static const char *const masks[] = {
        "causal",
        "causal align=top_left",
        "window_left=0 window_right=0",
        "window_left=64",
        "window_right=32 align=top_left",
        "window_left=100 window_right=27",
        "window_left=16 window_right=16 align=top_left",
        "causal window_left=127",
    };
    struct collected *collected = collect("default", NULL);
    for (size_t m = 0; m < sizeof masks / sizeof *masks; m++) {
        int met = 0;
        for (size_t i = 0; i < collected->count; i++) {
            met += strstr(collected->texts[i], masks[m]) != NULL ? 1 : 0;
        }
        assert_true(met >= 10);
    }
    collected_free(collected);
}

/* The words of an option in a text: its value, "" when it is not there. */
static void value_in(const char *text, const char *option, char *value, size_t capacity)
{
    char word[64];
    snprintf(word, sizeof word, " %s", option);
    const char *at = strstr(text, word);
    value[0] = 0;
    if (at != NULL) {
        snprintf(value, capacity, "%.*s", (int)strcspn(at + 1, " "), at + 1);
    }
}

/* Options that a factor sets together are no pair. */
static const struct {
    const char *option;
    int factor;
} paired[] = {
    {"activation=", 0},  {"head_dim=", 1},     {"head_dim_v=", 1},   {"causal", 2},    {"align=", 2},
    {"window_left=", 2}, {"window_right=", 2}, {"layout_q=", 3},     {"layout_k=", 3}, {"dtype=", 4},
    {"out_dtype=", 4},   {"unaligned", 5},     {"deterministic", 6}, /* the last one */
};
enum { PAIRED = sizeof paired / sizeof *paired };

/* For every value of `left` and every value of `right` some kernel has both. */
static void assert_pairs(char values[PAIRED][MOST_KERNELS][48], size_t count, int left, int right)
{
    for (size_t a = 0; a < count; a++) {
        for (size_t b = 0; b < count; b++) {
            bool met = false;
            for (size_t i = 0; i < count && !met; i++) {
                met = strcmp(values[left][i], values[left][a]) == 0 && strcmp(values[right][i], values[right][b]) == 0;
            }
            if (!met) {
                fail_msg("no kernel has %s'%s' with %s'%s'", paired[left].option, values[left][a], paired[right].option,
                         values[right][b]);
            }
        }
    }
}

static void has_every_pair_of_values(const char *matrix, int options)
{
    struct collected *collected = collect(matrix, NULL);
    char(*values)[MOST_KERNELS][48] = calloc(PAIRED, sizeof *values);
    assert_non_null(values);
    for (int option = 0; option < options; option++) {
        for (size_t i = 0; i < collected->count; i++) {
            value_in(collected->texts[i], paired[option].option, values[option][i], sizeof values[option][i]);
        }
    }
    for (int left = 0; left < options; left++) {
        for (int right = left + 1; right < options; right++) {
            if (paired[left].factor != paired[right].factor) {
                assert_pairs(values, collected->count, left, right);
            }
        }
    }
    free(values);
    collected_free(collected);
}

static void default_has_every_pair_of_values(void **state)
{
    (void)state;
    has_every_pair_of_values("default", PAIRED - 1); /* without `deterministic`, which has no effect on a forward */
}

static void backward_has_every_pair_of_values(void **state)
{
    (void)state;
    has_every_pair_of_values("backward", PAIRED);
}

/* The backward's share of `default` is smaller, but lacks nothing. */
static void default_has_every_value_of_the_backward(void **state)
{
    (void)state;
    struct collected *collected = collect("default", NULL);
    bool activations[18] = {false}, dims[257] = {false}, layouts[3][3] = {{false}}, deterministic[2] = {false};
    bool unaligned[2] = {false}, types[3][4] = {{false}}, masked[2] = {false};
    for (size_t i = 0; i < collected->count; i++) {
        const gdpa_spec *spec = &collected->specs[i];
        if (spec->pass != GDPA_PASS_BACKWARD) {
            continue;
        }
        activations[spec->activation] = true;
        dims[spec->head_dim] = true;
        layouts[spec->layout_q != 0 ? spec->layout_q : 1][spec->layout_k != 0 ? spec->layout_k : 1] = true;
        deterministic[spec->deterministic] = true;
        unaligned[spec->unaligned] = true;
        types[spec->dtype][spec->out_dtype != 0 ? spec->out_dtype : spec->dtype] = true;
        masked[spec->causal] = true;
    }
    for (int a = 1; a <= 17; a++) {
        assert_true(activations[a]);
    }
    assert_true(dims[8] && dims[32] && dims[40] && dims[64] && dims[96] && dims[120] && dims[128] && dims[192] &&
                dims[256]);
    assert_true(layouts[1][1] && layouts[1][2] && layouts[2][1] && layouts[2][2]);
    assert_true(deterministic[0] && deterministic[1] && unaligned[0] && unaligned[1] && masked[0] && masked[1]);
    assert_true(types[1][1] && types[1][2] && types[1][3] && types[2][1] && types[2][2] && types[2][3]);
    collected_free(collected);
}

static void sizes_are_what_a_run_can_afford(void **state)
{
    (void)state;
    assert_in_range(matrix_count("default"), 150, MOST_KERNELS);
    assert_in_range(matrix_count("small"), 20, 40);
    assert_in_range(matrix_count("tiny"), 4, 10);
    assert_in_range(matrix_count("short"), 80, 160);
    assert_in_range(matrix_count("whole"), 30, 40);
    assert_in_range(matrix_count("pairs"), 30, 40);
    assert_in_range(matrix_count("backward"), 150, MOST_KERNELS);
    assert_in_range(matrix_count("public"), 1, 4);
    assert_int_equal(matrix_count("none"), 0);
}

static void portable_is_default_with_another_family(void **state)
{
    (void)state;
    struct collected *all = collect("default", "sm_90a");
    struct collected *portable = collect("portable", "sm_90a");
    assert_int_equal(all->count, portable->count);
    for (size_t i = 0; i < all->count; i++) {
        assert_int_equal(portable->specs[i].family, GDPA_FAMILY_PORTABLE);
        all->specs[i].family = GDPA_FAMILY_PORTABLE;
        if (all->specs[i].schedule > GDPA_SCHEDULE_STATIC) { /* the portable family has no such */
            all->specs[i].schedule = GDPA_SCHEDULE_DEFAULT;
        }
        assert_memory_equal(&all->specs[i], &portable->specs[i], sizeof(gdpa_spec));
        assert_true(matrix_shapes("default", i) == matrix_shapes("portable", i));
    }
    collected_free(all);
    collected_free(portable);
}

static void short_has_every_activation_mask_type_and_layout_that_its_families_run(void **state)
{
    (void)state;
    struct collected *collected = collect("short", NULL);
    bool activations[18] = {false}, types[4][4] = {{false}}, layouts[3][3] = {{false}}, causal[2] = {false};
    for (size_t i = 0; i < collected->count; i++) {
        const gdpa_spec *spec = &collected->specs[i];
        assert_true(spec->family == GDPA_FAMILY_SHORT || spec->family == GDPA_FAMILY_STREAM);
        assert_true(spec->head_dim <= 128 && spec->head_dim_v <= 128 && spec->unaligned == 0);
        activations[spec->activation] = true;
        types[spec->dtype][spec->out_dtype != 0 ? spec->out_dtype : spec->dtype] = true;
        layouts[spec->layout_q != 0 ? spec->layout_q : 1][spec->layout_k != 0 ? spec->layout_k : 1] = true;
        causal[spec->causal] = true;
        assert_true(matrix_shapes("default", i) == matrix_shapes("short", i));
    }
    for (int a = 1; a <= 17; a++) {
        assert_true(activations[a]);
    }
    for (int in = GDPA_DTYPE_BF16; in <= GDPA_DTYPE_FP16; in++) {
        assert_true(types[in][GDPA_DTYPE_BF16] && types[in][GDPA_DTYPE_FP16] && types[in][GDPA_DTYPE_FP32]);
    }
    assert_true(layouts[1][1] && layouts[1][2] && layouts[2][1] && layouts[2][2] && causal[0] && causal[1]);
    collected_free(collected);
}

static void whole_and_pairs_have_every_activation_mask_type_and_layout(void **state)
{
    (void)state;
    static const char *const names[] = {"whole", "pairs"};
    for (int n = 0; n < 2; n++) {
        struct collected *collected = collect(names[n], "sm_90a");
        const int32_t family = n == 0 ? GDPA_FAMILY_WHOLE : GDPA_FAMILY_PAIRS;
        bool activations[18] = {false}, types[4][4] = {{false}}, layouts[3][3] = {{false}}, dims[129] = {false};
        bool causal[2] = {false}, windows[4] = {false};
        for (size_t i = 0; i < collected->count; i++) {
            const gdpa_spec *spec = &collected->specs[i];
            assert_true(spec->pass == GDPA_PASS_BACKWARD && spec->family == family && spec->deterministic == 0);
            activations[spec->activation] = true;
            dims[spec->head_dim] = true;
            types[spec->dtype][spec->out_dtype != 0 ? spec->out_dtype : spec->dtype] = true;
            layouts[spec->layout_q != 0 ? spec->layout_q : 1][spec->layout_k != 0 ? spec->layout_k : 1] = true;
            causal[spec->causal] = true;
            windows[spec->flags & (GDPA_SPEC_WINDOW_LEFT | GDPA_SPEC_WINDOW_RIGHT)] = true;
            assert_true(matrix_shapes(names[n], i) == shapes_of_few_keys(family));
        }
        for (int a = 1; a <= 17; a++) {
            assert_true(activations[a]);
        }
        for (int in = GDPA_DTYPE_BF16; in <= GDPA_DTYPE_FP16; in++) {
            assert_true(types[in][GDPA_DTYPE_BF16] && types[in][GDPA_DTYPE_FP16] && types[in][GDPA_DTYPE_FP32]);
        }
        assert_true(layouts[1][1] && layouts[1][2] && layouts[2][1] && layouts[2][2] && causal[0] && causal[1]);
        assert_true(windows[0] && windows[1] && windows[2] && windows[3]);
        assert_true(dims[96] && dims[120] && dims[128] &&
                    (family == GDPA_FAMILY_WHOLE ? dims[8] && dims[64] : dims[72]));
        collected_free(collected);
    }
}

static void small_has_every_activation_and_both_layouts(void **state)
{
    (void)state;
    struct collected *collected = collect("small", NULL);
    bool activations[18] = {false};
    bool layouts[3][3] = {{false}};
    for (size_t i = 0; i < collected->count; i++) {
        const gdpa_spec *spec = &collected->specs[i];
        activations[spec->activation] = true;
        layouts[spec->layout_q != 0 ? spec->layout_q : 1][spec->layout_k != 0 ? spec->layout_k : 1] = true;
    }
    for (int a = 1; a <= 17; a++) {
        assert_true(activations[a]);
    }
    assert_true(layouts[1][1] && layouts[1][2] && layouts[2][1] && layouts[2][2]);
    collected_free(collected);
}

static void tiny_has_both_families_types_and_layouts(void **state)
{
    (void)state;
    struct collected *collected = collect("tiny", "sm_90a");
    bool portable[2] = {false}, types[3] = {false}, jagged[2] = {false}, unaligned[2] = {false};
    for (size_t i = 0; i < collected->count; i++) {
        const gdpa_spec *spec = &collected->specs[i];
        portable[spec->family == GDPA_FAMILY_PORTABLE] = true;
        types[spec->dtype] = true;
        jagged[spec->layout_q == GDPA_LAYOUT_JAGGED] = true;
        unaligned[spec->unaligned != 0] = true;
        assert_int_equal(matrix_shapes("tiny", i), 1ULL << shape_find("small-gaps") | 1ULL << shape_find("small-ring"));
    }
    assert_true(portable[0] && portable[1] && jagged[0] && jagged[1] && unaligned[0] && unaligned[1]);
    assert_true(types[GDPA_DTYPE_BF16] && types[GDPA_DTYPE_FP16]);
    collected_free(collected);
}

static void default_runs_every_general_shape_with_every_layout(void **state)
{
    (void)state;
    struct collected *collected = collect("default", NULL);
    for (int row = 0; row <= shape_find("large-batch"); row++) {
        for (int layouts = 0; layouts < 4; layouts++) {
            int met = 0;
            for (size_t i = 0; i < collected->count; i++) {
                bool jagged_q = collected->specs[i].layout_q == GDPA_LAYOUT_JAGGED;
                bool jagged_k = collected->specs[i].layout_k == GDPA_LAYOUT_JAGGED;
                bool has = (matrix_shapes("default", i) >> row & 1) != 0;
                met += has && jagged_q == (layouts & 1) && jagged_k == (layouts >> 1) ? 1 : 0;
            }
            if (met == 0) {
                fail_msg("shape %s never meets layouts %d", shapes[row].name, layouts);
            }
        }
    }
    for (size_t i = 0; i < collected->count; i++) {
        unsigned long long bits = matrix_shapes("default", i);
        assert_true((bits >> shape_find("edges") & 1) && (bits >> shape_find("edges-unit") & 1));
        assert_true((bits >> (shape_find("large-batch") + 1)) == 0);
    }
    collected_free(collected);
}

static void public_runs_the_fourteen_public_shapes(void **state)
{
    (void)state;
    unsigned long long bits = matrix_shapes("public", 0);
    int count = 0;
    for (size_t row = 0; row < shape_count(); row++) {
        bool in = (bits >> row & 1) != 0;
        assert_int_equal(in, strncmp(shapes[row].name, "public-", 7) == 0);
        count += in ? 1 : 0;
        if (in) {
            assert_true(shapes[row].batch == 1152 && shapes[row].heads_q == 4);
        }
    }
    assert_int_equal(count, 14);
    assert_int_equal(bits >> shape_count(), 0);
}

static bool stop_at_third(const char *text, void *user)
{
    (void)text;
    int *seen = user;
    return ++*seen < 3;
}

static void a_visit_ends_when_it_is_told_to(void **state)
{
    (void)state;
    for (size_t m = 0; matrices[m].name != NULL; m++) {
        int seen = 0;
        bool all = matrix_specs(matrices[m].name, NULL, stop_at_third, &seen);
        assert_int_equal(all, matrix_count(matrices[m].name) < 3);
    }
}

static void an_unknown_matrix_is_named_with_the_nearest(void **state)
{
    (void)state;
    char why[256];
    int seen = 0;
    assert_false(matrix_specs("defaults", NULL, stop_at_third, &seen));
    matrix_unknown("defaults", why, sizeof why);
    assert_string_equal(why, "unknown matrix defaults (did you mean default?); known are default, portable, short, "
                             "whole, pairs, backward, small, tiny, public");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_spec_is_one_that_has_a_kernel),
        cmocka_unit_test(no_kernel_is_listed_twice),
        cmocka_unit_test(default_has_every_value_of_every_option),
        cmocka_unit_test(default_has_every_head_dimension_asked_for),
        cmocka_unit_test(default_has_every_kind_of_mask),
        cmocka_unit_test(default_has_every_pair_of_values),
        cmocka_unit_test(backward_has_every_pair_of_values),
        cmocka_unit_test(default_has_every_value_of_the_backward),
        cmocka_unit_test(sizes_are_what_a_run_can_afford),
        cmocka_unit_test(portable_is_default_with_another_family),
        cmocka_unit_test(short_has_every_activation_mask_type_and_layout_that_its_families_run),
        cmocka_unit_test(whole_and_pairs_have_every_activation_mask_type_and_layout),
        cmocka_unit_test(small_has_every_activation_and_both_layouts),
        cmocka_unit_test(tiny_has_both_families_types_and_layouts),
        cmocka_unit_test(default_runs_every_general_shape_with_every_layout),
        cmocka_unit_test(public_runs_the_fourteen_public_shapes),
        cmocka_unit_test(a_visit_ends_when_it_is_told_to),
        cmocka_unit_test(an_unknown_matrix_is_named_with_the_nearest),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
