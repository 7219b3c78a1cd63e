/*
 * How tests steer the fake driver and ask it: the functions of the object `fake_driver`. Of fake_driver.c alone.
 */
#ifndef GDPA_TESTS_SUPPORT_FAKE_DRIVER_CONTROL_H
#define GDPA_TESTS_SUPPORT_FAKE_DRIVER_CONTROL_H

#include "tests/support/fake_driver_state.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int function_find(const char *name)
{
    for (int i = 0; i < FUNCTION_COUNT; i++) {
        if (strcmp(function_names[i], name) == 0) {
            return i;
        }
    }
    fprintf(stderr, "fake_driver: there is no function %s\n", name);
    abort();
}

static void devices_from_text(const char *text)
{
    state.device_count = 0;
    while (*text != '\0' && state.device_count < DEVICES_MAX) {
        char *end = NULL;
        state.capabilities[state.device_count++] = (int)strtol(text, &end, 10);
        text = *end == ',' ? end + 1 : end + strlen(end);
    }
}

static void in_child(void)
{
    pthread_mutex_init(&lock, NULL);
    state.of_parent = state.initialised;
}

static void reset_unlocked(void)
{
    const long loaded = state.loaded;
    memset(&state, 0, sizeof state);
    state.loaded = loaded;
    state.version = 13000;
    const char *devices = getenv("FAKE_DRIVER_DEVICES");
    devices_from_text(devices != NULL ? devices : "90");
    for (int i = 0; i < DEVICES_MAX; i++) {
        contexts[i].device = i;
        streams[i].device = i;
    }
    const char *fault = getenv("FAKE_DRIVER_FAIL");
    if (fault != NULL && strchr(fault, ':') != NULL) {
        char name[64];
        snprintf(name, sizeof name, "%.*s", (int)(strchr(fault, ':') - fault), fault);
        state.result[function_find(name)] = atoi(strchr(fault, ':') + 1);
    }
}

static void __attribute__((constructor)) begin(void)
{
    reset_unlocked();
    pthread_atfork(NULL, NULL, in_child);
}

static void control_reset(void)
{
    pthread_mutex_lock(&lock);
    reset_unlocked();
    pthread_mutex_unlock(&lock);
    current_depth = 0;
    current_stack[0] = CURRENT_NONE;
    thread_mode = 0;
}

static void control_devices(int count, const int *capabilities)
{
    pthread_mutex_lock(&lock);
    state.device_count = count;
    state.starts_without_devices = count == 0;
    for (int i = 0; i < count; i++) {
        state.capabilities[i] = capabilities[i];
    }
    pthread_mutex_unlock(&lock);
}

static void control_fail(const char *name, int result, long skip)
{
    const int function = function_find(name);
    pthread_mutex_lock(&lock);
    state.result[function] = result;
    state.skip[function] = skip;
    pthread_mutex_unlock(&lock);
}

static long control_calls(const char *name)
{
    const int only = name != NULL ? function_find(name) : -1;
    long total = 0;
    pthread_mutex_lock(&lock);
    for (int i = 0; i < FUNCTION_COUNT; i++) {
        total += only < 0 || only == i ? state.calls[i] : 0;
    }
    pthread_mutex_unlock(&lock);
    return total;
}

static void control_current(int device)
{
    current_stack[current_depth] = device;
}

static struct CUstream_st *control_stream(int device)
{
    return &streams[device];
}

static bool control_last_launch(struct fake_launch *launch)
{
    pthread_mutex_lock(&lock);
    const bool launched = state.launched;
    *launch = state.last;
    pthread_mutex_unlock(&lock);
    return launched;
}

static bool control_launch_before(struct fake_launch *launch)
{
    pthread_mutex_lock(&lock);
    const bool launched = state.launches > 1;
    *launch = state.before_last;
    pthread_mutex_unlock(&lock);
    return launched;
}

static bool control_last_fill(struct fake_fill *fill)
{
    pthread_mutex_lock(&lock);
    const bool filled = state.filled;
    *fill = state.fill;
    pthread_mutex_unlock(&lock);
    return filled;
}

static long number_read(const long *number)
{
    pthread_mutex_lock(&lock);
    const long value = *number;
    pthread_mutex_unlock(&lock);
    return value;
}

static long control_loaded(void)
{
    return number_read(&state.loaded);
}

static int control_attribute_calls(int device)
{
    return (int)number_read(&state.attribute_calls[device]);
}

static void control_device_reset(void)
{
    pthread_mutex_lock(&lock);
    state.epoch++;
    pthread_mutex_unlock(&lock);
}

static bool control_capture_poisoned(void)
{
    pthread_mutex_lock(&lock);
    const bool poisoned = state.poisoned;
    pthread_mutex_unlock(&lock);
    return poisoned;
}

static int control_capture_mode(void)
{
    return thread_mode;
}

static int control_capture_mode_at_load(void)
{
    return (int)number_read(&state.mode_at_load);
}

/* The settings that are one field. */
#define SETTER(name, type, field)                                                                                      \
    static void name(type value)                                                                                       \
    {                                                                                                                  \
        pthread_mutex_lock(&lock);                                                                                     \
        state.field = value;                                                                                           \
        pthread_mutex_unlock(&lock);                                                                                   \
    }
SETTER(control_version, int, version)
SETTER(control_needs_current, bool, needs_current)
SETTER(control_capture, bool, capturing)
SETTER(control_params_size, size_t, params_size)
SETTER(control_refuse, fake_refuse, refuse)

extern const struct fake_driver fake_driver;
EXPORT const struct fake_driver fake_driver = {control_reset,
                                               control_devices,
                                               control_version,
                                               control_fail,
                                               control_calls,
                                               control_current,
                                               control_stream,
                                               control_needs_current,
                                               control_last_launch,
                                               control_loaded,
                                               control_attribute_calls,
                                               control_capture_mode,
                                               control_capture_mode_at_load,
                                               control_params_size,
                                               control_launch_before,
                                               control_last_fill,
                                               control_capture,
                                               control_capture_poisoned,
                                               control_device_reset,
                                               control_refuse};

#endif
