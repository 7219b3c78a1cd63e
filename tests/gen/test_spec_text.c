/*
 * spec_text: canonical texts, every way to write a value, every way to get it wrong, and random texts.
 */
#include "gen/tables.h"
#include "tests/gen/gen_test.h"
#include "tests/support/random.h"

static void canonical_texts_name_the_basics_and_what_is_no_default(void **state)
{
    (void)state;
    static const struct {
        const char *text, *canonical;
    } cases[] = {
        {"d=128 act=silu", "fwd head_dim=128 dtype=bf16 activation=silu"},
        {"arch=90 layout_q=jagged causal act=swish dtype=bfloat16 d=128",
         "fwd head_dim=128 dtype=bf16 activation=silu causal layout_q=jagged arch=sm_90a"},
        {"forward d=8 dv=256 act=raw dtype=half out_dtype=float",
         "fwd head_dim=8 head_dim_v=256 dtype=fp16 out_dtype=fp32 activation=identity"},
        {"d=64 dv=64 act=relu out_dtype=bf16", "fwd head_dim=64 dtype=bf16 activation=relu"},
        {"d=64 act=relu causal window_left=9 align=top_left",
         "fwd head_dim=64 dtype=bf16 activation=relu causal window_left=9 align=top_left"},
        {"d=64 act=relu window_left=0 window_right=3",
         "fwd head_dim=64 dtype=bf16 activation=relu window_left=0 window_right=3"},
        {"d=64 act=relu family=mma arch=90", "fwd head_dim=64 dtype=bf16 activation=relu family=portable arch=sm_90a"},
        {"d=64 act=relu family=wgmma arch=90", "fwd head_dim=64 dtype=bf16 activation=relu arch=sm_90a"},
        {"d=64 act=relu schedule=static family=hopper", "fwd head_dim=64 dtype=bf16 activation=relu family=sm90"},
        {"d=64 act=relu schedule=dynamic arch=hopper",
         "fwd head_dim=64 dtype=bf16 activation=relu schedule=dynamic arch=sm_90a"},
        {"d=64 act=relu schedule=zigzag layout_q=jagged",
         "fwd head_dim=64 dtype=bf16 activation=relu layout_q=jagged schedule=zigzag"},
        {"bwd d=64 act=relu schedule=dynamic arch=hopper",
         "bwd head_dim=64 dtype=bf16 activation=relu schedule=dynamic arch=sm_90a"},
        {"bwd d=64 act=relu deterministic schedule=static unaligned layout_k=varlen",
         "bwd head_dim=64 dtype=bf16 activation=relu layout_k=jagged deterministic unaligned"},
    };
    struct sbuf text;
    sbuf_init(&text, 4096);
    for (size_t i = 0; i < COUNT_OF(cases); ++i) {
        gdpa_spec spec = spec_of(cases[i].text);
        sbuf_reset(&text);
        spec_print(&spec, &text);
        assert_string_equal(text.text, cases[i].canonical);
    }
    sbuf_deinit(&text);
}

static void every_name_and_alias_of_a_choice_is_read(void **state)
{
    (void)state;
    struct sbuf text, why;
    sbuf_init(&text, 4096);
    sbuf_init(&why, 4096);
    for (size_t i = 0; i < OPTION_COUNT; ++i) {
        const struct option_row *row = &option_rows[i];
        struct choice_table table = choice_table(row->kind);
        for (size_t j = 0; j < table.count; ++j) {
            char words[200], *rest = words;
            snprintf(words, sizeof(words), "%s %s", table.rows[j].name, table.rows[j].aliases);
            for (char *word; (word = strtok_r(rest, " ", &rest)) != NULL;) {
                gdpa_spec spec;
                bool legal = table.rows[j].number <= row->highest;
                sbuf_reset(&text);
                sbuf_addf(&text, "%s=%s", row->name, word);
                assert_int_equal(spec_parse(text.text, &spec, &why), legal ? GDPA_OK : GDPA_E_ARGUMENT);
                if (legal) {
                    assert_int_equal(option_get(row, &spec), table.rows[j].number);
                }
            }
        }
    }
    sbuf_deinit(&why);
    sbuf_deinit(&text);
}

static void on_off_options_have_eight_spellings_and_a_bare_one(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int32_t value;
    } cases[] = {
        {"causal", 1},   {"causal=1", 1},     {"causal=true", 1}, {"causal=on", 1}, {"causal=yes", 1},
        {"causal=0", 0}, {"causal=false", 0}, {"causal=off", 0},  {"causal=no", 0},
    };
    struct sbuf why;
    sbuf_init(&why, 4096);
    for (size_t i = 0; i < COUNT_OF(cases); ++i) {
        gdpa_spec spec;
        assert_int_equal(spec_parse(cases[i].text, &spec, &why), GDPA_OK);
        assert_int_equal(spec.causal, cases[i].value);
    }
    sbuf_deinit(&why);
}

static void windows_set_their_bits(void **state)
{
    (void)state;
    gdpa_spec spec;
    assert_int_equal(spec_parse("window_left=0", &spec, NULL), GDPA_OK);
    assert_int_equal(spec.flags, GDPA_SPEC_WINDOW_LEFT);
    assert_int_equal(spec_parse("window_right=-1", &spec, NULL), GDPA_OK);
    assert_int_equal(spec.flags, GDPA_SPEC_WINDOW_RIGHT);
    assert_int_equal(spec.window_right, -1);
    assert_int_equal(spec_parse("window_left=2147483647 window_right=2", &spec, NULL), GDPA_OK);
    assert_int_equal(spec.flags, GDPA_SPEC_WINDOW_LEFT | GDPA_SPEC_WINDOW_RIGHT);
    assert_int_equal(spec.window_left, INT32_MAX);
}

static void white_space_of_every_kind_separates(void **state)
{
    (void)state;
    gdpa_spec spec;
    assert_int_equal(spec_parse(" \t\n fwd\r\nhead_dim=64\v\factivation=relu  ", &spec, NULL), GDPA_OK);
    assert_int_equal(spec.pass, GDPA_PASS_FORWARD);
    assert_int_equal(spec.head_dim, 64);
    assert_int_equal(spec.activation, GDPA_ACTIVATION_RELU);
    assert_int_equal(spec_parse("", &spec, NULL), GDPA_OK);
    gdpa_spec empty = GDPA_SPEC_INIT;
    assert_memory_equal(&spec, &empty, sizeof(spec));
}

static void wrong_texts_are_refused_with_the_word_and_the_cure(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        const char *parts[3];
    } cases[] = {
        {"hed_dim=64", {"no option is called 'hed_dim'", "did you mean 'head_dim'?", "options: head_dim, head_dim_v"}},
        {"head_dim=64 silu", {"'silu'", "did you mean 'activation=silu'?"}},
        {"backwards head_dim=64",
         {"no option is called 'backwards'; the pass is the first word", "did you mean 'bwd'?"}},
        {"head_dim=64 pass=bwd", {"no option is called 'pass'", "did you mean 'fwd' or 'bwd'?"}},
        {"gradients", {"did you mean 'bwd'?"}},
        {"forw", {"did you mean 'fwd'?"}},
        {"zebra=1", {"no option is called 'zebra' (options"}},
        {"=64", {"no option is called ''"}},
        {"HEAD_DIM=64", {"no option is called 'HEAD_DIM'"}},
        {"activation=sliu", {"activation is 'sliu'", "identity, relu", "did you mean 'silu'?"}},
        {"activation=SILU", {"activation is 'SILU'"}},
        {"activation=", {"activation is ''"}},
        {"activation=9", {"activation is '9'"}},
        {"dtype=fp32", {"dtype is fp32 (3)", "bf16 (1), fp16 (2)"}},
        {"dtype=bf61", {"dtype is 'bf61'", "legal are bf16, fp16; did you mean 'bf16'?"}},
        {"out_dtype=fp23", {"legal are bf16, fp16, fp32; did you mean 'fp32'?"}},
        {"family=sm_90",
         {"family is 'sm_90'", "legal are auto, portable, sm90, short, stream, whole, pairs; did you mean 'sm90'?"}},
        {"arch=sm_75", {"arch is 'sm_75'", "sm_80, sm_86"}},
        {"head_dim", {"head_dim stands without a value", "head_dim=VALUE"}},
        {"activation", {"activation stands without a value"}},
        {"head_dim=", {"head_dim is ''"}},
        {"head_dim=-", {"head_dim is '-'"}},
        {"head_dim=+64", {"head_dim is '+64'"}},
        {"head_dim=64x", {"head_dim is '64x'"}},
        {"head_dim=0x40", {"head_dim is '0x40'"}},
        {"head_dim=6 4", {"head_dim is 6", "multiples of 8 from 8 to 256"}},
        {"head_dim=100", {"head_dim is 100", "multiples of 8 from 8 to 256"}},
        {"head_dim=0", {"head_dim is 0"}},
        {"head_dim=264", {"head_dim is 264"}},
        {"head_dim=2147483648", {"head_dim is '2147483648'"}},
        {"head_dim=-2147483649", {"head_dim is '-2147483649'"}},
        {"head_dim=99999999999999999999999999999999999999", {"head_dim is '999999"}},
        {"window_left=-2", {"window_left is -2", "legal are -1 to 2147483647"}},
        {"causal=2", {"causal is '2'", "true, on, yes"}},
        {"causal=", {"causal is ''"}},
        {"causal=True", {"causal is 'True'"}},
        {"causal causal", {"causal is given twice"}},
        {"d=64 head_dim=64", {"head_dim is given twice"}},
        {"fwd fwd", {"'fwd' must be the first word"}},
        {"head_dim=64 bwd", {"'bwd' must be the first word"}},
        {"fwd,head_dim=64", {"no option is called 'fwd,head_dim'"}},
    };
    struct sbuf why;
    sbuf_init(&why, 4096);
    for (size_t i = 0; i < COUNT_OF(cases); ++i) {
        gdpa_spec spec, untouched;
        memset(&spec, 0x5a, sizeof(spec));
        memset(&untouched, 0x5a, sizeof(untouched));
        assert_int_equal(spec_parse(cases[i].text, &spec, &why), GDPA_E_ARGUMENT);
        assert_memory_equal(&spec, &untouched, sizeof(spec));
        for (size_t j = 0; j < COUNT_OF(cases[i].parts) && cases[i].parts[j] != NULL; ++j) {
            assert_contains(why.text, cases[i].parts[j]);
        }
    }
    gdpa_spec spec;
    assert_int_equal(spec_parse(NULL, &spec, &why), GDPA_E_ARGUMENT);
    sbuf_deinit(&why);
}

/* Prints, parses and normalises: the bytes must come back. */
static void assert_round_trip(const gdpa_spec *spec)
{
    struct sbuf text, again, why;
    sbuf_init(&text, 4096);
    sbuf_init(&again, 4096);
    sbuf_init(&why, 4096);
    gdpa_spec parsed, normalised;
    spec_print(spec, &text);
    if (spec_parse(text.text, &parsed, &why) != GDPA_OK ||
        spec_normalise(&parsed, true, &normalised, &why) != GDPA_OK) {
        fail_msg("'%s': %s", text.text, why.text);
    }
    assert_memory_equal(spec, &normalised, sizeof(normalised));
    spec_print(&normalised, &again);
    assert_string_equal(text.text, again.text);
    sbuf_deinit(&why);
    sbuf_deinit(&again);
    sbuf_deinit(&text);
}

static void specs_of_every_class_round_trip(void **state)
{
    (void)state;
    static const int32_t sides[] = {-1, 0, 1, 256, INT32_MAX - 1, INT32_MAX};
    struct random_source random = {.seed = 1};
    size_t count = 0;
    for (int32_t bits = 0; bits < 1 << 7; ++bits) {
        for (size_t left = 0; left < COUNT_OF(sides); ++left) {
            for (size_t right = 0; right < COUNT_OF(sides); ++right) {
                gdpa_spec spec = GDPA_SPEC_INIT, normalised;
                spec.flags = GDPA_SPEC_WINDOW_LEFT | GDPA_SPEC_WINDOW_RIGHT;
                spec.window_left = sides[left];
                spec.window_right = sides[right];
                spec.pass = 1 + (bits & 1);
                spec.causal = bits >> 1 & 1;
                spec.align = 1 + (bits >> 2 & 1);
                spec.layout_q = 1 + (bits >> 3 & 1);
                spec.layout_k = 1 + (bits >> 4 & 1);
                spec.unaligned = bits >> 5 & 1;
                spec.deterministic = bits >> 6 & 1;
                spec.schedule = (int32_t)random_between(&random, 0, 4);
                spec.family = (int32_t)random_between(&random, 0, 3);
                spec.head_dim = 8 * (int32_t)random_between(&random, 1, 32);
                spec.head_dim_v = 8 * (int32_t)random_between(&random, 0, 32);
                spec.dtype = (int32_t)random_between(&random, 0, 2);
                spec.out_dtype = (int32_t)random_between(&random, 0, 3);
                spec.activation = (int32_t)random_between(&random, 1, 17);
                struct choice_table archs = choice_table(OPTION_KIND_CHOICE_ARCH);
                int64_t arch = random_between(&random, -1, (int64_t)archs.count - 1);
                spec.arch = arch < 0 ? 0 : archs.rows[arch].number;
                assert_int_equal(spec_normalise(&spec, true, &normalised, NULL), GDPA_OK);
                assert_round_trip(&normalised);
                ++count;
            }
        }
    }
    assert_int_equal(count, 128 * COUNT_OF(sides) * COUNT_OF(sides));
}

/* Words that are nearly right, so that random texts get deep into the parser. */
static void add_random_word(struct random_source *random, struct sbuf *text)
{
    static const char *const words[] = {
        "fwd",        "bwd",       "head_dim", "d",      "dv",          "dtype",        "out_dtype",
        "activation", "act",       "causal",   "align",  "layout_q",    "arch",         "=",
        "==",         " ",         "\t",       "-",      "64",          "128",          "-1",
        "0",          "silu",      "relu2",    "jagged", "top_left",    "sm_90a",       "99999999",
        "4294967296", "unaligned", "on",       "false",  "window_left", "window_right", "layout_k",
        "static",     "family",    "portable",
    };
    int64_t kind = random_between(random, 0, 9);
    if (kind == 0) {
        for (int64_t i = random_between(random, 1, 8); i > 0; --i) {
            char byte = (char)random_between(random, 1, 255);
            sbuf_add(text, &byte, 1);
        }
    } else if (kind <= 4) {
        const struct option_row *row = &option_rows[random_between(random, 0, OPTION_COUNT - 1)];
        struct choice_table table = choice_table(row->kind);
        if (table.count > 0) {
            int64_t i = random_between(random, 0, (int64_t)table.count - 1);
            sbuf_addf(text, " %s=%s ", row->name, table.rows[i].name);
        } else {
            sbuf_addf(text, " %s=%d ", row->name, (int)random_between(random, -2, 40) * 8);
        }
    } else {
        sbuf_addstr(text, words[random_between(random, 0, (int64_t)COUNT_OF(words) - 1)]);
        sbuf_addstr(text, kind <= 7 ? " " : "");
    }
}

static void random_texts_are_read_or_refused_with_a_reason(void **state)
{
    (void)state;
    struct random_source random = {.seed = 20};
    struct sbuf text, why;
    sbuf_init(&text, 4096);
    sbuf_init(&why, 4096);
    int parsed = 0, legal = 0;
    for (int i = 0; i < 100000; ++i) {
        sbuf_reset(&text);
        sbuf_reset(&why);
        sbuf_addstr(&text, i % 2 == 0 ? "d=64 act=silu " : "");
        for (int64_t words = random_between(&random, 0, 6); words > 0; --words) {
            add_random_word(&random, &text);
        }
        gdpa_spec spec, normalised;
        gdpa_status status = spec_parse(text.text, &spec, &why);
        if (status == GDPA_OK) {
            ++parsed;
            status = spec_normalise(&spec, true, &normalised, &why);
            if (status == GDPA_OK) {
                ++legal;
                assert_round_trip(&normalised);
            }
        }
        assert_true(status == GDPA_OK || status == GDPA_E_ARGUMENT);
        assert_int_equal(status == GDPA_OK, why.length == 0);
    }
    assert_true(parsed > 10000); /* the texts are not all rubbish, */
    assert_true(legal > 3000);
    assert_true(parsed < 90000); /* nor all legal */
    sbuf_deinit(&why);
    sbuf_deinit(&text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(canonical_texts_name_the_basics_and_what_is_no_default),
        cmocka_unit_test(every_name_and_alias_of_a_choice_is_read),
        cmocka_unit_test(on_off_options_have_eight_spellings_and_a_bare_one),
        cmocka_unit_test(windows_set_their_bits),
        cmocka_unit_test(white_space_of_every_kind_separates),
        cmocka_unit_test(wrong_texts_are_refused_with_the_word_and_the_cure),
        cmocka_unit_test(specs_of_every_class_round_trip),
        cmocka_unit_test(random_texts_are_read_or_refused_with_a_reason),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
