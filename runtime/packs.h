/*
 * The packs of a context: files of compiled kernels that are searched before the cache and never written.
 */
#ifndef GDPA_RUNTIME_PACKS_H
#define GDPA_RUNTIME_PACKS_H

#include "cache/cache.h"
#include "runtime/error.h"

struct packs {
    struct cache **list;
    int count;
};

/*
 * Opens what a list names: files, "FILE@sha256:HEX", and folders, whose *.pack files are taken in the order of their
 * names, separated by colons; and behind them the *.pack files of `folder`, which need not exist. Both may be NULL. What
 * cannot be used is said in the log and stays in the list, where it finds nothing. GDPA_E_MEMORY; GDPA_E_ARGUMENT for a
 * SHA-256 that is none.
 */
gdpa_status packs_open(const char *names, const char *folder, void (*log)(int level, const char *line, void *user),
                       void *log_user, struct packs *packs, struct sbuf *why);
void packs_close(struct packs *packs);

/* Splits "FILE@sha256:HEX" in two; *sha256 becomes NULL without it. False: there is one, and it is not 64 hex digits. */
bool pack_name_split(char *name, const char **sha256);

#endif
