/*
 * How the generator reports a failure: a status, and its reason in a `why` buffer (which may be NULL).
 */
#ifndef GDPA_GEN_FAIL_H
#define GDPA_GEN_FAIL_H

#include "gen/sbuf.h"
#include "include/gdpajit.h"

/* Replaces the text of `why` by the formatted reason and returns status. */
gdpa_status fail(struct sbuf *why, gdpa_status status, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* Hands a failure of an inner call on. */
#define TRY(call)                                                                                                      \
    do {                                                                                                               \
        gdpa_status try_status_ = (call);                                                                              \
        if (try_status_ != GDPA_OK) {                                                                                  \
            return try_status_;                                                                                        \
        }                                                                                                              \
    } while (0)

#endif
