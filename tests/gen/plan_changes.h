/*
 * Plans with one field changed, and what the check says of them.
 */
#ifndef GDPA_TESTS_GEN_PLAN_CHANGES_H
#define GDPA_TESTS_GEN_PLAN_CHANGES_H

#include "tests/gen/gen_test.h"

/* A change to a field of a good plan; smem_bytes and threads follow unless they are what is changed. */
struct change {
    const char *field;
    size_t offset;
    int32_t value;
    const char *part; /* of the reason; NULL: the plan stays legal */
};

#define FIELD(name) #name, offsetof(struct kernel_plan, name)

static inline void check_changes(const gdpa_spec *spec, const struct kernel_plan *good, const struct change *changes,
                                 size_t count)
{
    struct sbuf why;
    sbuf_init(&why, 4096);
    for (size_t i = 0; i < count; ++i) {
        const struct change *change = &changes[i];
        struct kernel_plan plan = *good;
        memcpy((unsigned char *)&plan + change->offset, &change->value, sizeof(change->value));
        if (strcmp(change->field, "threads") != 0) {
            plan.threads = plan.warps * 32;
        }
        if (strcmp(change->field, "smem_bytes") != 0) {
            int64_t bytes = plan_smem_bytes(spec, &plan);
            plan.smem_bytes = bytes <= INT32_MAX && bytes >= 0 ? (int32_t)bytes : 0;
        }
        sbuf_reset(&why);
        gdpa_status status = plan_check(spec, &plan, &why);
        if ((status == GDPA_OK) != (change->part == NULL)) {
            fail_msg("%s = %d: %s", change->field, change->value, why.text);
        }
        if (change->part != NULL) {
            assert_int_equal(status, GDPA_E_ARGUMENT);
            assert_contains(why.text, change->part);
        }
    }
    sbuf_deinit(&why);
}

#endif
