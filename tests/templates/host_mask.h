/*
 * What test_mask.c and the host build that it makes share.
 */
#ifndef GDPA_TESTS_TEMPLATES_HOST_MASK_H
#define GDPA_TESTS_TEMPLATES_HOST_MASK_H

#include <stdbool.h>
#include <stdint.h>

/* The functions of templates/mask.cuh; the last three are NULL without a mask. */
struct host_mask {
    int64_t (*key_offset)(int32_t length_q, int32_t length_k);
    void (*visible_keys)(int64_t first_row, int64_t last_row, int32_t length_q, int32_t length_k, int32_t *begin,
                         int32_t *end);
    bool (*tile_needs_mask)(int64_t first_row, int64_t last_row, int64_t offset, int32_t key);
    bool (*is_visible)(int64_t aligned_row, int64_t key);
    uint32_t (*hide)(uint32_t packed, int64_t aligned_row, int64_t key);
};

#endif
