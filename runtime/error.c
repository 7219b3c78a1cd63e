/*
 * Status names and sentences, and the last error of each thread.
 *
 * A text up to 1 KiB lives in the thread's own storage, so that reporting an error needs no memory; longer ones (with a
 * compiler log) use a block that is kept until the thread ends.
 */
#include "runtime/error.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SMALL_TEXT 1024

struct error_state {
    char small[SMALL_TEXT];
    char *large;
    size_t large_size;
    const char *text; /* NULL: nothing failed yet */
};

static _Thread_local struct error_state state;
static pthread_key_t cleanup_key;
static bool cleanup_usable;
static pthread_once_t cleanup_once = PTHREAD_ONCE_INIT;

static void cleanup_make(void)
{
    cleanup_usable = pthread_key_create(&cleanup_key, free) == 0;
}

/* Room for `size` bytes: the block of this thread, grown. NULL when there is no memory, or no way to free it later. */
static char *large_reserve(size_t size)
{
    if (size <= state.large_size) {
        return state.large;
    }
    pthread_once(&cleanup_once, cleanup_make);
    if (!cleanup_usable) {
        return NULL;
    }
    char *grown = malloc(size);
    if (grown == NULL || pthread_setspecific(cleanup_key, grown) != 0) {
        free(grown);
        return NULL;
    }
    if (state.text == state.large) {
        state.text = NULL;
    }
    free(state.large);
    state.large = grown;
    state.large_size = size;
    return grown;
}

static void text_store(const char *text, size_t length)
{
    if (length > ERROR_TEXT_LIMIT) {
        length = ERROR_TEXT_LIMIT;
    }
    char *room = length < SMALL_TEXT ? state.small : large_reserve(length + 1);
    if (room == NULL) {
        room = state.small;
        length = SMALL_TEXT - 1;
    }
    memmove(room, text, length);
    room[length] = '\0';
    state.text = room;
}

static void __attribute__((format(printf, 1, 0))) text_format(const char *format, va_list arguments)
{
    char line[SMALL_TEXT];
    va_list again;
    va_copy(again, arguments);
    const int length = vsnprintf(line, sizeof line, format, arguments);
    if (length >= 0 && (size_t)length >= sizeof line) {
        char *whole = malloc((size_t)length + 1);
        if (whole != NULL) {
            vsnprintf(whole, (size_t)length + 1, format, again);
            text_store(whole, (size_t)length);
            free(whole);
            va_end(again);
            return;
        }
    }
    va_end(again);
    text_store(line, strlen(line));
}

gdpa_status error_set(gdpa_status status, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    text_format(format, arguments);
    va_end(arguments);
    return status;
}

gdpa_status error_set_why(gdpa_status status, const struct sbuf *why)
{
    if (why->length > 0) {
        text_store(why->text, why->length);
        return status;
    }
    return error_set(status, "%s%s", gdpa_status_str(status), why->overflow ? " (no memory for the details)" : "");
}

void error_prefix(const char *format, ...)
{
    char *before = state.text == NULL ? NULL : malloc(strlen(state.text) + 1);
    if (before == NULL) {
        return;
    }
    memcpy(before, state.text, strlen(state.text) + 1);
    va_list arguments;
    va_start(arguments, format);
    char prefix[SMALL_TEXT];
    vsnprintf(prefix, sizeof prefix, format, arguments);
    va_end(arguments);
    error_set(GDPA_OK, "%s: %s", prefix, before);
    free(before);
}

const char *gdpa_last_error(void)
{
    return state.text == NULL ? "" : state.text;
}

const char *gdpa_status_name(gdpa_status status)
{
    switch (status) {
#define STATUS_NAME(name, value, sentence)                                                                             \
    case name:                                                                                                         \
        return #name;
        GDPA_STATUS_TABLE(STATUS_NAME)
#undef STATUS_NAME
    case GDPA_STATUS_FORCE_INT:
        break;
    }
    return "GDPA_E_?";
}

const char *gdpa_status_str(gdpa_status status)
{
    switch (status) {
#define STATUS_SENTENCE(name, value, sentence)                                                                         \
    case name:                                                                                                         \
        return sentence;
        GDPA_STATUS_TABLE(STATUS_SENTENCE)
#undef STATUS_SENTENCE
    case GDPA_STATUS_FORCE_INT:
        break;
    }
    return "not a status of this library";
}
