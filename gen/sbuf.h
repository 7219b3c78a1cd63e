/*
 * sbuf: a growing string with a hard limit, always ended by a 0.
 *
 * Appending never fails half-way: when memory or the limit runs out the buffer keeps what it had, `overflow` is set and
 * every later append is ignored, so that a writer checks once, at the end. What is appended must not lie inside the
 * buffer. Appending to or resetting NULL does nothing: a caller who does not want a text passes no buffer for it.
 */
#ifndef GDPA_GEN_SBUF_H
#define GDPA_GEN_SBUF_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>

struct sbuf {
    char *text;      /* never NULL after sbuf_init; "" when empty */
    size_t length;   /* without the final 0 */
    size_t capacity; /* allocated bytes */
    size_t limit;    /* largest length */
    bool overflow;
};

void sbuf_init(struct sbuf *buffer, size_t limit);
void sbuf_deinit(struct sbuf *buffer);
void sbuf_reset(struct sbuf *buffer);
void sbuf_add(struct sbuf *buffer, const char *bytes, size_t length);
void sbuf_addstr(struct sbuf *buffer, const char *text);
void sbuf_addf(struct sbuf *buffer, const char *format, ...) __attribute__((format(printf, 2, 3)));
void sbuf_vaddf(struct sbuf *buffer, const char *format, va_list arguments) __attribute__((format(printf, 2, 0)));

/* As one line, for "name: value": control characters as '?'. */
void sbuf_add_line(struct sbuf *buffer, const char *text);

/* Text that a user gave, for a message: in quotes, unprintable bytes as '?', shortened when it is long. */
void sbuf_add_quoted(struct sbuf *buffer, const char *bytes, size_t length);

#endif
