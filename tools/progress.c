/*
 * Progress of long work; see progress.h.
 */
#include "tools/progress.h"

#include "tools/term.h"

#include <string.h>
#include <time.h>

static const double kBarDelay = 1.0;      /* seconds before the first bar */
static const double kBarInterval = 0.1;   /* between two bars */
static const double kLineInterval = 10.0; /* between two lines */

double clock_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

enum progress_mode progress_mode_from(const char *word)
{
    if (strcmp(word, "always") == 0) {
        return PROGRESS_ALWAYS;
    }
    return strcmp(word, "never") == 0 ? PROGRESS_NEVER : PROGRESS_AUTO;
}

void progress_init(struct progress *progress, FILE *out, enum progress_mode mode, size_t total, double now)
{
    progress->out = out;
    progress->mode = mode;
    progress->bar = mode == PROGRESS_ALWAYS || (mode == PROGRESS_AUTO && term_is_foreground(out));
    progress->width = term_width(out);
    progress->total = total;
    progress->start = now;
    progress->drawn = now;
    progress->on_screen = false;
}

/* "3:07" or "1:02:33". */
static void format_duration(char *text, size_t size, double seconds)
{
    long whole = (long)(seconds + 0.5);
    if (whole >= 3600) {
        snprintf(text, size, "%ld:%02ld:%02ld", whole / 3600, whole / 60 % 60, whole % 60);
    } else {
        snprintf(text, size, "%ld:%02ld", whole / 60, whole % 60);
    }
}

/* "12/40  1 failed  3.2/s  0:09 left". */
static void format_counts(const struct progress *progress, size_t done, size_t failed, double now, char *text,
                          size_t size)
{
    double elapsed = now - progress->start;
    double rate = elapsed > 0 ? (double)done / elapsed : 0;
    char trouble[48] = "";
    char left[64] = "";
    if (failed > 0) {
        snprintf(trouble, sizeof trouble, "  %zu failed", failed);
    }
    if (rate > 0 && done < progress->total) {
        char duration[32];
        format_duration(duration, sizeof duration, (double)(progress->total - done) / rate);
        snprintf(left, sizeof left, "  %.1f/s  %s left", rate, duration);
    }
    snprintf(text, size, "%zu/%zu%s%s", done, progress->total, trouble, left);
}

static void draw_bar(struct progress *progress, size_t done, const char *counts, const char *label)
{
    enum { CELLS = 24 };
    char cells[CELLS + 1];
    size_t filled = progress->total == 0 ? CELLS : done * CELLS / progress->total;
    for (size_t i = 0; i < CELLS; i++) {
        cells[i] = i < filled ? '#' : '.';
    }
    cells[CELLS] = 0;
    char line[512];
    snprintf(line, sizeof line, "[%s] %s%s%s", cells, counts, label != NULL ? "  " : "", label != NULL ? label : "");
    int room = progress->width > 1 ? progress->width - 1 : 1;
    fprintf(progress->out, "\r%.*s\033[K", room, line);
    fflush(progress->out);
    progress->on_screen = true;
}

void progress_update(struct progress *progress, size_t done, size_t failed, const char *label, double now)
{
    if (progress->mode == PROGRESS_NEVER) {
        return;
    }
    bool first = progress->drawn <= progress->start;
    double since = now - progress->drawn;
    char counts[192];
    if (progress->bar) {
        double wait = first ? (progress->mode == PROGRESS_ALWAYS ? 0 : kBarDelay) : kBarInterval;
        if (since < wait && done < progress->total) {
            return;
        }
        if (first && done >= progress->total && progress->mode != PROGRESS_ALWAYS) {
            return; /* over before a bar was due */
        }
        format_counts(progress, done, failed, now, counts, sizeof counts);
        draw_bar(progress, done, counts, label);
    } else {
        if (since < kLineInterval) {
            return;
        }
        format_counts(progress, done, failed, now, counts, sizeof counts);
        fprintf(progress->out, "%s%s%s\n", counts, label != NULL ? "  " : "", label != NULL ? label : "");
        fflush(progress->out);
    }
    progress->drawn = now;
}

void progress_hide(struct progress *progress)
{
    if (progress->on_screen) {
        fputs("\r\033[K", progress->out);
        fflush(progress->out);
        progress->on_screen = false;
    }
}
