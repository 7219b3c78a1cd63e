/*
 * Log lines: a level for each part of the library, one sink. Never on the way of a launch.
 */
#ifndef GDPA_RUNTIME_LOG_H
#define GDPA_RUNTIME_LOG_H

#include "runtime/error.h"

/* X(SUFFIX, name) */
#define LOG_PARTS(X)                                                                                                   \
    X(CONTEXT, "context")                                                                                              \
    X(CACHE, "cache")                                                                                                  \
    X(COMPILE, "compile")                                                                                              \
    X(DRIVER, "driver")

enum log_part {
#define LOG_PART_ENUM(suffix, name) LOG_##suffix,
    LOG_PARTS(LOG_PART_ENUM)
#undef LOG_PART_ENUM
        LOG_PART_COUNT
};

struct log {
    gdpa_log_fn function; /* NULL: lines to the file descriptor */
    void *user;
    int file;                   /* descriptor */
    int levels[LOG_PART_COUNT]; /* gdpa_log_level */
};

/* Warnings and errors to stderr. */
void log_init(struct log *log);
void log_deinit(struct log *log);

/* "warn,cache=debug" -> levels; unchanged on failure (GDPA_E_ARGUMENT). */
gdpa_status log_parse(struct log *log, const char *text, struct sbuf *why);
void log_level_all(struct log *log, int level);

/* Appends to `path`, in which %p is the process id. False: it cannot be opened, errno says why. */
bool log_open_file(struct log *log, const char *path);

bool log_wants(const struct log *log, gdpa_log_level level, enum log_part part);
void log_write(const struct log *log, gdpa_log_level level, enum log_part part, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

#endif
