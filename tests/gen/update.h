/*
 * Expected files of the tree: compared, or written anew when GDPA_GOLDEN_UPDATE=1 is in the environment (make golden-update).
 */
#ifndef GDPA_TESTS_GEN_UPDATE_H
#define GDPA_TESTS_GEN_UPDATE_H

#include <stdlib.h>

#include "gen/sbuf.h"
#include "tests/gen/gen_test.h"

/* The text of a file of the tree; false when it cannot be opened. */
static inline bool read_tree_file(const char *path, struct sbuf *text)
{
    char name[600], chunk[4096];
    snprintf(name, sizeof(name), "%s/%s", TEST_SOURCE_DIR, path);
    FILE *file = fopen(name, "rb");
    if (file == NULL) {
        return false;
    }
    sbuf_reset(text);
    for (size_t length; (length = fread(chunk, 1, sizeof(chunk), file)) > 0;) {
        sbuf_add(text, chunk, length);
    }
    fclose(file);
    return !text->overflow;
}

static inline bool updating(void)
{
    const char *value = getenv("GDPA_GOLDEN_UPDATE");
    return value != NULL && strcmp(value, "1") == 0;
}

/* Number of the first line in which two texts differ; 0: they are equal. */
static inline int first_difference(const char *one, const char *other)
{
    int line = 1;
    while (*one == *other && *one != '\0') {
        line += *one == '\n';
        ++one;
        ++other;
    }
    return *one == *other ? 0 : line;
}

/* Fails the test unless the file holds the text; when updating, writes it. */
static inline void assert_tree_file(const char *path, const char *expected)
{
    struct sbuf text;
    sbuf_init(&text, (size_t)1 << 24);
    bool found = read_tree_file(path, &text);
    int line = found ? first_difference(text.text, expected) : 1;
    sbuf_deinit(&text);
    if (line == 0) {
        return;
    }
    if (!updating()) {
        fail_msg("%s: %s %d; `make golden-update` writes it anew, then read the diff", path,
                 found ? "differs in line" : "is not there; expected lines from", line);
    }
    char name[600];
    snprintf(name, sizeof(name), "%s/%s", TEST_SOURCE_DIR, path);
    FILE *file = fopen(name, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(expected, 1, strlen(expected), file), strlen(expected));
    assert_int_equal(fclose(file), 0);
    print_message("wrote %s\n", path);
}

#endif
