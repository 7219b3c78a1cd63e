/*
 * Checks of a cubin before the driver sees it: whole, of the right machine and target, with the entry it should have.
 */
#ifndef GDPA_RUNTIME_ELF_H
#define GDPA_RUNTIME_ELF_H

#include "runtime/error.h"

struct cubin_expectation {
    int arch;           /* compute capability * 10 */
    const char *target; /* "sm_90a" */
    const char *entry;  /* symbol; NULL: not checked */
};

/* GDPA_OK, or GDPA_E_CACHE with what is wrong. Never reads outside [code, code + size). */
gdpa_status cubin_check(const void *code, size_t size, const struct cubin_expectation *expected, struct sbuf *why);

#endif
