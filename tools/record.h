/*
 * Record files: JSON lines, one object a line, one line a case, the latest. A file is replaced whole (written beside it,
 * flushed, renamed) while its folder is locked, so that a reader never sees half a file and writers do not lose lines.
 */
#ifndef GDPA_TOOLS_RECORD_H
#define GDPA_TOOLS_RECORD_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

/*
 * Puts a record in place of the line whose `keys` (names of fields, NULL after the last) have equal values, or at the end.
 * Other lines keep their bytes. A file that does not exist is made. False, with the reason in why, and the file as it was,
 * when it holds a line that is no JSON object or cannot be written. Does not take the reference.
 */
bool record_replace(const char *path, const char *const *keys, json_t *record, char *why, size_t capacity);

/* Today as YYYY-MM-DD, UTC. */
void record_date(char date[11]);

#endif
