/*
 * See suggest.h. The distance is the optimal string alignment distance; three rows of its table are enough.
 */
#include "gen/suggest.h"

#include <stdint.h>
#include <string.h>

enum { LONGEST_WORD = 64 };

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

size_t edit_distance(const char *a, size_t a_length, const char *b, size_t b_length)
{
    size_t rows[3][LONGEST_WORD + 1];
    if (a_length > LONGEST_WORD || b_length > LONGEST_WORD) {
        return SIZE_MAX;
    }
    size_t *before = rows[0], *above = rows[1], *row = rows[2];
    for (size_t j = 0; j <= b_length; ++j) {
        above[j] = j;
        before[j] = j;
    }
    for (size_t i = 1; i <= a_length; ++i) {
        row[0] = i;
        for (size_t j = 1; j <= b_length; ++j) {
            size_t replaced = above[j - 1] + (a[i - 1] != b[j - 1]);
            row[j] = smaller(replaced, smaller(above[j], row[j - 1]) + 1);
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
                row[j] = smaller(row[j], before[j - 2] + 1);
            }
        }
        size_t *spare = before;
        before = above;
        above = row;
        row = spare;
    }
    return above[b_length];
}

void suggest_start(struct suggestion *suggestion, const char *word, size_t length)
{
    /* A third of the letters may be wrong, and one in the shortest words. */
    size_t near = length < 6 ? 1 : length / 3;
    *suggestion = (struct suggestion){.word = word, .length = length, .distance = near + 1};
}

void suggest_offer(struct suggestion *suggestion, const char *candidate)
{
    size_t distance = edit_distance(suggestion->word, suggestion->length, candidate, strlen(candidate));
    if (distance < suggestion->distance) {
        suggestion->distance = distance;
        suggestion->nearest = candidate;
    }
}
