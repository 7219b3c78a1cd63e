/*
 * A file system of any type: the fstatfs() of libc is replaced in the test that includes this, so that a local folder
 * can pass for one on a network. Not in a library, where it would get into programs that did not ask for it.
 */
#ifndef GDPA_TESTS_SUPPORT_CACHE_FILE_SYSTEM_H
#define GDPA_TESTS_SUPPORT_CACHE_FILE_SYSTEM_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/vfs.h>
#include <unistd.h>

enum { LOCAL_FILE_SYSTEM = 0xef53, NETWORK_FILE_SYSTEM = 0x6969 };

static uint64_t file_system_type = LOCAL_FILE_SYSTEM;
static const char *file_system_below; /* where it is of that type; NULL: everywhere */

/* NOLINTNEXTLINE(readability-inconsistent-declaration-parameter-name): the names of libc are reserved ones */
int fstatfs(int fd, struct statfs *status)
{
    char link[64], path[4096];
    (void)snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, sizeof path - 1);
    path[length > 0 ? length : 0] = '\0';
    bool inside = !file_system_below || strncmp(path, file_system_below, strlen(file_system_below)) == 0;
    memset(status, 0, sizeof *status);
    status->f_type = (__typeof__(status->f_type))(inside ? file_system_type : LOCAL_FILE_SYSTEM);
    return 0;
}

#endif
