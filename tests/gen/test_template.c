/*
 * template: which lines are what, which are active, and every way to break the grammar.
 */
#include "gen/template.h"

#include "tests/gen/gen_test.h"

/* Reads a whole text. *active gets the active text lines, each with a '|' behind it. The end or the error is returned. */
static enum template_line_kind read_all(const char *text, const bool *values, struct sbuf *active, struct sbuf *why)
{
    struct template_file file = {"x.cuh", text, strlen(text)};
    struct template_reader reader;
    template_open(&reader, &file, values);
    for (;;) {
        struct template_line line;
        enum template_line_kind kind = template_next(&reader, &line, why);
        if (kind == TEMPLATE_END || kind == TEMPLATE_ERROR) {
            return kind;
        }
        if (template_is_active(&reader) && kind == TEMPLATE_TEXT) {
            sbuf_add(active, line.text, line.length);
            sbuf_addstr(active, "|");
        } else if (template_is_active(&reader) && (kind == TEMPLATE_INCLUDE || kind == TEMPLATE_INCLUDE_SYSTEM)) {
            sbuf_addf(active, "%c%.*s|", kind == TEMPLATE_INCLUDE ? '"' : '<', (int)line.file_length, line.file);
        }
    }
}

static void assert_reads(const char *text, const bool *values, const char *expected)
{
    struct sbuf active, why;
    sbuf_init(&active, 4096);
    sbuf_init(&why, 4096);
    if (read_all(text, values, &active, &why) != TEMPLATE_END) {
        fail_msg("%s\n%s", text, why.text);
    }
    assert_string_equal(active.text, expected);
    sbuf_deinit(&why);
    sbuf_deinit(&active);
}

static void passages_follow_their_options(void **state)
{
    (void)state;
    static const char nested[] =
        "a\n//@if causal\nb\n  //@if !bf16\nc\n  //@else\nd\n  //@endif\ne\n//@else\nf\n//@if bf16\ng\n"
        "//@endif\n//@endif\nh\n//@if bf16\ni\n//@endif\n";
    bool values[TEMPLATE_OPTION_COUNT] = {false};
    assert_reads(nested, values, "a|f|h|");
    values[TEMPLATE_OPTION_bf16] = true;
    assert_reads(nested, values, "a|f|g|h|i|");
    values[TEMPLATE_OPTION_causal] = true;
    assert_reads(nested, values, "a|b|d|e|h|i|");
    values[TEMPLATE_OPTION_bf16] = false;
    assert_reads(nested, values, "a|b|c|e|h|");
}

static void includes_and_guards_are_recognised(void **state)
{
    (void)state;
    static const bool values[TEMPLATE_OPTION_COUNT];
    static const struct {
        const char *text, *expected;
    } cases[] = {
        {"", ""},
        {"a", "a|"}, /* a last line without newline */
        {"\n\n", "||"},
        {"#include \"a/b.cuh\"\n# include <c.h> // why\n", "\"a/b.cuh|<c.h|"},
        {"// one\n/* #ifndef NO\n#include \"no\" */\n#ifndef G\n#define G\nx\n#endif\n",
         "// one|/* #ifndef NO|#include \"no\" */|x|"},
        {"#ifndef G\n# define  G  \nx\n#if A\ny\n#endif\n#endif // G\n", "x|#if A|y|#endif|"},
        {"#pragma once\n#pragma unroll\nx\n", "#pragma unroll|x|"},
        {"#ifndef A\n#define B\n#endif\n", "#ifndef A|#define B|#endif|"},      /* no guard: another name */
        {"x\n#ifndef A\n#define A\n#endif\n", "x|#ifndef A|#define A|#endif|"}, /* no guard: code comes before it */
        {"#ifndef A\n\n#define A\n#endif\n", "#ifndef A||#define A|#endif|"},
        {"#ifdef A\n#define A\n#elif B\n#else\n#endif\n", "#ifdef A|#define A|#elif B|#else|#endif|"},
        {"a; // it's @if\n", "a; // it's @if|"},
    };
    for (size_t i = 0; i < COUNT_OF(cases); ++i) {
        assert_reads(cases[i].text, values, cases[i].expected);
    }
}

static void every_fault_is_told_with_file_and_line(void **state)
{
    (void)state;
    static const bool values[TEMPLATE_OPTION_COUNT];
    static const struct {
        const char *text, *reason;
    } cases[] = {
        {"\n//@if casual\n//@endif\n",
         "templates/x.cuh:2: no template option is called 'casual'; did you mean 'causal'?"},
        {"//@if xyz\n//@endif\n", "templates/x.cuh:1: no template option is called 'xyz' (they are listed"},
        {"//@if\n//@endif\n", "x.cuh:1: //@if takes one option name"},
        {"//@if !\n//@endif\n", "x.cuh:1: //@if takes one option name"},
        {"//@if ! causal\n//@endif\n", "x.cuh:1: //@if takes one option name"},
        {"//@if causal && bf16\n//@endif\n", "x.cuh:1: //@if takes one option name"},
        {"//@if causal bf16\n//@endif\n", "x.cuh:1: //@if takes one option name"},
        {"//@if causal // why\n//@endif\n", "x.cuh:1: //@if takes one option name"},
        {"//@elif causal\n", "x.cuh:1: the directives are //@if, //@else and //@endif"},
        {"//@ if causal\n", "x.cuh:1: the directives are"},
        {"//@ifcausal\n", "x.cuh:1: the directives are"},
        {"//@define x\n", "x.cuh:1: the directives are"},
        {"//@endif\n", "x.cuh:1: there is no open //@if"},
        {"//@else\n", "x.cuh:1: there is no open //@if"},
        {"//@if causal\n//@endif\n//@endif\n", "x.cuh:3: there is no open //@if"},
        {"//@if causal\n//@else\n//@else\n//@endif\n", "x.cuh:3: the passage has an //@else already"},
        {"//@if causal\n//@else causal\n//@endif\n", "x.cuh:2: //@else and //@endif take nothing"},
        {"//@if causal\n//@endif causal\n", "x.cuh:2: //@else and //@endif take nothing"},
        {"a\n//@if causal\nb\n", "x.cuh:2: the //@if has no //@endif"},
        {"//@if causal\n//@if bf16\n//@endif\n", "x.cuh:1: the //@if has no //@endif"},
        {"//@if causal\n//@if bf16\n//@if fp16\n//@endif\n//@endif\n//@endif\n",
         "x.cuh:3: passages may be nested two deep"},
        {"a; //@if causal\n", "x.cuh:1: a directive must have a line of its own"},
        {"/*\n//@if causal\n*/\n", "x.cuh:2: a directive must have a line of its own"},
        {"#include\n", "x.cuh:1: #include takes"},
        {"#include x\n", "x.cuh:1: #include takes"},
        {"#include \"x\n", "x.cuh:1: #include takes"},
        {"#include \"\"\n", "x.cuh:1: #include takes"},
        {"#include <x\"\n", "x.cuh:1: #include takes"},
        {"#endif\n", "x.cuh:1: there is no open #if"},
        {"#ifndef G\n#define G\n", "x.cuh:2: the file ends inside an #if"},
        {"#if A\n", "x.cuh:1: the file ends inside an #if"},
        {"a\n/* b\n", "x.cuh:2: the file ends inside a comment"},
    };
    struct sbuf active, why;
    sbuf_init(&active, 4096);
    sbuf_init(&why, 4096);
    for (size_t i = 0; i < COUNT_OF(cases); ++i) {
        if (read_all(cases[i].text, values, &active, &why) != TEMPLATE_ERROR) {
            fail_msg("no fault was found in:\n%s", cases[i].text);
        }
        assert_contains(why.text, cases[i].reason);
    }
    sbuf_deinit(&why);
    sbuf_deinit(&active);
}

static void the_inside_of_a_passage_is_known(void **state)
{
    (void)state;
    static const bool values[TEMPLATE_OPTION_COUNT];
    static const char text[] =
        "0\n//@if host\n1\n//@if causal\n2\n//@endif\n//@else\n3\n//@endif\n//@if !host\n4\n//@else\n5\n"
        "//@endif\n";
    static const bool inside[] = {false, true, true, false, false, true};
    struct template_file file = {"x.cuh", text, strlen(text)};
    struct template_reader reader;
    struct template_line line;
    template_open(&reader, &file, values);
    size_t seen = 0;
    for (enum template_line_kind kind; (kind = template_next(&reader, &line, NULL)) != TEMPLATE_END;) {
        if (kind == TEMPLATE_TEXT) {
            assert_int_equal(template_is_inside(&reader, TEMPLATE_OPTION_host), inside[line.text[0] - '0']);
            ++seen;
        }
    }
    assert_int_equal(seen, COUNT_OF(inside));
}

static void files_are_found_by_their_whole_path(void **state)
{
    (void)state;
    static const struct template_file files[] = {{"a.cuh", "", 0}, {"b/a.cuh", "", 0}};
    struct template_set set = {files, COUNT_OF(files), ""};
    assert_ptr_equal(template_find(&set, "b/a.cuh and more", 7), &files[1]);
    assert_ptr_equal(template_find(&set, "a.cuh", 5), &files[0]);
    assert_null(template_find(&set, "a.cu", 4));
    assert_null(template_find(&set, "", 0));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(passages_follow_their_options),          cmocka_unit_test(includes_and_guards_are_recognised),
        cmocka_unit_test(every_fault_is_told_with_file_and_line), cmocka_unit_test(the_inside_of_a_passage_is_known),
        cmocka_unit_test(files_are_found_by_their_whole_path),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
