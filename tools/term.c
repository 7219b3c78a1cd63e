/*
 * The terminal and the nearest name; see term.h.
 */
#include "tools/term.h"

#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum { WORD_LIMIT = 64 }; /* longer words are never near to a name */

bool term_is_terminal(FILE *stream)
{
    int descriptor = fileno(stream);
    return descriptor >= 0 && isatty(descriptor) == 1;
}

bool term_is_foreground(FILE *stream)
{
    return term_is_terminal(stream) && tcgetpgrp(fileno(stream)) == getpgrp();
}

int term_width(FILE *stream)
{
    struct winsize size;
    int descriptor = fileno(stream);
    if (descriptor >= 0 && ioctl(descriptor, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) {
        return size.ws_col;
    }
    const char *columns = getenv("COLUMNS");
    long width = columns == NULL ? 0 : strtol(columns, NULL, 10);
    return width >= 20 && width <= 10000 ? (int)width : 80;
}

bool term_color(const char *choice, FILE *stream)
{
    if (strcmp(choice, "always") == 0) {
        return true;
    }
    if (strcmp(choice, "never") == 0) {
        return false;
    }
    const char *off = getenv("NO_COLOR");
    const char *type = getenv("TERM");
    return (off == NULL || *off == 0) && type != NULL && strcmp(type, "dumb") != 0 && term_is_terminal(stream);
}

static char folded(char letter)
{
    if (letter >= 'A' && letter <= 'Z') {
        return (char)(letter - 'A' + 'a');
    }
    return letter == '-' ? '_' : letter;
}

static size_t smaller(size_t left, size_t right)
{
    return left < right ? left : right;
}

size_t word_distance(const char *left, const char *right)
{
    size_t rows = strlen(left);
    size_t columns = strlen(right);
    if (rows > WORD_LIMIT || columns > WORD_LIMIT) {
        return rows > columns ? rows : columns;
    }
    size_t cost[WORD_LIMIT + 1][WORD_LIMIT + 1];
    for (size_t i = 0; i <= rows; i++) {
        cost[i][0] = i;
    }
    for (size_t j = 0; j <= columns; j++) {
        cost[0][j] = j;
    }
    for (size_t i = 1; i <= rows; i++) {
        for (size_t j = 1; j <= columns; j++) {
            char a = folded(left[i - 1]);
            char b = folded(right[j - 1]);
            size_t best = smaller(cost[i - 1][j], cost[i][j - 1]) + 1;
            best = smaller(best, cost[i - 1][j - 1] + (a == b ? 0U : 1U));
            if (i > 1 && j > 1 && a == folded(right[j - 2]) && folded(left[i - 2]) == b) {
                best = smaller(best, cost[i - 2][j - 2] + 1);
            }
            cost[i][j] = best;
        }
    }
    return cost[rows][columns];
}

/* Whether one word begins with the other, at least three letters of it. */
static bool is_beginning(const char *word, const char *name)
{
    size_t length = 0;
    while (word[length] != 0 && folded(word[length]) == folded(name[length])) {
        length++;
    }
    return length >= 3 && word[length] == 0;
}

void nearest_offer(struct nearest *nearest, const char *name)
{
    size_t distance = word_distance(nearest->word, name);
    size_t allowed = 1 + strlen(name) / 4;
    if (is_beginning(nearest->word, name)) {
        distance = 1;
    }
    if (distance <= allowed && distance < strlen(name) && distance < nearest->distance) {
        nearest->best = name;
        nearest->distance = distance;
    }
}

const char *nearest_hint(const struct nearest *nearest, char *buffer, size_t size)
{
    buffer[0] = 0;
    if (nearest->best != NULL) {
        snprintf(buffer, size, " (did you mean %s?)", nearest->best);
    }
    return buffer;
}
