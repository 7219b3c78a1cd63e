/*
 * XXH3-128 in its canonical (big-endian) form as text.
 */
#ifndef GDPA_GEN_HASH_H
#define GDPA_GEN_HASH_H

#include <stddef.h>

/* 32 hex digits and a final 0. */
void hash_hex(const void *bytes, size_t length, char hex[33]);

#endif
