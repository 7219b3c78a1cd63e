/*
 * A file system of any type: the fstatfs() of libc is replaced in the test that includes this, so that a local folder
 * can pass for one on a network. Not in a library, where it would get into programs that did not ask for it.
 */
#ifndef GDPA_TESTS_SUPPORT_CACHE_FILE_SYSTEM_H
#define GDPA_TESTS_SUPPORT_CACHE_FILE_SYSTEM_H

#include <stdint.h>
#include <string.h>
#include <sys/vfs.h>

enum { LOCAL_FILE_SYSTEM = 0xef53, NETWORK_FILE_SYSTEM = 0x6969 };

static uint64_t file_system_type = LOCAL_FILE_SYSTEM;

/* NOLINTNEXTLINE(readability-inconsistent-declaration-parameter-name): the names of libc are reserved ones */
int fstatfs(int fd, struct statfs *status)
{
    (void)fd;
    memset(status, 0, sizeof *status);
    status->f_type = (__typeof__(status->f_type))file_system_type;
    return 0;
}

#endif
