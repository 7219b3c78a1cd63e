/*
 * The place of the cache where nobody named one and the usual one is on a network file system.
 */
#ifndef GDPA_RUNTIME_CACHE_PLACE_H
#define GDPA_RUNTIME_CACHE_PLACE_H

#include "runtime/env.h"

/*
 * A folder of this user on this machine, to be made and checked by the cache: "/var/tmp/gdpajit-1000-node7". NULL: `dir`
 * itself is local, there is no better place, or no memory.
 */
char *cache_place_local(const char *dir, const struct env *env, const gdpa_allocator *allocator);

#endif
