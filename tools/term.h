/*
 * The terminal: width, colour, and the nearest name to a mistyped one.
 */
#ifndef GDPA_TOOLS_TERM_H
#define GDPA_TOOLS_TERM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

bool term_is_terminal(FILE *stream);
bool term_is_foreground(FILE *stream); /* a terminal, and this process may write on it undisturbed */
int term_width(FILE *stream);          /* 80 when unknown */

/* choice: auto, always or never. auto: a terminal, NO_COLOR unset or empty, TERM not dumb. */
bool term_color(const char *choice, FILE *stream);

#define TERM_BOLD "\033[1m"
#define TERM_RED "\033[31m"
#define TERM_GREEN "\033[32m"
#define TERM_YELLOW "\033[33m"
#define TERM_RESET "\033[0m"

/* Edits (insert, delete, replace, swap neighbours) that make one word of the other, ignoring case and - against _. */
size_t word_distance(const char *left, const char *right);

/*
 * Offers names one by one; best is the nearest so far, if near enough to be meant: start with NEAREST_INIT(word).
 */
struct nearest {
    const char *word;
    const char *best; /* NULL: nothing near */
    size_t distance;
};
#define NEAREST_INIT(text)                                                                                             \
    {                                                                                                                  \
        .word = (text), .best = NULL, .distance = (size_t)-1                                                           \
    }
void nearest_offer(struct nearest *nearest, const char *name);

/* " (did you mean NAME?)" or "". */
const char *nearest_hint(const struct nearest *nearest, char *buffer, size_t size);

#endif
