/*
 * Record files; see record.h.
 */
#include "tools/record.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

void record_date(char date[11])
{
    time_t now = time(NULL);
    struct tm parts;
    memset(date, 0, 11);
    if (gmtime_r(&now, &parts) != NULL) {
        strftime(date, 11, "%Y-%m-%d", &parts);
    }
}

/* The folder of a path, malloced. */
static char *folder_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    size_t length = slash == NULL ? 1 : slash == path ? 1 : (size_t)(slash - path);
    char *folder = malloc(length + 1);
    if (folder != NULL) {
        memcpy(folder, slash == NULL ? "." : path, length);
        folder[length] = 0;
    }
    return folder;
}

/* Opens and locks the folder of a path; the lock goes with the descriptor. -1 after a failure. */
static int folder_lock(const char *path, char *why, size_t capacity)
{
    char *folder = folder_of(path);
    int descriptor = folder != NULL ? open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    if (descriptor < 0 || flock(descriptor, LOCK_EX) != 0) {
        snprintf(why, capacity, "cannot use the folder of %s: %s", path, strerror(errno));
        if (descriptor >= 0) {
            close(descriptor);
        }
        descriptor = -1;
    }
    free(folder);
    return descriptor;
}

/* The whole file, malloced, with a final 0; "" for one that does not exist; NULL after a failure. */
static char *file_read(const char *path, char *why, size_t capacity)
{
    FILE *file = fopen(path, "re");
    if (file == NULL && errno == ENOENT) {
        return calloc(1, 1);
    }
    char *text = NULL;
    size_t length = 0;
    bool good = file != NULL;
    for (size_t room = 0; good;) {
        if (length + 1 >= room) {
            room = room > 0 ? 2 * room : 1 << 16;
            char *larger = realloc(text, room);
            good = larger != NULL;
            text = larger != NULL ? larger : text;
            continue;
        }
        size_t got = fread(text + length, 1, room - length - 1, file);
        length += got;
        if (got == 0) {
            good = !ferror(file);
            break;
        }
    }
    if (!good) {
        snprintf(why, capacity, "cannot read %s: %s", path, strerror(errno));
        free(text);
        text = NULL;
    } else {
        text[length] = 0;
    }
    if (file != NULL) {
        fclose(file);
    }
    return text;
}

static bool same_case(json_t *left, json_t *right, const char *const *keys)
{
    for (; *keys != NULL; keys++) {
        json_t *value = json_object_get(left, *keys);
        if (value == NULL || !json_equal(value, json_object_get(right, *keys))) {
            return false;
        }
    }
    return true;
}

/* Copies the lines, with the record in place of its own. */
static bool lines_write(FILE *out, const char *path, char *lines, const char *const *keys, json_t *record,
                        const char *text, char *why, size_t capacity)
{
    bool placed = false;
    int number = 0;
    for (char *line = lines; *line != 0;) {
        size_t length = strcspn(line, "\n");
        char *next = line + length + (line[length] == '\n' ? 1 : 0);
        line[length] = 0;
        number++;
        json_error_t error;
        json_t *old = json_loads(line, JSON_REJECT_DUPLICATES, &error);
        if (!json_is_object(old)) {
            snprintf(why, capacity, "%s, line %d, is no JSON object: it was not changed", path, number);
            json_decref(old);
            return false;
        }
        bool own = same_case(old, record, keys);
        json_decref(old);
        if (!own) {
            fprintf(out, "%s\n", line);
        } else if (!placed) {
            fprintf(out, "%s\n", text);
            placed = true;
        }
        line = next;
    }
    if (!placed) {
        fprintf(out, "%s\n", text);
    }
    return true;
}

/* Writes the new file under another name and moves it into place. */
static bool file_replace(const char *path, char *lines, const char *const *keys, json_t *record, char *why,
                         size_t capacity)
{
    char *text = json_dumps(record, JSON_COMPACT | JSON_PRESERVE_ORDER | JSON_REAL_PRECISION(6));
    size_t room = strlen(path) + 32;
    char *beside = malloc(room);
    FILE *out = NULL;
    bool good = text != NULL && beside != NULL;
    if (good) {
        snprintf(beside, room, "%s.new.%ld", path, (long)getpid());
        out = fopen(beside, "we");
        good = out != NULL && lines_write(out, path, lines, keys, record, text, why, capacity);
    }
    if (good && (fflush(out) != 0 || fsync(fileno(out)) != 0 || ferror(out))) {
        good = false;
    }
    if (out != NULL && fclose(out) != 0) {
        good = false;
    }
    if (good && rename(beside, path) != 0) {
        good = false;
    }
    if (!good) {
        if (why[0] == 0) {
            snprintf(why, capacity, "cannot write %s: %s", path, strerror(errno));
        }
        if (out != NULL) {
            unlink(beside);
        }
    }
    free(beside);
    free(text);
    return good;
}

bool record_replace(const char *path, const char *const *keys, json_t *record, char *why, size_t capacity)
{
    why[0] = 0;
    int folder = folder_lock(path, why, capacity);
    if (folder < 0) {
        return false;
    }
    char *lines = file_read(path, why, capacity);
    bool good = lines != NULL && file_replace(path, lines, keys, record, why, capacity);
    free(lines);
    close(folder);
    return good;
}
