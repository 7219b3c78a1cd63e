/*
 * "Did you mean": the candidate nearest to a word by edit distance (insert, delete, replace, swap two neighbours).
 *
 *     struct suggestion s;
 *     suggest_start(&s, word, length);
 *     for (each legal name) suggest_offer(&s, name);
 *     if (s.nearest != NULL) ...
 */
#ifndef GDPA_GEN_SUGGEST_H
#define GDPA_GEN_SUGGEST_H

#include <stddef.h>

struct suggestion {
    const char *word;
    size_t length;
    size_t distance;     /* of nearest; while there is none, one more than the largest that counts as near */
    const char *nearest; /* NULL: nothing is near. Borrowed from the caller; the first of equally near ones */
};

void suggest_start(struct suggestion *suggestion, const char *word, size_t length);
void suggest_offer(struct suggestion *suggestion, const char *candidate);

/* The distance of two words; words longer than 64 bytes are as far apart as possible (SIZE_MAX). */
size_t edit_distance(const char *a, size_t a_length, const char *b, size_t b_length);

#endif
