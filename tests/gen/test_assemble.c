/*
 * assemble, body and name: small template sets with known results, faults of a set, and what holds for every source that the
 * embedded templates give.
 */
#include "gen/assemble.h"

#include "gen/tables.h"
#include "tests/gen/gen_test.h"

/* A template set written in place: {path, text} pairs. */
struct fixture {
    struct template_file files[12];
    struct template_set set;
};

static void fixture_init(struct fixture *fixture, const char *const (*pairs)[2], size_t count)
{
    assert_true(count <= COUNT_OF(fixture->files));
    for (size_t i = 0; i < count; ++i) {
        fixture->files[i] = (struct template_file){pairs[i][0], pairs[i][1], strlen(pairs[i][1])};
    }
    fixture->set = (struct template_set){fixture->files, count, "0123456789abcdef0123456789abcdef"};
}

static gdpa_status generate(const struct fixture *fixture, const char *text, struct sbuf *source, struct sbuf *why)
{
    gdpa_spec spec = spec_of(text);
    struct kernel_plan plan = plan_of(&spec);
    sbuf_reset(source);
    sbuf_reset(why);
    return source_generate_from(&fixture->set, &spec, &plan, source, why);
}

/* The source behind its provenance comment, which ends with the first " * /". */
static const char *body_of(const char *source)
{
    const char *end = strstr(source, " */\n\n");
    assert_non_null(end);
    return end + 5;
}

/* The word after "kernel     " in the provenance comment. */
static void name_in(const char *source, char name[256])
{
    const char *at = strstr(source, " * kernel     ");
    assert_non_null(at);
    assert_int_equal(sscanf(at, " * kernel     %255s", name), 1);
}

static const char *const small_set[][2] = {
    {"activation/relu.cuh", "#pragma once\n#include \"types.cuh\"\nrelu\n"},
    {"activation/silu.cuh", "#pragma once\n#include \"types.cuh\"\nsilu\n"},
    {"fwd_portable.cuh",
     "/*\n * Head.\n */\n#ifndef F\n#define F\n\n#include \"a.cuh\"\n#include \"activation.cuh\"\n\n\n\n"
     "//@if causal\n\n// Of what follows.\nmasked   \n//@else\n#include \"never.cuh\"\n//@endif\n#include \"a.cuh\"\n"
     "void gdpa_kernel_entry(int my_gdpa_kernel_entry);\n\n#endif\n"},
    {"a.cuh", "// Of a.\n#include \"types.cuh\"\n//@if host\n#include <stdint.h>\n//@endif\na before\n"
              "#include \"types.cuh\"\n#include \"late.cuh\"\n\n\na after\n"},
    {"comment.cuh", "// Nothing but this.\n"},
    {"late.cuh", "late\n#include \"comment.cuh\"\n"},
    {"never.cuh", "never\n"},
    {"types.cuh", "types\n"},
};

static void files_are_spliced_once_where_they_are_first_included(void **state)
{
    (void)state;
    struct fixture fixture;
    struct sbuf source, why, expected;
    char name[256];
    fixture_init(&fixture, small_set, COUNT_OF(small_set));
    sbuf_init(&source, 1 << 16);
    sbuf_init(&why, 4096);
    sbuf_init(&expected, 4096);
    assert_int_equal(generate(&fixture, "d=64 act=silu causal arch=80", &source, &why), GDPA_OK);
    name_in(source.text, name);
    sbuf_addf(&expected,
              "// ---- templates/types.cuh\ntypes\n\n"
              "// ---- templates/a.cuh\n// Of a.\na before\n\n"
              "// ---- templates/late.cuh\nlate\n\n// ---- templates/comment.cuh\n// Nothing but this.\n\n"
              "// ---- templates/a.cuh (continued)\na after\n\n"
              "// ---- templates/activation/silu.cuh\nsilu\n\n"
              "// ---- templates/fwd_portable.cuh\n/*\n * Head.\n */\n\n// Of what follows.\nmasked\n"
              "void %s(int my_gdpa_kernel_entry);\n\n",
              name);
    assert_memory_equal(body_of(source.text), "// ---- templates/config_default.cuh, with the values", 50);
    assert_string_equal(strstr(source.text, "// ---- templates/types.cuh"), expected.text);
    assert_int_equal(generate(&fixture, "d=64 act=relu arch=80", &source, &why), GDPA_OK);
    assert_contains(source.text, "\nrelu\n");
    assert_contains(source.text, "// ---- templates/never.cuh\nnever\n");
    assert_null(strstr(source.text, "masked"));
    assert_null(strstr(source.text, "silu"));
    sbuf_deinit(&expected);
    sbuf_deinit(&why);
    sbuf_deinit(&source);
}

static void the_provenance_comment_says_how_to_make_the_source_again(void **state)
{
    (void)state;
    struct fixture fixture;
    struct sbuf source, why;
    fixture_init(&fixture, small_set, COUNT_OF(small_set));
    sbuf_init(&source, 1 << 16);
    sbuf_init(&why, 4096);
    assert_int_equal(generate(&fixture, "d=64 act=silu causal arch=80", &source, &why), GDPA_OK);
    assert_memory_equal(source.text, "/*\n * Made by libgdpajit " GDPA_VERSION_STRING ". The", 30);
    assert_contains(source.text, "\n * spec       fwd head_dim=64 dtype=bf16 activation=silu causal arch=sm_80\n");
    assert_contains(source.text, "\n * kernel     gdpa_fwd_sm80_d64_bf16_silu_causal_");
    assert_contains(source.text, "\n * generator  0123456789abcdef0123456789abcdef\n");
    assert_contains(source.text, "\n * plan       portable block_m=");
    assert_contains(source.text,
                    "\n * again      gdpa-jit show source \"fwd head_dim=64 dtype=bf16 activation=silu causal "
                    "arch=sm_80\"\n */\n");
    sbuf_deinit(&why);
    sbuf_deinit(&source);
}

/* The value of a constant of a generated source. */
static int constant_in(const char *source, const char *name)
{
    char start[64];
    snprintf(start, sizeof(start), "constexpr int %s = ", name);
    const char *at = strstr(source, start);
    assert_non_null(at);
    assert_null(strstr(at + 1, start));
    int value = 0;
    assert_int_equal(sscanf(at + strlen(start), "%d;", &value), 1);
    return value;
}

static void the_config_block_has_the_values_of_spec_and_plan(void **state)
{
    (void)state;
    static const char *const pairs[][2] = {
        {"fwd_portable.cuh", "#include \"config_default.cuh\"\n#include \"config_default.cuh\"\ngdpa_kernel_entry\n"},
        {"config_default.cuh", "constexpr int kHeadDim = 1;\n"},
    };
    static const struct {
        const char *text;
        int left, right;
    } cases[] = {
        {"d=72 dv=40 act=silu arch=86", -1, -1},
        {"d=72 dv=40 act=silu arch=86 causal", -1, 0},
        {"d=72 dv=40 act=silu arch=86 causal window_left=0", 0, 0},
        {"d=72 dv=40 act=silu arch=86 window_left=7 window_right=9", 7, 9},
        {"d=72 dv=40 act=silu arch=86 window_left=2147483646", INT32_MAX - 1, -1},
    };
    struct fixture fixture;
    struct sbuf source, why;
    fixture_init(&fixture, pairs, COUNT_OF(pairs));
    sbuf_init(&source, 1 << 16);
    sbuf_init(&why, 4096);
    for (size_t i = 0; i < COUNT_OF(cases); ++i) {
        gdpa_spec spec = spec_of(cases[i].text);
        struct kernel_plan plan = plan_of(&spec);
        assert_int_equal(generate(&fixture, cases[i].text, &source, &why), GDPA_OK);
        assert_int_equal(constant_in(source.text, "kArch"), 86);
        assert_int_equal(constant_in(source.text, "kHeadDim"), 72);
        assert_int_equal(constant_in(source.text, "kHeadDimV"), 40);
        assert_int_equal(constant_in(source.text, "kWindowLeft"), cases[i].left);
        assert_int_equal(constant_in(source.text, "kWindowRight"), cases[i].right);
        assert_int_equal(constant_in(source.text, "kBlockM"), plan.block_m);
        assert_int_equal(constant_in(source.text, "kBlockN"), plan.block_n);
        assert_int_equal(constant_in(source.text, "kSliceN"), plan.slice_n);
        assert_int_equal(constant_in(source.text, "kWarps"), plan.warps);
        assert_int_equal(constant_in(source.text, "kThreads"), plan.threads);
        assert_int_equal(constant_in(source.text, "kStages"), plan.stages);
        assert_int_equal(constant_in(source.text, "kMinBlocks"), plan.min_blocks);
        assert_int_equal(constant_in(source.text, "kSmemBytes"), plan.smem_bytes);
    }
    sbuf_deinit(&why);
    sbuf_deinit(&source);
}

static void each_option_is_true_for_its_specs_alone(void **state)
{
    (void)state;
    static const struct {
        const char *option, *on, *off;
    } cases[] = {
        {"host", NULL, "d=64 act=relu arch=80"},
        {"bf16", "d=64 act=relu arch=80", "d=64 act=relu arch=80 dtype=fp16"},
        {"fp16", "d=64 act=relu arch=80 dtype=fp16", "d=64 act=relu arch=80 out_dtype=fp16"},
        {"out_bf16", "d=64 act=relu arch=80 dtype=fp16 out_dtype=bf16", "d=64 act=relu arch=80 out_dtype=fp32"},
        {"out_fp16", "d=64 act=relu arch=80 dtype=fp16", "d=64 act=relu arch=80"},
        {"out_fp32", "d=64 act=relu arch=80 out_dtype=fp32", "d=64 act=relu arch=80"},
        {"causal", "d=64 act=relu arch=80 window_right=0", "d=64 act=relu arch=80 window_left=0"},
        {"window_left", "d=64 act=relu arch=80 window_left=0", "d=64 act=relu arch=80 causal"},
        {"window_right", "d=64 act=relu arch=80 causal", "d=64 act=relu arch=80 window_left=0"},
        {"window_right", "d=64 act=relu arch=80 window_right=3", "d=64 act=relu arch=80"},
        {"masked", "d=64 act=relu arch=80 causal", "d=64 act=relu arch=80"},
        {"masked", "d=64 act=relu arch=80 window_left=1", "d=64 act=relu arch=80 window_left=-1"},
        {"bottom_right", "d=64 act=relu arch=80 causal", "d=64 act=relu arch=80 causal align=top_left"},
        {"jagged_q", "d=64 act=relu arch=80 layout_q=jagged", "d=64 act=relu arch=80 layout_k=jagged"},
        {"jagged_k", "d=64 act=relu arch=80 layout_k=jagged", "d=64 act=relu arch=80 layout_q=jagged"},
        {"shared_out", "d=64 act=relu arch=80 layout_q=jagged", "d=64 act=relu arch=80 layout_q=jagged causal"},
        {"shared_out", "d=64 act=relu arch=80 layout_q=jagged", "d=64 act=relu arch=80 layout_k=jagged"},
        {"shared_out", "d=64 act=relu arch=90 layout_q=jagged",
         "d=64 act=relu arch=90 layout_q=jagged schedule=static"},
        {"listed", "d=64 act=relu arch=90 schedule=zigzag", "d=64 act=relu arch=80 schedule=zigzag"},
        {"listed", "d=64 act=relu arch=90 schedule=dynamic", "d=64 act=relu arch=90 layout_q=jagged schedule=static"},
        {"listed", "bwd d=64 act=relu arch=90 schedule=zigzag", "bwd d=64 act=relu arch=90 schedule=static"},
        {"dynamic", "bwd d=64 act=relu arch=90 schedule=dynamic", "bwd d=64 act=relu arch=80 schedule=dynamic"},
        {"dynamic", "d=64 act=relu arch=90 schedule=dynamic", "d=64 act=relu arch=90 schedule=zigzag"},
        {"half_tiles", "d=64 act=relu arch=80 causal", "d=192 dv=128 act=relu arch=90"},
        {"values_first", "d=128 act=relu arch=90", "d=128 act=gelu arch=90"},
        {"values_first", "d=256 act=gelu arch=90", "d=256 act=relu arch=80"},
        {"unaligned", "d=64 act=relu arch=80 unaligned", "d=64 act=relu arch=80"},
        {"backward", "bwd d=64 act=relu arch=80", "d=64 act=relu arch=80"},
        {"deterministic", "bwd d=64 act=relu arch=80 deterministic", "d=64 act=relu arch=80 deterministic"},
        {"whole", "bwd d=64 act=relu arch=90 family=whole", "bwd d=128 act=relu arch=90"},
        {"whole", "bwd d=128 act=relu arch=90 family=pairs", "d=128 act=relu arch=90"},
        {"stores_dq", "bwd d=64 act=relu arch=90 family=whole",
         "bwd d=64 act=relu out_dtype=fp32 arch=90 family=whole"},
        {"paired", "bwd d=128 act=relu arch=90 family=pairs", "bwd d=128 act=relu arch=90 family=whole"},
        {"claims_alone", "bwd d=128 act=relu arch=90", "bwd d=128 act=relu arch=90 family=pairs"},
        {"claims_alone", "bwd d=128 act=relu arch=90 family=whole", "bwd d=128 act=relu arch=90 deterministic"},
        {"split_columns", "bwd d=256 act=relu arch=80", "bwd d=64 act=relu arch=80"},
        {"q_in_registers", "d=64 act=relu arch=80", "d=256 act=relu arch=80"},
    };
    struct fixture fixture;
    struct sbuf source, why, text;
    sbuf_init(&source, 1 << 16);
    sbuf_init(&why, 4096);
    sbuf_init(&text, 4096);
    bool tried[TEMPLATE_OPTION_COUNT] = {false};
    for (size_t i = 0; i < COUNT_OF(cases); ++i) {
        sbuf_reset(&text);
        sbuf_addf(&text, "//@if %s\nis on\n//@else\nis off\n//@endif\ngdpa_kernel_entry\n", cases[i].option);
        const char *const pairs[][2] = {{"bwd_portable.cuh", text.text},
                                        {"bwd_sm90.cuh", text.text},
                                        {"fwd_portable.cuh", text.text},
                                        {"fwd_sm90.cuh", text.text}};
        fixture_init(&fixture, pairs, COUNT_OF(pairs));
        if (cases[i].on != NULL) {
            assert_int_equal(generate(&fixture, cases[i].on, &source, &why), GDPA_OK);
            assert_contains(source.text, "is on\n");
        }
        assert_int_equal(generate(&fixture, cases[i].off, &source, &why), GDPA_OK);
        assert_contains(source.text, "is off\n");
#define TEMPLATE_OPTION(name, value, doc) tried[TEMPLATE_OPTION_##name] |= strcmp(cases[i].option, #name) == 0;
#include "gen/template_options.def"
#undef TEMPLATE_OPTION
    }
    for (size_t i = 0; i < TEMPLATE_OPTION_COUNT; ++i) {
        assert_true(tried[i]);
    }
    sbuf_deinit(&text);
    sbuf_deinit(&why);
    sbuf_deinit(&source);
}

static void faults_of_a_set_are_internal_errors_with_a_reason(void **state)
{
    (void)state;
    static const struct {
        const char *const pairs[2][2];
        const char *reason;
    } cases[] = {
        {{{"other.cuh", "x\n"}, {"z", ""}}, "no template called fwd_portable.cuh"},
        {{{"fwd_portable.cuh", "#include \"b.cuh\"\ngdpa_kernel_entry\n"}, {"z", ""}}, "no template called b.cuh"},
        {{{"fwd_portable.cuh", "#include \"activation.cuh\"\n"}, {"z", ""}}, "no template called activation/silu.cuh"},
        {{{"fwd_portable.cuh", "#include <math.h>\ngdpa_kernel_entry\n"}, {"z", ""}},
         "fwd_portable.cuh:1: a generated source"},
        {{{"fwd_portable.cuh", "x\n//@endif\n"}, {"z", ""}}, "templates/fwd_portable.cuh:2: there is no open //@if"},
        {{{"fwd_portable.cuh", "gdpa_kernel_entry2 a_gdpa_kernel_entry\n"}, {"z", ""}}, "no entry function"},
        {{{"fwd_portable.cuh", "#include \"b.cuh\"\ngdpa_kernel_entry\n"}, {"b.cuh", "x\n//@if host\n"}},
         "templates/b.cuh:2"},
    };
    struct fixture fixture;
    struct sbuf source, why;
    sbuf_init(&source, 1 << 16);
    sbuf_init(&why, 4096);
    for (size_t i = 0; i < COUNT_OF(cases); ++i) {
        fixture_init(&fixture, cases[i].pairs, 2);
        assert_int_equal(generate(&fixture, "d=64 act=silu arch=80", &source, &why), GDPA_E_INTERNAL);
        assert_contains(why.text, cases[i].reason);
    }
    gdpa_spec spec = spec_of("d=64 act=silu arch=80");
    struct kernel_plan none = {.family = 99};
    assert_int_equal(source_generate_from(&fixture.set, &spec, &none, &source, &why), GDPA_E_ARGUMENT);
    sbuf_deinit(&why);
    sbuf_deinit(&source);
}

static void includes_that_go_in_circles_end(void **state)
{
    (void)state;
    static const char *const pairs[][2] = {
        {"a.cuh", "#include \"b.cuh\"\nin a\n"},
        {"b.cuh", "#include \"a.cuh\"\nin b\n"},
        {"fwd_portable.cuh", "#include \"a.cuh\"\n#include \"fwd_portable.cuh\"\ngdpa_kernel_entry\n"},
    };
    struct fixture fixture;
    struct sbuf source, why;
    fixture_init(&fixture, pairs, COUNT_OF(pairs));
    sbuf_init(&source, 1 << 16);
    sbuf_init(&why, 4096);
    assert_int_equal(generate(&fixture, "d=64 act=silu arch=80", &source, &why), GDPA_OK);
    assert_contains(source.text, "in b\n\n// ---- templates/a.cuh\nin a\n\n// ---- templates/fwd_portable.cuh\n");
    sbuf_deinit(&why);
    sbuf_deinit(&source);
}

static void a_source_that_does_not_fit_is_refused(void **state)
{
    (void)state;
    struct fixture fixture;
    struct sbuf source, why;
    fixture_init(&fixture, small_set, COUNT_OF(small_set));
    sbuf_init(&source, 700);
    sbuf_init(&why, 4096);
    assert_int_equal(generate(&fixture, "d=64 act=silu arch=80", &source, &why), GDPA_E_MEMORY);
    assert_contains(why.text, "out of memory");
    sbuf_deinit(&why);
    sbuf_deinit(&source);
}

static void the_hash_of_a_source_leaves_its_provenance_out(void **state)
{
    (void)state;
    static const char one[] = "/*\n * Made by libgdpajit 0.1.0\n * a\n */\nbody\n";
    static const char other[] = "/*\n * Made by libgdpajit 9.9.9\n * b\n * c\n */\nbody\n";
    static const char changed[] = "/*\n * Made by libgdpajit 0.1.0\n * a\n */\nbodY\n";
    static const char unclosed[] = "/*\n * Made by libgdpajit 0.1.0\n * a";
    static const char edited[] = "/*\n * Made by hand\n */\nbody\n";
    char first[33], second[33];
    source_hash(one, strlen(one), first);
    source_hash(other, strlen(other), second);
    assert_string_equal(first, second);
    assert_int_equal(strlen(first), 32);
    assert_int_equal(strspn(first, "0123456789abcdef"), 32);
    source_hash("body\n", 5, second);
    assert_string_equal(first, second);
    source_hash(changed, strlen(changed), second);
    assert_string_not_equal(first, second);
    source_hash(edited, strlen(edited), second);
    assert_string_not_equal(first, second);
    source_hash(unclosed, strlen(unclosed), second);
    assert_string_not_equal(first, second);
    source_hash("", 0, first);
    assert_string_equal(first, "99aa06d3014798d86001c324468d497f");
}

static void names_read_in_a_fixed_order(void **state)
{
    (void)state;
    static const struct {
        const char *text, *start;
    } cases[] = {
        {"d=128 act=silu causal layout_q=jagged layout_k=jagged arch=90", "gdpa_fwd_sm90_d128_bf16_silu_causal_jqjk_"},
        {"d=192 dv=128 act=fast_gelu dtype=fp16 arch=80", "gdpa_fwd_sm80_d192_dv128_fp16_fast_gelu_"},
        {"d=64 act=relu out_dtype=fp32 arch=120", "gdpa_fwd_sm120_d64_bf16_ofp32_relu_"},
        {"d=64 act=relu window_left=256 window_right=64 align=top_left layout_k=jagged unaligned arch=100",
         "gdpa_fwd_sm100_d64_bf16_relu_wl256_wr64_tl_jk_unaligned_"},
        {"d=64 act=relu window_left=0 causal layout_q=jagged arch=86", "gdpa_fwd_sm86_d64_bf16_relu_causal_wl0_jq_"},
        {"d=64 act=relu family=portable arch=90", "gdpa_fwd_sm90_d64_bf16_relu_portable_"},
    };
    struct sbuf name;
    sbuf_init(&name, 256);
    for (size_t i = 0; i < COUNT_OF(cases); ++i) {
        gdpa_spec spec = spec_of(cases[i].text);
        struct kernel_plan plan = plan_of(&spec);
        sbuf_reset(&name);
        kernel_name(&spec, &plan, &name);
        assert_memory_equal(name.text, cases[i].start, strlen(cases[i].start));
        assert_int_equal(name.length, strlen(cases[i].start) + 8);
        assert_int_equal(strspn(name.text + strlen(cases[i].start), "0123456789abcdef"), 8);
    }
    sbuf_deinit(&name);
}

/* Every template's choice, one after the other, on each architecture; the others at their defaults. */
static void every_source_of_the_embedded_templates_is_whole(void **state)
{
    (void)state;
    static const char *const variants[] = {
        "",
        "dtype=fp16",
        "out_dtype=fp32",
        "dtype=fp16 out_dtype=bf16",
        "causal",
        "window_left=3 window_right=5",
        "causal window_left=100 align=top_left",
        "layout_q=jagged",
        "layout_k=jagged",
        "layout_q=jagged layout_k=jagged causal",
        "unaligned",
        "unaligned out_dtype=fp32 causal",
        "family=portable",
    };
    struct choice_table activations = choice_table(OPTION_KIND_CHOICE_ACTIVATION);
    struct sbuf text, source, again, why, name;
    sbuf_init(&text, 4096);
    sbuf_init(&source, 1 << 22);
    sbuf_init(&again, 1 << 22);
    sbuf_init(&why, 4096);
    sbuf_init(&name, 256);
    for (size_t a = 0; a < activations.count; ++a) {
        for (size_t v = 0; v < COUNT_OF(variants); ++v) {
            sbuf_reset(&text);
            sbuf_reset(&source);
            sbuf_reset(&again);
            sbuf_reset(&name);
            sbuf_addf(&text, "d=%d act=%s arch=%s %s", v % 2 ? 256 : 64, activations.rows[a].name, a % 2 ? "80" : "90",
                      variants[v]);
            gdpa_spec spec = spec_of(text.text);
            struct kernel_plan plan = plan_of(&spec);
            if (source_generate(&spec, &plan, &source, &why) != GDPA_OK) {
                fail_msg("%s: %s", text.text, why.text);
            }
            assert_int_equal(source_generate(&spec, &plan, &again, &why), GDPA_OK);
            assert_string_equal(source.text, again.text);
            kernel_name(&spec, &plan, &name);
            assert_contains(body_of(source.text), name.text);
            assert_contains(source.text, generator_id());
            assert_null(strstr(source.text, "//@"));
            assert_null(strstr(source.text, "#include"));
            assert_null(strstr(source.text, "#ifndef"));
            assert_null(strstr(source.text, "#line"));
            assert_null(strstr(source.text, "gdpa_kernel_entry"));
            assert_null(strstr(source.text, "\n\n\n"));
            assert_null(strstr(source.text, " \n"));
        }
    }
    sbuf_deinit(&name);
    sbuf_deinit(&why);
    sbuf_deinit(&again);
    sbuf_deinit(&source);
    sbuf_deinit(&text);
}

/* Wrappers of wgmma for the widths of the plan, and no others. */
static void sources_have_the_wgmma_that_they_use(void **state)
{
    (void)state;
    struct sbuf source, why;
    sbuf_init(&source, 1 << 22);
    sbuf_init(&why, 4096);
    for (int32_t dim = 8; dim <= 256; dim += 8) {
        gdpa_spec spec = spec_of("d=64 act=relu arch=90");
        spec.head_dim_v = dim;
        struct kernel_plan plan = plan_of(&spec);
        sbuf_reset(&source);
        assert_int_equal(source_generate(&spec, &plan, &source, &why), GDPA_OK);
        for (int32_t width = 8; width <= 256; width += 8) {
            char wrapper[64];
            snprintf(wrapper, sizeof(wrapper), "// ---- templates/ptx/wgmma_n%d.cuh\n", width);
            bool used = width == plan.block_n || width == plan.value_columns ||
                        (width == plan.block_n / 2 && (plan.block_n == 64 || plan.block_n == 128));
            if ((strstr(source.text, wrapper) != NULL) != used) {
                fail_msg("dv=%d: %s has %sbeen spliced in", dim, wrapper, used ? "not " : "");
            }
        }
    }
    sbuf_deinit(&why);
    sbuf_deinit(&source);
}

static void different_kernels_have_different_names_and_hashes(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "d=64 act=relu arch=80",        "d=64 act=relu arch=87",
        "d=64 act=silu arch=80",        "d=64 act=relu arch=80 unaligned",
        "d=64 act=relu arch=80 causal", "d=64 act=relu arch=80 out_dtype=fp32",
        "d=64 act=relu arch=90",        "d=64 act=relu arch=90 family=portable",
    };
    char hashes[COUNT_OF(texts) + 1][33], names[COUNT_OF(texts) + 1][256];
    for (size_t i = 0; i <= COUNT_OF(texts); ++i) {
        gdpa_spec spec = spec_of(texts[i % COUNT_OF(texts)]);
        struct kernel_plan plan = plan_of(&spec);
        if (i == COUNT_OF(texts)) { /* the first one again, with another plan */
            plan.min_blocks = 1;
        }
        struct sbuf source;
        sbuf_init(&source, 1 << 22);
        assert_int_equal(source_generate(&spec, &plan, &source, NULL), GDPA_OK);
        source_hash(source.text, source.length, hashes[i]);
        name_in(source.text, names[i]);
        for (size_t j = 0; j < i; ++j) {
            assert_string_not_equal(hashes[i], hashes[j]);
            assert_string_not_equal(names[i], names[j]);
        }
        sbuf_deinit(&source);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(files_are_spliced_once_where_they_are_first_included),
        cmocka_unit_test(the_provenance_comment_says_how_to_make_the_source_again),
        cmocka_unit_test(the_config_block_has_the_values_of_spec_and_plan),
        cmocka_unit_test(each_option_is_true_for_its_specs_alone),
        cmocka_unit_test(faults_of_a_set_are_internal_errors_with_a_reason),
        cmocka_unit_test(includes_that_go_in_circles_end),
        cmocka_unit_test(a_source_that_does_not_fit_is_refused),
        cmocka_unit_test(the_hash_of_a_source_leaves_its_provenance_out),
        cmocka_unit_test(names_read_in_a_fixed_order),
        cmocka_unit_test(every_source_of_the_embedded_templates_is_whole),
        cmocka_unit_test(sources_have_the_wgmma_that_they_use),
        cmocka_unit_test(different_kernels_have_different_names_and_hashes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
