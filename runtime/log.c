/*
 * Log lines; see log.h. A line goes out in one write, so that lines of several threads and processes do not mix.
 */
#include "runtime/log.h"
#include "gen/suggest.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LINE_MAX_BYTES 4096

static const char *const part_names[LOG_PART_COUNT] = {
#define LOG_PART_NAME(suffix, name) name,
    LOG_PARTS(LOG_PART_NAME)
#undef LOG_PART_NAME
};

static const char *const level_names[] = {"default", "none", "error", "warn", "info", "debug"};

void log_init(struct log *log)
{
    memset(log, 0, sizeof *log);
    log->file = STDERR_FILENO;
    log_level_all(log, GDPA_LOG_WARN);
}

void log_deinit(struct log *log)
{
    if (log->file != STDERR_FILENO) {
        close(log->file);
        log->file = STDERR_FILENO;
    }
}

void log_level_all(struct log *log, int level)
{
    for (int i = 0; i < LOG_PART_COUNT; i++) {
        log->levels[i] = level;
    }
}

/* The index of a word in a list from `first` on, or -1. */
static int word_index(const char *const *names, int first, int count, const char *word, size_t length)
{
    for (int i = first; i < count; i++) {
        if (strlen(names[i]) == length && strncmp(names[i], word, length) == 0) {
            return i;
        }
    }
    return -1;
}

static gdpa_status word_unknown(struct sbuf *why, const char *what, const char *const *names, int first, int count,
                                const char *word, size_t length)
{
    struct suggestion suggestion;
    suggest_start(&suggestion, word, length);
    fail(why, GDPA_E_ARGUMENT, "%s \"%.*s\" is not one of", what, (int)length, word);
    for (int i = first; i < count; i++) {
        sbuf_addf(why, "%s %s", i == first ? "" : ",", names[i]);
        suggest_offer(&suggestion, names[i]);
    }
    if (suggestion.nearest != NULL) {
        sbuf_addf(why, "; did you mean %s?", suggestion.nearest);
    }
    return GDPA_E_ARGUMENT;
}

/* One word of the list: "warn", or "cache=debug". */
static gdpa_status item_parse(int levels[LOG_PART_COUNT], const char *item, size_t length, struct sbuf *why)
{
    const char *equals = memchr(item, '=', length);
    const char *level = equals == NULL ? item : equals + 1;
    const size_t level_length = length - (size_t)(level - item);
    const int level_index = word_index(level_names, GDPA_LOG_NONE, GDPA_LOG_DEBUG + 1, level, level_length);
    if (level_index < 0) {
        return word_unknown(why, "log level", level_names, GDPA_LOG_NONE, GDPA_LOG_DEBUG + 1, level, level_length);
    }
    if (equals == NULL) {
        for (int i = 0; i < LOG_PART_COUNT; i++) {
            levels[i] = level_index;
        }
        return GDPA_OK;
    }
    const size_t part_length = (size_t)(equals - item);
    const int part = word_index(part_names, 0, LOG_PART_COUNT, item, part_length);
    if (part < 0) {
        return word_unknown(why, "part of the log", part_names, 0, LOG_PART_COUNT, item, part_length);
    }
    levels[part] = level_index;
    return GDPA_OK;
}

gdpa_status log_parse(struct log *log, const char *text, struct sbuf *why)
{
    int levels[LOG_PART_COUNT];
    memcpy(levels, log->levels, sizeof levels);
    for (const char *item = text; *item != '\0';) {
        const size_t length = strcspn(item, ",");
        if (length > 0) {
            TRY(item_parse(levels, item, length, why));
        }
        item += length + (item[length] == ',');
    }
    memcpy(log->levels, levels, sizeof levels);
    return GDPA_OK;
}

bool log_open_file(struct log *log, const char *path)
{
    char name[4096];
    size_t length = 0;
    for (const char *from = path; *from != '\0' && length + 16 < sizeof name; from++) {
        if (from[0] == '%' && from[1] == 'p') {
            length += (size_t)snprintf(name + length, sizeof name - length, "%ld", (long)getpid());
            from++;
        } else {
            name[length++] = *from;
        }
    }
    name[length] = '\0';
    const int file = open(name, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (file < 0) {
        return false;
    }
    log->file = file;
    return true;
}

bool log_wants(const struct log *log, gdpa_log_level level, enum log_part part)
{
    return (int)level <= log->levels[part];
}

void log_write(const struct log *log, gdpa_log_level level, enum log_part part, const char *format, ...)
{
    if (!log_wants(log, level, part)) {
        return;
    }
    char line[LINE_MAX_BYTES];
    int start = 0;
    if (log->function == NULL) {
        start = snprintf(line, sizeof line, "gdpajit: %s: %s: ", level_names[level], part_names[part]);
    }
    va_list arguments;
    va_start(arguments, format);
    const int written = vsnprintf(line + start, sizeof line - (size_t)start - 1, format, arguments);
    va_end(arguments);
    if (written < 0) {
        return;
    }
    if (log->function != NULL) {
        log->function(level, part_names[part], line, log->user);
        return;
    }
    size_t length = strlen(line);
    line[length++] = '\n';
    for (size_t done = 0; done < length;) {
        const ssize_t count = write(log->file, line + done, length - done);
        if (count <= 0) {
            return; /* nobody to tell */
        }
        done += (size_t)count;
    }
}
