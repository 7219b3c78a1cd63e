/*
 * plan: what it says about the schedule.
 */
#include "gen/plan.h"

#include "tests/gen/gen_test.h"

static void the_plan_says_how_tiles_are_dealt_out(void **state)
{
    (void)state;
    static const struct {
        const char *text, *reason;
    } cases[] = {
        {"d=64 act=relu arch=80 schedule=dynamic", "reason: schedule auto: a block a tile, dealt out by the hardware"},
        {"d=64 act=relu arch=90 unaligned schedule=zigzag", "reason: schedule auto: a block a tile"},
        {"d=64 act=relu arch=90 family=short schedule=dynamic", "reason: schedule auto: sequences and heads"},
        {"d=64 act=relu arch=90 family=stream layout_q=jagged", "asking for another one changes nothing"},
        {"d=64 act=relu arch=90", "reason: schedule auto: tiles in the order of their sequences"},
        {"d=64 act=relu arch=90 layout_q=jagged causal",
         "reason: schedule auto: tiles in the order of their sequences"},
        {"d=64 act=relu arch=90 layout_q=jagged", "reason: schedule auto: pieces of equal cost"},
        {"d=64 act=relu arch=90 layout_q=jagged schedule=static", "reason: schedule static: asked for"},
        {"d=64 act=relu arch=90 schedule=zigzag", "reason: schedule zigzag: asked for"},
        {"d=64 act=relu arch=90 schedule=dynamic", "reason: schedule dynamic: asked for"},
        {"bwd d=64 act=relu arch=90 schedule=zigzag", "reason: schedule zigzag: asked for"},
        {"bwd d=64 act=relu arch=90 schedule=dynamic", "reason: schedule dynamic: asked for"},
    };
    struct sbuf text;
    sbuf_init(&text, 1 << 16);
    for (size_t i = 0; i < COUNT_OF(cases); ++i) {
        gdpa_spec spec = spec_of(cases[i].text);
        sbuf_reset(&text);
        assert_int_equal(plan_print(&spec, &text, NULL), GDPA_OK);
        assert_contains(text.text, cases[i].reason);
    }
    sbuf_deinit(&text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_plan_says_how_tiles_are_dealt_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
