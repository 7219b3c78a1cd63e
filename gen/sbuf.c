/*
 * sbuf: see sbuf.h. The capacity doubles up to limit + 1, so that n appended bytes cost O(n) copies.
 */
#include "gen/sbuf.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What every empty buffer shows. Never written: its capacity is 0. */
static char empty_text[1];

void sbuf_init(struct sbuf *buffer, size_t limit)
{
    /* One byte more than the limit has to be countable. */
    *buffer = (struct sbuf){.text = empty_text, .limit = limit < SIZE_MAX ? limit : SIZE_MAX - 1};
}

void sbuf_deinit(struct sbuf *buffer)
{
    if (buffer->capacity > 0) {
        free(buffer->text);
    }
    sbuf_init(buffer, buffer->limit);
}

void sbuf_reset(struct sbuf *buffer)
{
    if (buffer == NULL) {
        return;
    }
    buffer->length = 0;
    buffer->overflow = false;
    if (buffer->capacity > 0) {
        buffer->text[0] = '\0';
    }
}

/* Room for `extra` more bytes and the final 0; sets overflow where there is none. */
static bool reserve(struct sbuf *buffer, size_t extra)
{
    if (buffer->overflow || extra > buffer->limit - buffer->length) {
        buffer->overflow = true;
        return false;
    }
    size_t needed = buffer->length + extra + 1;
    if (needed <= buffer->capacity) {
        return true;
    }
    size_t largest = buffer->limit + 1;
    size_t capacity = buffer->capacity > largest / 2 ? largest : buffer->capacity * 2;
    if (capacity < needed) {
        capacity = needed < 64 && largest >= 64 ? 64 : needed;
    }
    char *text = realloc(buffer->capacity > 0 ? buffer->text : NULL, capacity);
    if (text == NULL) {
        buffer->overflow = true;
        return false;
    }
    buffer->text = text;
    buffer->capacity = capacity;
    return true;
}

void sbuf_add(struct sbuf *buffer, const char *bytes, size_t length)
{
    if (buffer == NULL || length == 0 || !reserve(buffer, length)) {
        return;
    }
    memcpy(buffer->text + buffer->length, bytes, length);
    buffer->length += length;
    buffer->text[buffer->length] = '\0';
}

void sbuf_addstr(struct sbuf *buffer, const char *text)
{
    sbuf_add(buffer, text, strlen(text));
}

void sbuf_addf(struct sbuf *buffer, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    sbuf_vaddf(buffer, format, arguments);
    va_end(arguments);
}

void sbuf_vaddf(struct sbuf *buffer, const char *format, va_list arguments)
{
    if (buffer == NULL) {
        return;
    }
    va_list again;
    va_copy(again, arguments);
    int length = vsnprintf(NULL, 0, format, again); // NOLINT(clang-analyzer-valist.Uninitialized): it was copied above
    va_end(again);
    if (length < 0) {
        buffer->overflow = true;
        return;
    }
    if (length == 0 || !reserve(buffer, (size_t)length)) {
        return;
    }
    vsnprintf(buffer->text + buffer->length, (size_t)length + 1, format, arguments);
    buffer->length += (size_t)length;
}

void sbuf_add_quoted(struct sbuf *buffer, const char *bytes, size_t length)
{
    const size_t longest = 60;
    sbuf_addstr(buffer, "'");
    for (size_t i = 0; i < length && i < longest; ++i) {
        char printable = bytes[i] >= ' ' && bytes[i] <= '~' ? bytes[i] : '?';
        sbuf_add(buffer, &printable, 1);
    }
    sbuf_addstr(buffer, length > longest ? "...'" : "'");
}

void sbuf_add_line(struct sbuf *buffer, const char *text)
{
    while (*text != '\0') {
        size_t plain = 0;
        while ((unsigned char)text[plain] >= 0x20 && text[plain] != 0x7f) {
            plain++;
        }
        sbuf_add(buffer, text, plain);
        text += plain;
        if (*text != '\0') {
            sbuf_addstr(buffer, "?");
            text++;
        }
    }
}
