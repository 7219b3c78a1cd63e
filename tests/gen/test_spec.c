/*
 * spec: every field's illegal values, sizes of the struct, what normalising removes.
 */
#include "gen/spec.h"

#include <stdlib.h>

#include "gen/tables.h"
#include "tests/gen/gen_test.h"

static gdpa_spec base_spec(void)
{
    gdpa_spec spec = GDPA_SPEC_INIT;
    spec.head_dim = 64;
    spec.activation = GDPA_ACTIVATION_SILU;
    spec.arch = 90;
    return spec;
}

/* Normalises, and checks that a refusal has a reason and leaves the output alone. */
static gdpa_status normalise(const gdpa_spec *spec, bool arch_optional, gdpa_spec *out, struct sbuf *why)
{
    gdpa_spec untouched;
    memset(&untouched, 0x5a, sizeof(untouched));
    memset(out, 0x5a, sizeof(*out));
    sbuf_reset(why);
    gdpa_status status = spec_normalise(spec, arch_optional, out, why);
    if (status != GDPA_OK) {
        assert_memory_equal(out, &untouched, sizeof(untouched));
        assert_true(why->length > 0);
    } else {
        assert_string_equal(why->text, "");
    }
    return status;
}

static void defaults_are_filled_in(void **state)
{
    (void)state;
    struct sbuf why;
    sbuf_init(&why, 4096);
    gdpa_spec spec = base_spec(), out;
    assert_int_equal(normalise(&spec, false, &out, &why), GDPA_OK);
    gdpa_spec expected = {.size = sizeof(gdpa_spec),
                          .pass = GDPA_PASS_FORWARD,
                          .arch = 90,
                          .head_dim = 64,
                          .head_dim_v = 64,
                          .dtype = GDPA_DTYPE_BF16,
                          .out_dtype = GDPA_DTYPE_BF16,
                          .activation = GDPA_ACTIVATION_SILU,
                          .window_left = -1,
                          .window_right = -1,
                          .align = GDPA_ALIGN_BOTTOM_RIGHT,
                          .layout_q = GDPA_LAYOUT_DENSE,
                          .layout_k = GDPA_LAYOUT_DENSE,
                          .schedule = GDPA_SCHEDULE_AUTO,
                          .family = GDPA_FAMILY_AUTO};
    assert_memory_equal(&out, &expected, sizeof(expected));
    sbuf_deinit(&why);
}

static void required_fields_have_no_default(void **state)
{
    (void)state;
    struct sbuf why;
    sbuf_init(&why, 4096);
    gdpa_spec out, spec = base_spec();
    spec.head_dim = 0;
    assert_int_equal(normalise(&spec, false, &out, &why), GDPA_E_ARGUMENT);
    assert_contains(why.text, "head_dim is not given");
    spec = base_spec();
    spec.activation = GDPA_ACTIVATION_UNSET;
    assert_int_equal(normalise(&spec, false, &out, &why), GDPA_E_ARGUMENT);
    assert_contains(why.text, "activation is not given");
    assert_contains(why.text, "silu (9)");
    spec = base_spec();
    spec.arch = 0;
    assert_int_equal(normalise(&spec, false, &out, &why), GDPA_E_ARGUMENT);
    assert_contains(why.text, "arch is not given");
    assert_int_equal(normalise(&spec, true, &out, &why), GDPA_OK);
    assert_int_equal(out.arch, 0);
    assert_int_equal(normalise(NULL, true, &out, &why), GDPA_E_ARGUMENT);
    sbuf_deinit(&why);
}

static void every_illegal_value_of_every_field_is_refused_by_name(void **state)
{
    (void)state;
    static const struct {
        const char *field;
        int32_t values[12];
        size_t count;
    } cases[] = {
        {"head_dim", {-8, -1, 1, 4, 7, 9, 100, 255, 257, 264, INT32_MAX, INT32_MIN}, 12},
        {"head_dim_v", {-8, -1, 1, 4, 7, 9, 100, 255, 257, 264, INT32_MAX, INT32_MIN}, 12},
        {"dtype", {-1, 3, 4, INT32_MAX, INT32_MIN}, 5},
        {"out_dtype", {-1, 4, INT32_MAX, INT32_MIN}, 4},
        {"activation", {-1, 18, INT32_MAX, INT32_MIN}, 4},
        {"causal", {-1, 2, INT32_MAX, INT32_MIN}, 4},
        {"window_left", {-2, INT32_MIN}, 2},
        {"window_right", {-2, INT32_MIN}, 2},
        {"align", {-1, 3, INT32_MAX, INT32_MIN}, 4},
        {"layout_q", {-1, 3, INT32_MAX, INT32_MIN}, 4},
        {"layout_k", {-1, 3, INT32_MAX, INT32_MIN}, 4},
        {"schedule", {-1, 5, INT32_MAX, INT32_MIN}, 4},
        {"family", {-1, 8, INT32_MAX, INT32_MIN}, 4},
        {"deterministic", {-1, 2, INT32_MAX, INT32_MIN}, 4},
        {"unaligned", {-1, 2, INT32_MAX, INT32_MIN}, 4},
        {"arch", {-1, 1, 75, 81, 88, 91, 101, 122, 900, INT32_MAX, INT32_MIN}, 11},
    };
    assert_int_equal(COUNT_OF(cases), OPTION_COUNT);
    struct sbuf why;
    sbuf_init(&why, 4096);
    for (size_t i = 0; i < COUNT_OF(cases); ++i) {
        const struct option_row *row = option_find(cases[i].field, strlen(cases[i].field));
        assert_non_null(row);
        for (size_t j = 0; j < cases[i].count; ++j) {
            gdpa_spec out, spec = base_spec();
            char number[16];
            option_set(row, &spec, cases[i].values[j]);
            spec.flags = GDPA_SPEC_WINDOW_LEFT | GDPA_SPEC_WINDOW_RIGHT;
            assert_int_equal(normalise(&spec, true, &out, &why), GDPA_E_ARGUMENT);
            snprintf(number, sizeof(number), "%d", (int)cases[i].values[j]);
            assert_contains(why.text, cases[i].field);
            assert_contains(why.text, number);
            assert_contains(why.text, "legal are");
        }
    }
    sbuf_deinit(&why);
}

static void an_illegal_pass_is_refused(void **state)
{
    (void)state;
    static const int32_t values[] = {-1, 3, INT32_MAX, INT32_MIN};
    struct sbuf why;
    sbuf_init(&why, 4096);
    for (size_t i = 0; i < COUNT_OF(values); ++i) {
        gdpa_spec out, spec = base_spec();
        spec.pass = values[i];
        assert_int_equal(normalise(&spec, true, &out, &why), GDPA_E_ARGUMENT);
        assert_contains(why.text, "pass is");
    }
    sbuf_deinit(&why);
}

static void every_legal_value_of_every_field_is_taken(void **state)
{
    (void)state;
    struct sbuf why;
    sbuf_init(&why, 4096);
    for (size_t i = 0; i < OPTION_COUNT; ++i) {
        const struct option_row *row = &option_rows[i];
        int64_t highest = row->highest < 1000 ? row->highest : 1000;
        for (int64_t value = row->lowest; value <= highest; value += row->step) {
            gdpa_spec out, spec = base_spec();
            option_set(row, &spec, (int32_t)value);
            spec.flags = GDPA_SPEC_WINDOW_LEFT | GDPA_SPEC_WINDOW_RIGHT;
            bool is_number = choice_table(row->kind).count == 0;
            bool legal = is_number || choice_by_number(row->kind, (int32_t)value) != NULL;
            assert_int_equal(normalise(&spec, false, &out, &why), legal ? GDPA_OK : GDPA_E_ARGUMENT);
        }
    }
    sbuf_deinit(&why);
}

static void a_window_without_its_bit_is_refused_unless_it_is_unbounded(void **state)
{
    (void)state;
    struct sbuf why;
    sbuf_init(&why, 4096);
    for (int side = 0; side < 2; ++side) {
        static const int32_t values[] = {-1, 0, 1, 256, INT32_MAX};
        for (size_t i = 0; i < COUNT_OF(values); ++i) {
            gdpa_spec out, spec = base_spec();
            *(side == 0 ? &spec.window_left : &spec.window_right) = values[i];
            assert_int_equal(normalise(&spec, false, &out, &why), values[i] > 0 ? GDPA_E_ARGUMENT : GDPA_OK);
            if (values[i] > 0) {
                assert_contains(why.text, side == 0 ? "GDPA_SPEC_WINDOW_LEFT" : "GDPA_SPEC_WINDOW_RIGHT");
            } else {
                assert_false(spec_bounds_left(&out) || spec_bounds_right(&out));
            }
        }
    }
    sbuf_deinit(&why);
}

/* Texts of equal kernels, pairwise. */
static void what_has_no_effect_is_removed(void **state)
{
    (void)state;
    static const struct {
        const char *one, *other;
    } cases[] = {
        {"d=64 act=silu window_left=-1", "d=64 act=silu"},
        {"d=64 act=silu window_left=2147483647 window_right=2147483647", "d=64 act=silu"},
        {"d=64 act=silu causal window_right=5", "d=64 act=silu causal"},
        {"d=64 act=silu causal window_right=-1", "d=64 act=silu causal"},
        {"d=64 act=silu window_right=0", "d=64 act=silu causal"},
        {"d=64 act=silu window_left=0 window_right=0", "d=64 act=silu window_left=0 causal"},
        {"d=64 act=silu align=top_left", "d=64 act=silu"},
        {"d=64 act=silu align=top_left window_left=-1", "d=64 act=silu"},
        {"d=64 act=silu align=bottom_right causal", "d=64 act=silu causal"},
        {"d=64 act=silu schedule=static", "d=64 act=silu"},
        {"d=64 act=silu layout_q=jagged causal schedule=static", "d=64 act=silu layout_q=jagged causal"},
        {"d=64 act=silu layout_q=jagged window_left=3 schedule=static arch=90",
         "d=64 act=silu layout_q=jagged window_left=3 arch=90"},
        {"d=64 act=silu layout_q=jagged schedule=static arch=80", "d=64 act=silu layout_q=jagged arch=80"},
        {"d=64 act=silu schedule=dynamic arch=80", "d=64 act=silu arch=80"},
        {"d=64 act=silu schedule=zigzag arch=90 unaligned", "d=64 act=silu arch=90 unaligned"},
        {"d=64 act=silu schedule=dynamic arch=90 family=portable", "d=64 act=silu arch=90 family=portable"},
        {"d=64 act=silu schedule=dynamic family=portable", "d=64 act=silu family=portable"},
        {"d=64 act=silu schedule=auto", "d=64 act=silu"},
        {"bwd d=64 act=silu layout_q=jagged schedule=static", "bwd d=64 act=silu layout_q=jagged"},
        {"bwd d=64 act=silu schedule=dynamic arch=80", "bwd d=64 act=silu arch=80"},
        {"bwd d=256 act=silu schedule=zigzag arch=90", "bwd d=256 act=silu arch=90"},
        {"bwd d=64 act=silu schedule=dynamic family=portable", "bwd d=64 act=silu family=portable"},
        {"bwd d=128 act=silu schedule=dynamic family=pairs arch=90", "bwd d=128 act=silu family=pairs arch=90"},
        {"d=64 act=silu deterministic", "d=64 act=silu"},
        {"d=64 act=silu deterministic=0", "d=64 act=silu"},
        {"fwd d=64 dv=64 act=silu dtype=bf16 out_dtype=bf16 layout_q=dense layout_k=dense", "d=64 act=silu"},
        {"d=64 act=silu dtype=fp16 out_dtype=fp16", "d=64 act=silu dtype=fp16"},
        {"bwd d=64 act=silu schedule=auto deterministic=off", "bwd d=64 act=silu"},
        {"d=64 act=silu family=auto", "d=64 act=silu"},
        {"d=64 act=silu arch=80 family=portable", "d=64 act=silu arch=80"},
        {"d=64 act=silu arch=90 family=sm90", "d=64 act=silu arch=90"},
        {"d=64 act=silu arch=90 unaligned family=mma", "d=64 act=silu arch=90 unaligned"},
        {"d=64 act=silu arch=120 family=portable", "d=64 act=silu arch=120"},
    };
    for (size_t i = 0; i < COUNT_OF(cases); ++i) {
        gdpa_spec one = spec_of(cases[i].one), other = spec_of(cases[i].other);
        assert_memory_equal(&one, &other, sizeof(one));
    }
}

static void what_has_an_effect_is_kept(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "d=64 act=silu",
        "d=72 act=silu",
        "d=64 dv=72 act=silu",
        "d=64 act=fast_silu",
        "d=64 act=silu dtype=fp16",
        "d=64 act=silu out_dtype=fp32",
        "d=64 act=silu out_dtype=fp16",
        "d=64 act=silu causal",
        "d=64 act=silu causal align=top_left",
        "d=64 act=silu window_left=0",
        "d=64 act=silu window_left=1",
        "d=64 act=silu window_left=2147483646",
        "d=64 act=silu window_right=1",
        "d=64 act=silu window_left=1 window_right=1",
        "d=64 act=silu window_left=1 causal",
        "d=64 act=silu window_left=1 align=top_left",
        "d=64 act=silu layout_q=jagged",
        "d=64 act=silu layout_k=jagged",
        "d=64 act=silu layout_q=jagged layout_k=jagged",
        "d=64 act=silu schedule=zigzag",
        "d=64 act=silu schedule=dynamic",
        "d=64 act=silu layout_q=jagged schedule=static",
        "d=64 act=silu layout_q=jagged schedule=static arch=90",
        "d=64 act=silu layout_q=jagged schedule=zigzag arch=90",
        "d=64 act=silu layout_q=jagged schedule=dynamic arch=90",
        "bwd d=64 act=silu arch=90",
        "bwd d=64 act=silu schedule=zigzag arch=90",
        "bwd d=64 act=silu schedule=dynamic arch=90",
        "bwd d=64 act=silu schedule=dynamic",
        "bwd d=64 act=silu schedule=dynamic deterministic arch=90",
        "d=64 act=silu unaligned",
        "d=64 act=silu arch=80",
        "d=64 act=silu arch=90",
        "d=64 act=silu arch=90 family=portable",
        "d=64 act=silu arch=80 family=sm90", /* refused later, by name */
        "d=64 act=silu family=portable",     /* no arch yet: what auto takes is not known */
        "d=64 act=silu family=sm90",
        "bwd d=64 act=silu arch=90 family=whole",
        "bwd d=128 act=silu arch=90 family=pairs",
        "bwd d=64 act=silu",
        "bwd d=64 act=silu deterministic",
    };
    for (size_t i = 0; i < COUNT_OF(texts); ++i) {
        for (size_t j = i + 1; j < COUNT_OF(texts); ++j) {
            gdpa_spec one = spec_of(texts[i]), other = spec_of(texts[j]);
            if (memcmp(&one, &other, sizeof(one)) == 0) {
                fail_msg("'%s' and '%s' became one", texts[i], texts[j]);
            }
        }
    }
}

static void normalising_twice_is_normalising_once(void **state)
{
    (void)state;
    static const char *const texts[] = {"d=64 act=silu", "d=64 act=elu causal window_left=3 align=top_left arch=90",
                                        "d=64 act=silu arch=90 family=portable", "d=64 act=silu family=portable",
                                        "bwd d=8 dv=256 act=exp window_left=0 window_right=9 unaligned deterministic"};
    struct sbuf why;
    sbuf_init(&why, 4096);
    for (size_t i = 0; i < COUNT_OF(texts); ++i) {
        gdpa_spec once = spec_of(texts[i]), twice;
        assert_int_equal(normalise(&once, true, &twice, &why), GDPA_OK);
        assert_memory_equal(&once, &twice, sizeof(once));
    }
    sbuf_deinit(&why);
}

static void the_sides_of_the_band_are_told(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        bool left, right;
    } cases[] = {
        {"d=64 act=silu", false, false},
        {"d=64 act=silu causal", false, true},
        {"d=64 act=silu window_left=0", true, false},
        {"d=64 act=silu window_right=7", false, true},
        {"d=64 act=silu window_left=3 causal", true, true},
    };
    for (size_t i = 0; i < COUNT_OF(cases); ++i) {
        gdpa_spec spec = spec_of(cases[i].text);
        assert_int_equal(spec_bounds_left(&spec), cases[i].left);
        assert_int_equal(spec_bounds_right(&spec), cases[i].right);
    }
}

/* The struct of another version: `size` bytes on the heap, so that a read beyond them is caught. */
static gdpa_status normalise_sized(size_t size, size_t set_byte, gdpa_spec *out, struct sbuf *why)
{
    gdpa_spec spec = base_spec();
    unsigned char *memory = calloc(1, size > sizeof(size_t) ? size : sizeof(size_t));
    assert_non_null(memory);
    memcpy(memory, &spec, size < sizeof(spec) ? size : sizeof(spec));
    memcpy(memory, &size, sizeof(size));
    if (set_byte > 0) {
        memory[set_byte] = 1;
    }
    gdpa_status status = normalise((const gdpa_spec *)(const void *)memory, false, out, why);
    free(memory);
    return status;
}

static void structs_of_other_sizes_are_read_as_far_as_they_are_known(void **state)
{
    (void)state;
    struct sbuf why;
    sbuf_init(&why, 4096);
    gdpa_spec spec = base_spec(), expected, out;
    assert_int_equal(normalise(&spec, false, &expected, &why), GDPA_OK);
    size_t smallest = offsetof(gdpa_spec, causal);
    for (size_t size = 0; size < 200; ++size) {
        bool legal = size >= smallest && size % 4 == 0;
        assert_int_equal(normalise_sized(size, 0, &out, &why), legal ? GDPA_OK : GDPA_E_VERSION);
        if (legal) {
            assert_memory_equal(&out, &expected, sizeof(out));
        } else {
            assert_contains(why.text, "GDPA_SPEC_INIT");
        }
    }
    sbuf_deinit(&why);
}

static void set_bytes_that_this_version_does_not_know_are_refused(void **state)
{
    (void)state;
    struct sbuf why;
    sbuf_init(&why, 4096);
    gdpa_spec out;
    for (size_t byte = sizeof(gdpa_spec); byte < sizeof(gdpa_spec) + 16; ++byte) {
        assert_int_equal(normalise_sized(sizeof(gdpa_spec) + 16, byte, &out, &why), GDPA_E_VERSION);
        assert_contains(why.text, "newer libgdpajit");
    }
    assert_int_equal(normalise_sized(sizeof(gdpa_spec), offsetof(gdpa_spec, flags) + 1, &out, &why), GDPA_E_VERSION);
    assert_int_equal(normalise_sized(4100, 0, &out, &why), GDPA_E_VERSION);
    gdpa_spec spec = base_spec();
    spec.size = SIZE_MAX - 3;
    assert_int_equal(normalise(&spec, false, &out, &why), GDPA_E_VERSION);
    spec = base_spec();
    spec.flags = 0x4;
    assert_int_equal(normalise(&spec, false, &out, &why), GDPA_E_VERSION);
    assert_contains(why.text, "0x4");
    sbuf_deinit(&why);
}

static void bounds_are_those_of_the_table(void **state)
{
    (void)state;
    struct sbuf why;
    sbuf_init(&why, 4096);
    int32_t lowest = 0, highest = 0, step = 0;
    assert_int_equal(spec_bounds("head_dim", &lowest, &highest, &step, &why), GDPA_OK);
    assert_int_equal(lowest, 8);
    assert_int_equal(highest, 256);
    assert_int_equal(step, 8);
    assert_int_equal(spec_bounds("dv", NULL, &highest, NULL, &why), GDPA_OK);
    assert_int_equal(spec_bounds("dtype", &lowest, &highest, &step, &why), GDPA_OK);
    assert_int_equal(highest, GDPA_DTYPE_FP16);
    assert_int_equal(spec_bounds("activation", &lowest, &highest, &step, &why), GDPA_OK);
    assert_int_equal(highest, GDPA_ACTIVATION_SQUARE);
    assert_int_equal(step, 1);
    highest = 77;
    assert_int_equal(spec_bounds("heda_dim", &lowest, &highest, &step, &why), GDPA_E_NOT_FOUND);
    assert_int_equal(highest, 77);
    assert_contains(why.text, "did you mean 'head_dim'");
    assert_int_equal(spec_bounds("", &lowest, &highest, &step, &why), GDPA_E_NOT_FOUND);
    assert_int_equal(spec_bounds(NULL, &lowest, &highest, &step, &why), GDPA_E_ARGUMENT);
    sbuf_deinit(&why);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(defaults_are_filled_in),
        cmocka_unit_test(required_fields_have_no_default),
        cmocka_unit_test(every_illegal_value_of_every_field_is_refused_by_name),
        cmocka_unit_test(an_illegal_pass_is_refused),
        cmocka_unit_test(every_legal_value_of_every_field_is_taken),
        cmocka_unit_test(a_window_without_its_bit_is_refused_unless_it_is_unbounded),
        cmocka_unit_test(what_has_no_effect_is_removed),
        cmocka_unit_test(what_has_an_effect_is_kept),
        cmocka_unit_test(normalising_twice_is_normalising_once),
        cmocka_unit_test(the_sides_of_the_band_are_told),
        cmocka_unit_test(structs_of_other_sizes_are_read_as_far_as_they_are_known),
        cmocka_unit_test(set_bytes_that_this_version_does_not_know_are_refused),
        cmocka_unit_test(bounds_are_those_of_the_table),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
