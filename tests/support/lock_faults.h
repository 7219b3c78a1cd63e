/*
 * Locks of open files that fail on demand: a test program that includes this (once) decides with `lock_error` what every
 * F_OFD_SETLK answers. Everything else goes to the kernel.
 */
#ifndef GDPA_TESTS_SUPPORT_LOCK_FAULTS_H
#define GDPA_TESTS_SUPPORT_LOCK_FAULTS_H

#ifndef _GNU_SOURCE
#error "define _GNU_SOURCE before the first header of libc: F_OFD_SETLK, syscall"
#endif

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <unistd.h>

static atomic_int lock_error; /* an errno; 0: locks work */

/* NOLINTNEXTLINE(readability-inconsistent-declaration-parameter-name): the names of libc are reserved ones */
int fcntl(int fd, int command, ...)
{
    va_list arguments;
    va_start(arguments, command);
    void *argument = va_arg(arguments, void *); /* an int comes in the same register */
    va_end(arguments);
    int error = atomic_load(&lock_error);
    if (command == F_OFD_SETLK && error != 0) {
        errno = error;
        return -1;
    }
    return (int)syscall(SYS_fcntl, fd, command, argument);
}

#endif
