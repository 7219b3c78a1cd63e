/*
 * Images between host and device: whole whatever their size, and the first and the last difference are found wherever they
 * are.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/support/host_device.h"
#include "tools/verify_copy.h"

/* Below, at and above what one thread works on and what goes over at a time. */
static const size_t sizes[] = {1,
                               2,
                               4096,
                               HOST_STAGING - 1,
                               HOST_STAGING,
                               HOST_STAGING + 1,
                               3 * HOST_STAGING,
                               (1 << 20) - 1,
                               1 << 20,
                               (1 << 20) + 1,
                               (5 << 20) + 17};
enum { SIZES = sizeof sizes / sizeof *sizes };

static unsigned char *bytes_make(size_t bytes)
{
    unsigned char *made = malloc(bytes);
    assert_non_null(made);
    for (size_t i = 0; i < bytes; i++) {
        made[i] = (unsigned char)(i * 7 + i / 251);
    }
    return made;
}

static void images_go_up_and_come_back_whole(void **state)
{
    (void)state;
    struct host_device host;
    host_device_init(&host, FAULT_NONE);
    for (int i = 0; i < SIZES; i++) {
        unsigned char *image = bytes_make(sizes[i]);
        unsigned char *back = calloc(1, sizes[i]);
        void *memory = NULL;
        struct difference difference;
        assert_non_null(back);
        assert_true(host.device.alloc(&host, sizes[i], &memory));
        assert_true(image_upload(&host.device, memory, image, sizes[i], 3));
        assert_true(image_differs(&host.device, memory, image, sizes[i], 3, &difference));
        assert_false(difference.any);
        assert_true(image_download(&host.device, back, memory, sizes[i], 3));
        assert_memory_equal(image, back, sizes[i]);
        host.device.release(&host, memory);
        free(image);
        free(back);
    }
}

static void differences_are_found_wherever_they_are(void **state)
{
    (void)state;
    struct host_device host;
    host_device_init(&host, FAULT_NONE);
    for (int i = 0; i < SIZES; i++) {
        size_t last = sizes[i] - 1;
        const size_t places[][2] = {{0, 0}, {last, last}, {0, last}, {last / 2, last / 2}, {last / 3, last / 2}};
        unsigned char *image = bytes_make(sizes[i]);
        unsigned char *other = bytes_make(sizes[i]);
        for (size_t p = 0; p < sizeof places / sizeof *places; p++) {
            struct difference found;
            other[places[p][0]] = (unsigned char)~image[places[p][0]];
            other[places[p][1]] = (unsigned char)~image[places[p][1]];
            assert_true(image_differs(&host.device, other, image, sizes[i], 2, &found));
            struct difference direct = bytes_differ(other, image, sizes[i], 2);
            assert_true(found.any && direct.any);
            assert_true(found.first == places[p][0] && direct.first == places[p][0]);
            assert_true(found.last == places[p][1] && direct.last == places[p][1]);
            other[places[p][0]] = image[places[p][0]];
            other[places[p][1]] = image[places[p][1]];
        }
        free(image);
        free(other);
    }
}

static void one_byte_among_the_same_ones_is_found(void **state)
{
    (void)state;
    for (int i = 0; i < SIZES; i++) {
        unsigned char *bytes = malloc(sizes[i]);
        assert_non_null(bytes);
        bytes_fill(bytes, 0xff, sizes[i], 4);
        assert_false(bytes_differ_from(bytes, 0xff, sizes[i], 4).any);
        struct difference all = bytes_differ_from(bytes, 0xfe, sizes[i], 4);
        assert_true(all.any && all.first == 0 && all.last == sizes[i] - 1);
        const size_t places[] = {0, sizes[i] / 2, sizes[i] - 1};
        for (size_t p = 0; p < 3; p++) {
            bytes[places[p]] = 0x7f;
            struct difference one = bytes_differ_from(bytes, 0xff, sizes[i], 4);
            assert_true(one.any && one.first == places[p] && one.last == places[p]);
            bytes[places[p]] = 0xff;
        }
        free(bytes);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(images_go_up_and_come_back_whole),
        cmocka_unit_test(differences_are_found_wherever_they_are),
        cmocka_unit_test(one_byte_among_the_same_ones_is_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
