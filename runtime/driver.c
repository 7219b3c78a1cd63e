/*
 * The CUDA driver by dlopen; see driver.h.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* dlinfo */
#endif
#include "runtime/driver.h"

#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static gdpa_status functions_load(void *handle, struct driver *driver, struct sbuf *why)
{
#define DRIVER_LOAD(name, symbol, parameters) *(void **)(&driver->name) = dlsym(handle, #symbol);
#define DRIVER_REQUIRE(name, symbol, parameters)                                                                       \
    if (driver->name == NULL) {                                                                                        \
        return fail(why, GDPA_E_NO_DRIVER,                                                                             \
                    "the CUDA driver %s has no function %s; a driver of CUDA 12.0 or later is needed", driver->path,   \
                    #symbol);                                                                                          \
    }
    DRIVER_FUNCTIONS(DRIVER_LOAD)
    DRIVER_OPTIONAL_FUNCTIONS(DRIVER_LOAD)
    DRIVER_FUNCTIONS(DRIVER_REQUIRE)
#undef DRIVER_LOAD
#undef DRIVER_REQUIRE
    return GDPA_OK;
}

gdpa_status driver_open(const char *path, struct driver **driver, struct sbuf *why)
{
    const char *name = path != NULL ? path : "libcuda.so.1";
    void *handle = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (handle == NULL) {
        const char *reason = dlerror();
        return fail(why, GDPA_E_NO_DRIVER,
                    "no CUDA driver: %s; install the NVIDIA driver, or name its libcuda in GDPAJIT_LIBCUDA", reason);
    }
    struct driver *made = calloc(1, sizeof *made);
    if (made == NULL) {
        dlclose(handle);
        return fail(why, GDPA_E_MEMORY, "no memory for the CUDA driver's table");
    }
    struct link_map *map = NULL;
    const bool mapped = dlinfo(handle, RTLD_DI_LINKMAP, &map) == 0 && map != NULL;
    snprintf(made->path, sizeof made->path, "%s", mapped ? map->l_name : name);
    const gdpa_status status = functions_load(handle, made, why);
    if (status != GDPA_OK) {
        free(made);
        dlclose(handle);
        return status;
    }
    if (made->driver_version(&made->version) != CUDA_OK) {
        made->version = 0;
    }
    *driver = made;
    return GDPA_OK;
}

gdpa_status driver_fail(const struct driver *driver, int result, struct sbuf *why, const char *format, ...)
{
    const char *name = NULL, *text = NULL;
    sbuf_reset(why);
    va_list arguments;
    va_start(arguments, format);
    sbuf_vaddf(why, format, arguments);
    va_end(arguments);
    if (driver->error_name(result, &name) != CUDA_OK || name == NULL) {
        name = "an error that the driver has no name for";
    }
    sbuf_addf(why, ": %s (%d)", name, result);
    if (driver->error_string(result, &text) == CUDA_OK && text != NULL) {
        sbuf_addf(why, ": %s", text);
    }
    if (result == CUDA_NOT_INITIALIZED && driver->started_by != 0 && driver->started_by != getpid()) {
        sbuf_addf(why,
                  "; this process was forked from process %ld after CUDA was in use there, which CUDA does not allow: "
                  "fork earlier, or start the worker with exec",
                  (long)driver->started_by);
    }
    return GDPA_E_DRIVER;
}

bool device_runs(const struct device *device, const struct arch_row *row)
{
    const bool this_chip_only = row->target[strlen(row->target) - 1] == 'a';
    if (this_chip_only) {
        return device->capability == row->number;
    }
    return device->capability / 10 == row->number / 10 && device->capability >= row->number;
}

/* The highest row whose code the device runs. */
static int device_arch(const struct device *device)
{
    static const int numbers[] = {
#define ARCH(number, ...) number,
#include "gen/archs.def"
#undef ARCH
    };
    int best = 0;
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        if (device_runs(device, arch_find(numbers[i])) && numbers[i] > best) {
            best = numbers[i];
        }
    }
    return best;
}

static int device_read(const struct driver *driver, int ordinal, struct device *device)
{
    int major = 0, minor = 0;
    int result = driver->device_get(&device->handle, ordinal);
    if (result == CUDA_OK) {
        result = driver->device_attribute(&major, CUDA_ATTRIBUTE_MAJOR, device->handle);
    }
    if (result == CUDA_OK) {
        result = driver->device_attribute(&minor, CUDA_ATTRIBUTE_MINOR, device->handle);
    }
    if (result == CUDA_OK) {
        result = driver->device_attribute(&device->sms, CUDA_ATTRIBUTE_SMS, device->handle);
    }
    if (result == CUDA_OK) {
        result = driver->device_name(device->name, sizeof device->name, device->handle);
    }
    device->capability = major * 10 + minor;
    device->arch = device_arch(device);
    return result;
}

gdpa_status driver_start(struct driver *driver, struct sbuf *why)
{
    int result = driver->init(0);
    if (result != CUDA_OK) {
        driver_fail(driver, result, why, "the CUDA driver %s does not start", driver->path);
        return GDPA_E_NO_DRIVER;
    }
    driver->started_by = getpid();
    int count = 0;
    result = driver->device_count(&count);
    if (result != CUDA_OK || count < 1) {
        if (result == CUDA_OK) {
            return fail(why, GDPA_E_NO_DRIVER, "the CUDA driver %s finds no GPU", driver->path);
        }
        driver_fail(driver, result, why, "the CUDA driver %s finds no GPU", driver->path);
        return GDPA_E_NO_DRIVER;
    }
    struct device *devices = calloc((size_t)count, sizeof *devices);
    if (devices == NULL) {
        return fail(why, GDPA_E_MEMORY, "no memory for a table of %d devices", count);
    }
    for (int i = 0; i < count; i++) {
        result = device_read(driver, i, &devices[i]);
        if (result != CUDA_OK) {
            free(devices);
            driver_fail(driver, result, why, "asking for device %d", i);
            return GDPA_E_NO_DRIVER;
        }
    }
    free(driver->devices); /* those of the parent, in a child */
    driver->devices = devices;
    driver->device_total = count;
    driver->common_arch = devices[0].arch;
    for (int i = 1; i < count; i++) {
        if (devices[i].arch != driver->common_arch) {
            driver->common_arch = 0;
        }
    }
    return GDPA_OK;
}

void driver_free(struct driver *driver)
{
    if (driver != NULL) {
        free(driver->devices);
        free(driver);
    }
}

/* The device of the stream, else the current one, else the first. */
static const struct device *device_in_use(const struct driver *driver, struct CUstream_st *stream)
{
    int handle = 0;
    struct CUctx_st *context = NULL;
    const bool pushed = stream != NULL && driver->stream_context(stream, &context) == CUDA_OK && context != NULL &&
                        driver->context_push(context) == CUDA_OK;
    const bool known = driver->current_device(&handle) == CUDA_OK;
    if (pushed) {
        driver->context_pop(&context);
    }
    for (int i = 0; known && i < driver->device_total; i++) {
        if (driver->devices[i].handle == handle) {
            return &driver->devices[i];
        }
    }
    return &driver->devices[0];
}

gdpa_status driver_arch(const struct driver *driver, struct CUstream_st *stream, int *arch, struct sbuf *why)
{
    if (driver->common_arch != 0) {
        *arch = driver->common_arch;
        return GDPA_OK;
    }
    const struct device *device = device_in_use(driver, stream);
    if (device->arch == 0) {
        return fail(why, GDPA_E_UNSUPPORTED,
                    "no kernels for %s of compute capability %d.%d; 8.0 or later is needed, and a version of this "
                    "library that knows the chip",
                    device->name, device->capability / 10, device->capability % 10);
    }
    *arch = device->arch;
    return GDPA_OK;
}

void driver_list_devices(const struct driver *driver, struct sbuf *text)
{
    for (int i = 0; i < driver->device_total; i++) {
        const struct device *device = &driver->devices[i];
        sbuf_addf(text, "%s%d: %s (%d.%d)", i == 0 ? "" : ", ", i, device->name, device->capability / 10,
                  device->capability % 10);
    }
}
