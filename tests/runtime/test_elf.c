/*
 * Checks of cubins: every way a file can be wrong is seen, and nothing outside it is read.
 */
#include "runtime/elf.h"
#include "tests/support/cubin_maker.h"
#include "tests/support/runtime_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static const struct cubin_expectation expected_90a = {.arch = 90, .target = "sm_90a", .entry = "gdpa_k"};

static struct cubin_recipe recipe_of(const char *target, int abi)
{
    return (struct cubin_recipe){.entry = "gdpa_k", .target = target, .abi = abi, .text_size = 256, .fill = 3};
}

static gdpa_status check(const struct cubin_recipe *recipe, const struct cubin_expectation *expected, struct sbuf *why)
{
    size_t size = 0;
    unsigned char *cubin = cubin_make(recipe, &size);
    const gdpa_status status = cubin_check(cubin, size, expected, why);
    free(cubin);
    return status;
}

static void the_code_of_both_generations_is_accepted(void **state)
{
    (void)state;
    static const char *const targets[] = {"sm_80",   "sm_86",   "sm_89",   "sm_90a",
                                          "sm_100a", "sm_103a", "sm_120a", "sm_121a"};
    for (size_t i = 0; i < sizeof targets / sizeof targets[0]; i++) {
        for (int abi = 7; abi <= 8; abi++) {
            const struct cubin_recipe recipe = recipe_of(targets[i], abi);
            const struct cubin_expectation expected = {
                .arch = atoi(targets[i] + 3), .target = targets[i], .entry = "gdpa_k"};
            struct sbuf why;
            sbuf_init(&why, 1024);
            if (check(&recipe, &expected, &why) != GDPA_OK) {
                fail_msg("%s, ABI %d: %s", targets[i], abi, why.text);
            }
            sbuf_deinit(&why);
        }
    }
}

static void code_of_another_target_is_refused(void **state)
{
    (void)state;
    static const struct {
        const char *target;
        int abi;
        bool without_note;
        const char *text;
    } cases[] = {{"sm_80", 8, false, "code for compute capability 8.0, expected 9.0"},
                 {"sm_80", 7, false, "code for compute capability 8.0, expected 9.0"},
                 {"sm_90", 8, false, "its tool note does not name the target sm_90a"},
                 {"sm_90", 7, false, "code without the suffix a, expected target sm_90a"},
                 {"sm_100a", 8, false, "code for compute capability 10.0"},
                 {"sm_90a", 8, true, "it has no tool note, which must name the target sm_90a"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct cubin_recipe recipe = recipe_of(cases[i].target, cases[i].abi);
        struct sbuf why;
        recipe.without_note = cases[i].without_note;
        sbuf_init(&why, 1024);
        assert_int_equal(check(&recipe, &expected_90a, &why), GDPA_E_CACHE);
        expect_text(why.text, cases[i].text);
        sbuf_deinit(&why);
    }
}

static void code_with_a_suffix_is_refused_where_none_is_wanted(void **state)
{
    (void)state;
    const struct cubin_expectation expected = {.arch = 90, .target = "sm_90", .entry = "gdpa_k"};
    for (int abi = 7; abi <= 8; abi++) {
        const struct cubin_recipe recipe = recipe_of("sm_90a", abi);
        assert_int_equal(check(&recipe, &expected, NULL), GDPA_E_CACHE);
    }
}

static void a_missing_kernel_is_seen(void **state)
{
    (void)state;
    struct cubin_recipe recipe = recipe_of("sm_90a", 8);
    struct sbuf why;
    sbuf_init(&why, 1024);
    recipe.entry = "gdpa_k2";
    assert_int_equal(check(&recipe, &expected_90a, &why), GDPA_E_CACHE);
    expect_text(why.text, "it has no kernel gdpa_k");
    const struct cubin_expectation any = {.arch = 90, .target = "sm_90a", .entry = NULL};
    assert_int_equal(check(&recipe, &any, &why), GDPA_OK);
    sbuf_deinit(&why);
}

/* On a copy of exactly that size, so that a read behind it is seen by AddressSanitizer. */
static gdpa_status check_copy(const unsigned char *bytes, size_t size)
{
    unsigned char *copy = malloc(size + (size == 0));
    assert_non_null(copy);
    memcpy(copy, bytes, size);
    const gdpa_status status = cubin_check(copy, size, &expected_90a, NULL);
    free(copy);
    return status;
}

static void every_truncation_is_seen(void **state)
{
    (void)state;
    for (int abi = 7; abi <= 8; abi++) {
        const struct cubin_recipe recipe = recipe_of("sm_90a", abi);
        size_t size = 0;
        unsigned char *cubin = cubin_make(&recipe, &size);
        assert_int_equal(check_copy(cubin, size), GDPA_OK);
        for (size_t shorter = 0; shorter < size; shorter++) {
            assert_int_equal(check_copy(cubin, shorter), GDPA_E_CACHE);
        }
        free(cubin);
    }
}

static void a_longer_file_is_refused(void **state)
{
    (void)state;
    const struct cubin_recipe recipe = recipe_of("sm_90a", 8);
    size_t size = 0;
    unsigned char *cubin = cubin_make(&recipe, &size);
    unsigned char *longer = calloc(1, size + 1);
    assert_non_null(longer);
    memcpy(longer, cubin, size);
    assert_int_equal(cubin_check(longer, size + 1, &expected_90a, NULL), GDPA_E_CACHE);
    free(longer);
    free(cubin);
}

static void files_that_are_no_cubins_are_refused(void **state)
{
    (void)state;
    const struct cubin_recipe recipe = recipe_of("sm_90a", 8);
    size_t size = 0;
    static const struct {
        size_t at;
        unsigned char value;
    } changes[] = {
        {0, 0}, {EI_CLASS, ELFCLASS32}, {EI_DATA, ELFDATA2MSB}, {offsetof(Elf64_Ehdr, e_machine), EM_X86_64}};
    for (size_t i = 0; i < sizeof changes / sizeof changes[0]; i++) {
        unsigned char *cubin = cubin_make(&recipe, &size);
        cubin[changes[i].at] = changes[i].value;
        assert_int_equal(check_copy(cubin, size), GDPA_E_CACHE);
        free(cubin);
    }
    assert_int_equal(cubin_check("", 0, &expected_90a, NULL), GDPA_E_CACHE);
    assert_int_equal(cubin_check("text, no ELF", 12, &expected_90a, NULL), GDPA_E_CACHE);
}

static void damage_anywhere_never_leads_outside_the_file(void **state)
{
    (void)state;
    static const unsigned char values[] = {0x00, 0x01, 0x7f, 0x80, 0xff};
    for (int abi = 7; abi <= 8; abi++) {
        const struct cubin_recipe recipe = recipe_of("sm_90a", abi);
        size_t size = 0;
        unsigned char *cubin = cubin_make(&recipe, &size);
        for (size_t at = 0; at < size; at++) {
            const unsigned char before = cubin[at];
            for (size_t i = 0; i < sizeof values; i++) {
                cubin[at] = values[i];
                check_copy(cubin, size); /* good or bad, but within bounds */
            }
            cubin[at] = before;
        }
        assert_int_equal(check_copy(cubin, size), GDPA_OK);
        free(cubin);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_code_of_both_generations_is_accepted),
        cmocka_unit_test(code_of_another_target_is_refused),
        cmocka_unit_test(code_with_a_suffix_is_refused_where_none_is_wanted),
        cmocka_unit_test(a_missing_kernel_is_seen),
        cmocka_unit_test(every_truncation_is_seen),
        cmocka_unit_test(a_longer_file_is_refused),
        cmocka_unit_test(files_that_are_no_cubins_are_refused),
        cmocka_unit_test(damage_anywhere_never_leads_outside_the_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
