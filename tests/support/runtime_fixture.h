/*
 * What the tests of runtime/ share: the fakes, contexts that use them, scratch folders, captured log lines.
 */
#ifndef GDPA_TESTS_SUPPORT_RUNTIME_FIXTURE_H
#define GDPA_TESTS_SUPPORT_RUNTIME_FIXTURE_H

#include "include/gdpajit.h"
#include "tests/support/fake_driver.h"
#include "tests/support/fake_nvrtc.h"

#include <pthread.h>
#include <stdbool.h>

#define FAKE_DRIVER_PATH TEST_BUILD_DIR "/tests/libfake_driver.so"
#define FAKE_NVRTC_PATH TEST_BUILD_DIR "/tests/libfake_nvrtc.so"

/* NULL until fakes_load. */
extern const struct fake_driver *fake_driver_control;
extern const struct fake_nvrtc *fake_nvrtc_control;

/* Loads both and resets them; the environment loses every variable that the library reads. cmocka set-up functions. */
int fakes_load(void **state);
int fakes_reset(void **state);

/* A new empty folder, and its removal with all that is in it (the path is freed). */
char *scratch_make(void);
void scratch_remove(char *folder);

struct captured_log {
    pthread_mutex_t lock;
    char text[1 << 16];
    size_t length;
    int lines;
};

void captured_log_init(struct captured_log *log);
void captured_log_line(gdpa_log_level level, const char *subsystem, const char *line, void *user);

/* Options for a context on the fakes; change what the test is about. */
gdpa_ctx_options runtime_options(const char *cache_dir);

/* A context that must come to be. */
gdpa_ctx *runtime_context(const gdpa_ctx_options *options);

/* A spec from its text, which must be good. */
gdpa_spec runtime_spec(const char *text);

/* Dense arguments of batch 2, 3 rows, 4 heads; pointers that are aligned and never followed. */
gdpa_args runtime_args(void);

/* The status, and a text that is in gdpa_last_error(). */
void expect_failure_at(gdpa_status status, gdpa_status expected, const char *text, const char *file, int line);
#define expect_failure(call, expected, text) expect_failure_at((call), (expected), (text), __FILE__, __LINE__)
void expect_ok_at(gdpa_status status, const char *file, int line);
#define expect_ok(call) expect_ok_at((call), __FILE__, __LINE__)

/* Whether a text holds another; prints both when not. */
void expect_text_at(const char *text, const char *part, const char *file, int line);
#define expect_text(text, part) expect_text_at((text), (part), __FILE__, __LINE__)

#endif
