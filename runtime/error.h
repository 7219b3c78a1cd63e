/*
 * Errors inside the runtime: the text of gdpa_last_error, and the macros that every function here uses.
 *
 * Layers that may fail without failing the call (NVRTC, driver, compile, cubin checks) write their reason into a `why`
 * buffer, as gen/ does; the layer that gives up turns it into the last error. So a call that succeeds in the end leaves
 * the last error alone.
 */
#ifndef GDPA_RUNTIME_ERROR_H
#define GDPA_RUNTIME_ERROR_H

#include "gen/fail.h" /* TRY, and fail() for the why buffers */
#include "gen/sbuf.h"
#include "include/gdpajit.h"

/* Sets the last error (printf arguments after the code) and returns the code. */
#define FAIL(...) return error_set(__VA_ARGS__)

#define FAIL_IF(condition, ...)                                                                                        \
    do {                                                                                                               \
        if (condition) {                                                                                               \
            FAIL(__VA_ARGS__);                                                                                         \
        }                                                                                                              \
    } while (0)

/* Sets the text of this thread and returns `status`. */
gdpa_status error_set(gdpa_status status, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The reason in `why` becomes the text; says so when memory for it ran out. Returns `status`. */
gdpa_status error_set_why(gdpa_status status, const struct sbuf *why);

/* Puts what was being done in front of the text there is: "doing x: text". */
void error_prefix(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Largest text; longer ones (compiler logs) are cut. */
#define ERROR_TEXT_LIMIT ((size_t)1 << 20)

/* A `why` buffer of the usual size. */
#define WHY_LIMIT ERROR_TEXT_LIMIT

#endif
