/*
 * What the tests of the command line share.
 */
#ifndef GDPA_TESTS_TOOLS_CLI_TEST_H
#define GDPA_TESTS_TOOLS_CLI_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define COUNT_OF(array) (sizeof(array) / sizeof *(array))

/* A stream that collects what is written to it; text_of closes it and gives the text, to be freed. */
struct capture {
    FILE *stream;
    char *text;
    size_t length;
};

static inline void capture_start(struct capture *capture)
{
    capture->text = NULL;
    capture->length = 0;
    capture->stream = open_memstream(&capture->text, &capture->length);
    assert_non_null(capture->stream);
}

static inline char *capture_end(struct capture *capture)
{
    assert_int_equal(fclose(capture->stream), 0);
    return capture->text;
}

#endif
