/*
 * Lists of packs; see packs.h.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* scandir */
#endif
#include "runtime/packs.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define SHA256_MARK "@sha256:"

struct opening_packs {
    struct packs *packs;
    void (*log)(int level, const char *line, void *user);
    void *log_user;
    struct sbuf *why;
};

bool pack_name_split(char *name, const char **sha256)
{
    char *mark = strstr(name, SHA256_MARK);
    *sha256 = NULL;
    if (mark == NULL) {
        return true;
    }
    *mark = '\0';
    *sha256 = mark + strlen(SHA256_MARK);
    return strlen(*sha256) == CACHE_SHA256_HEX - 1 && strspn(*sha256, "0123456789abcdefABCDEF") == CACHE_SHA256_HEX - 1;
}

static gdpa_status pack_add(const struct opening_packs *opening, const char *path, const char *sha256)
{
    struct packs *packs = opening->packs;
    const struct cache_pack_options options = {
        .path = path, .sha256 = sha256, .log = opening->log, .log_user = opening->log_user};
    struct cache **grown = realloc(packs->list, (size_t)(packs->count + 1) * sizeof *grown);
    if (grown == NULL) {
        return fail(opening->why, GDPA_E_MEMORY, "no memory for the list of packs");
    }
    packs->list = grown;
    grown[packs->count] = cache_pack_open(&options);
    if (grown[packs->count] == NULL) {
        return fail(opening->why, GDPA_E_MEMORY, "no memory for pack %s", path);
    }
    packs->count++;
    return GDPA_OK;
}

static int is_pack_name(const struct dirent *entry)
{
    const size_t length = strlen(entry->d_name);
    return length > 5 && strcmp(entry->d_name + length - 5, ".pack") == 0;
}

static gdpa_status folder_add(const struct opening_packs *opening, const char *folder)
{
    struct dirent **entries = NULL;
    const int count = scandir(folder, &entries, is_pack_name, alphasort);
    gdpa_status status = GDPA_OK;
    for (int i = 0; i < count; i++) {
        char path[4096];
        const int length = snprintf(path, sizeof path, "%s/%s", folder, entries[i]->d_name);
        if (status == GDPA_OK && length > 0 && (size_t)length < sizeof path) {
            status = pack_add(opening, path, NULL);
        }
        free(entries[i]);
    }
    free(entries);
    return status;
}

static gdpa_status name_add(const struct opening_packs *opening, char *name)
{
    const char *sha256 = NULL;
    struct stat status;
    if (name[0] == '\0') {
        return GDPA_OK;
    }
    if (!pack_name_split(name, &sha256)) {
        return fail(opening->why, GDPA_E_ARGUMENT, "the SHA-256 of pack %s is \"%s\"; it must be 64 hex digits", name,
                    sha256);
    }
    if (sha256 == NULL && stat(name, &status) == 0 && S_ISDIR(status.st_mode)) {
        return folder_add(opening, name);
    }
    return pack_add(opening, name, sha256);
}

/* The colon behind a name; that of "@sha256:" belongs to the name. */
static char *name_end(char *name)
{
    char *colon = strchr(name, ':');
    const size_t before = strlen(SHA256_MARK) - 1;
    while (colon != NULL && colon >= name + before && strncmp(colon - before, SHA256_MARK, before + 1) == 0) {
        colon = strchr(colon + 1, ':');
    }
    return colon;
}

static gdpa_status names_add(const struct opening_packs *opening, const char *names)
{
    char *copy = strdup(names);
    gdpa_status status = copy != NULL ? GDPA_OK : fail(opening->why, GDPA_E_MEMORY, "no memory for the list of packs");
    for (char *name = copy; status == GDPA_OK && name != NULL;) {
        char *end = name_end(name);
        if (end != NULL) {
            *end = '\0';
        }
        status = name_add(opening, name);
        name = end != NULL ? end + 1 : NULL;
    }
    free(copy);
    return status;
}

gdpa_status packs_open(const char *names, const char *folder, void (*log)(int level, const char *line, void *user),
                       void *log_user, struct packs *packs, struct sbuf *why)
{
    const struct opening_packs opening = {.packs = packs, .log = log, .log_user = log_user, .why = why};
    packs->list = NULL;
    packs->count = 0;
    const gdpa_status status = names != NULL ? names_add(&opening, names) : GDPA_OK;
    return status == GDPA_OK && folder != NULL ? folder_add(&opening, folder) : status;
}

void packs_close(struct packs *packs)
{
    for (int i = 0; i < packs->count; i++) {
        cache_close(packs->list[i]);
    }
    free(packs->list);
    packs->list = NULL;
    packs->count = 0;
}
