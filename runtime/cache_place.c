/*
 * See cache_place.h. Homes on NFS or Lustre are common where many processes start at once, and those file systems neither
 * keep a log in shared memory nor locks that one can rely on. A disk of the machine is right and faster.
 */
#include "runtime/cache_place.h"
#include "cache/cache.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

/* The name of the machine: a temporary folder may be shared by several. */
static void host_print(char *text, size_t size)
{
    struct utsname names;
    snprintf(text, size, "%s", uname(&names) == 0 ? names.nodename : "host");
    for (char *byte = text; *byte != '\0'; byte++) {
        if (strchr("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789.-", *byte) == NULL) {
            *byte = '_';
        }
    }
}

static bool is_local_folder(const char *path)
{
    struct stat status;
    return path != NULL && path[0] == '/' && stat(path, &status) == 0 && S_ISDIR(status.st_mode) &&
           access(path, W_OK | X_OK) == 0 && !cache_dir_is_network(path);
}

char *cache_place_local(const char *dir, const struct env *env, const gdpa_allocator *allocator)
{
    const char *const bases[] = {env->values[ENV_TMPDIR], "/var/tmp", "/tmp"};
    if (!cache_dir_is_network(dir)) {
        return NULL;
    }
    for (size_t i = 0; i < sizeof bases / sizeof bases[0]; i++) {
        if (is_local_folder(bases[i])) {
            char host[80], path[4096];
            host_print(host, sizeof host);
            const int length =
                snprintf(path, sizeof path, "%s/gdpajit-%lu-%s", bases[i], (unsigned long)geteuid(), host);
            return length > 0 && (size_t)length < sizeof path ? memory_text(allocator, path) : NULL;
        }
    }
    return NULL;
}
