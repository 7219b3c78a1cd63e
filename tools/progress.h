/*
 * Progress of long work, on stderr. A bar on a terminal, shown after one second; otherwise one line every ten seconds. The
 * caller's lock (tool->stderr_lock) guards it; no signals, no threads of its own.
 */
#ifndef GDPA_TOOLS_PROGRESS_H
#define GDPA_TOOLS_PROGRESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

enum progress_mode {
    PROGRESS_AUTO,   /* bar on a terminal, lines elsewhere */
    PROGRESS_ALWAYS, /* bar, from the start */
    PROGRESS_NEVER
};

struct progress {
    FILE *out;
    enum progress_mode mode;
    bool bar;  /* out is a terminal, or mode is PROGRESS_ALWAYS */
    int width; /* columns */
    size_t total;
    double start; /* seconds of a monotonic clock */
    double drawn; /* when it was drawn last; start: never */
    bool on_screen;
};

/* For OPTION_CHOICE "auto|always|never". */
enum progress_mode progress_mode_from(const char *word);

void progress_init(struct progress *progress, FILE *out, enum progress_mode mode, size_t total, double now);
/* Draws when it is time to. label: what is in work, may be NULL. */
void progress_update(struct progress *progress, size_t done, size_t failed, const char *label, double now);
/* Takes the bar off the screen; the next update draws it again. */
void progress_hide(struct progress *progress);

/* Seconds of the monotonic clock. */
double clock_seconds(void);

#endif
