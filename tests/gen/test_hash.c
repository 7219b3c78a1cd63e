/*
 * hash: the published XXH3-128 values, in canonical order.
 */
#include "gen/hash.h"

#include "tests/gen/gen_test.h"

static void known_values_come_out_in_canonical_order(void **state)
{
    (void)state;
    char hex[33];
    hash_hex("", 0, hex);
    assert_string_equal(hex, "99aa06d3014798d86001c324468d497f");
    hash_hex("a", 1, hex);
    assert_string_equal(hex, "a96faf705af16834e6c632b61e964e1f");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known_values_come_out_in_canonical_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
