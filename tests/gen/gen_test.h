/*
 * What the tests of gen/ share: cmocka and its headers, specs from text.
 */
#ifndef GDPA_TESTS_GEN_GEN_TEST_H
#define GDPA_TESTS_GEN_GEN_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "gen/plan.h"

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

/* Fails the test, with the message, unless `part` is in the text. */
#define assert_contains(text, part) assert_contains_at(text, part, __FILE__, __LINE__)

static inline void assert_contains_at(const char *text, const char *part, const char *file, int line)
{
    if (strstr(text, part) == NULL) {
        print_error("\"%s\"\nhas no \"%s\"\n", text, part);
        _fail(file, line);
    }
}

/* The normalised spec of a text that must be legal. */
static inline gdpa_spec spec_of(const char *text)
{
    struct sbuf why;
    sbuf_init(&why, 4096);
    gdpa_spec parsed = {0}, normalised = {0};
    if (spec_parse(text, &parsed, &why) != GDPA_OK || spec_normalise(&parsed, true, &normalised, &why) != GDPA_OK) {
        fail_msg("'%s': %s", text, why.text);
    }
    sbuf_deinit(&why);
    return normalised;
}

/* A plan that must exist. */
static inline struct kernel_plan plan_of(const gdpa_spec *spec)
{
    struct sbuf why;
    sbuf_init(&why, 4096);
    struct kernel_plan plan;
    if (plan_make(spec, &plan, NULL, &why) != GDPA_OK) {
        fail_msg("%s", why.text);
    }
    sbuf_deinit(&why);
    return plan;
}

#endif
