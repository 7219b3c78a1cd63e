/*
 * Shared by the tests of runtime/; see runtime_fixture.h.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* environ */
#endif
#include "tests/support/runtime_fixture.h"

#include <dirent.h>
#include <dlfcn.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

const struct fake_driver *fake_driver_control;
const struct fake_nvrtc *fake_nvrtc_control;

static void environment_clear(void)
{
    static const char *const others[] = {"XDG_CACHE_HOME", "CUDA_HOME", "CUDA_PATH"};
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        unsetenv(others[i]);
    }
    for (char **entry = environ; *entry != NULL;) {
        char name[128];
        const size_t length = strcspn(*entry, "=");
        const bool ours = strncmp(*entry, "GDPAJIT_", 8) == 0 || strncmp(*entry, "FAKE_", 5) == 0;
        if (ours && length < sizeof name) {
            memcpy(name, *entry, length);
            name[length] = '\0';
            unsetenv(name);
        } else {
            entry++;
        }
    }
}

static const void *control_load(const char *path, const char *object)
{
    void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (handle == NULL) {
        fail_msg("%s", dlerror());
    }
    const void *control = dlsym(handle, object);
    assert_non_null(control);
    return control;
}

int fakes_load(void **state)
{
    environment_clear();
    fake_driver_control = control_load(FAKE_DRIVER_PATH, "fake_driver");
    fake_nvrtc_control = control_load(FAKE_NVRTC_PATH, "fake_nvrtc");
    return fakes_reset(state);
}

int fakes_reset(void **state)
{
    (void)state;
    fake_driver_control->reset();
    fake_nvrtc_control->reset();
    return 0;
}

char *scratch_make(void)
{
    const char *base = getenv("TMPDIR");
    char *folder = malloc(4096);
    assert_non_null(folder);
    snprintf(folder, 4096, "%s/gdpa-test-XXXXXX", base != NULL ? base : "/tmp");
    assert_non_null(mkdtemp(folder));
    return folder;
}

static void folder_remove(const char *folder)
{
    DIR *directory = opendir(folder);
    for (struct dirent *entry = NULL; directory != NULL && (entry = readdir(directory)) != NULL;) {
        char path[4096 + 256];
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) {
            continue;
        }
        snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        if (unlink(path) != 0) {
            folder_remove(path);
        }
    }
    if (directory != NULL) {
        closedir(directory);
    }
    rmdir(folder);
}

void scratch_remove(char *folder)
{
    folder_remove(folder);
    free(folder);
}

void captured_log_init(struct captured_log *log)
{
    pthread_mutex_init(&log->lock, NULL);
    log->length = 0;
    log->lines = 0;
    log->text[0] = '\0';
}

void captured_log_line(gdpa_log_level level, const char *subsystem, const char *line, void *user)
{
    struct captured_log *log = user;
    pthread_mutex_lock(&log->lock);
    const int written =
        snprintf(log->text + log->length, sizeof log->text - log->length, "%d %s: %s\n", (int)level, subsystem, line);
    if (written > 0 && log->length + (size_t)written < sizeof log->text) {
        log->length += (size_t)written;
    }
    log->lines++;
    pthread_mutex_unlock(&log->lock);
}

gdpa_ctx_options runtime_options(const char *cache_dir)
{
    gdpa_ctx_options options = GDPA_CTX_OPTIONS_INIT;
    options.cache_dir = cache_dir;
    options.nvrtc_path = FAKE_NVRTC_PATH;
    options.driver_path = FAKE_DRIVER_PATH;
    options.mode = cache_dir != NULL ? GDPA_MODE_AUTO : GDPA_MODE_OFF;
    return options;
}

gdpa_ctx *runtime_context(const gdpa_ctx_options *options)
{
    gdpa_ctx *ctx = NULL;
    expect_ok(gdpa_ctx_create(options, &ctx));
    assert_non_null(ctx);
    return ctx;
}

gdpa_spec runtime_spec(const char *text)
{
    gdpa_spec spec = GDPA_SPEC_INIT;
    expect_ok(gdpa_spec_parse(text, &spec));
    return spec;
}

gdpa_args runtime_args(void)
{
    gdpa_args args = GDPA_ARGS_INIT;
    args.q.data = (void *)(uintptr_t)0x10000;
    args.k.data = (void *)(uintptr_t)0x20000;
    args.v.data = (void *)(uintptr_t)0x30000;
    args.o.data = (void *)(uintptr_t)0x40000;
    args.batch = 2;
    args.heads_q = 4;
    args.heads_k = 2;
    args.seqlen_q = 3;
    args.seqlen_k = 5;
    return args;
}

void expect_text_at(const char *text, const char *part, const char *file, int line)
{
    if (strstr(text, part) == NULL) {
        print_error("%s:%d: expected \"%s\" in:\n%s\n", file, line, part, text);
        _fail(file, line);
    }
}

void expect_failure_at(gdpa_status status, gdpa_status expected, const char *text, const char *file, int line)
{
    if (status != expected) {
        print_error("%s:%d: %s instead of %s: %s\n", file, line, gdpa_status_name(status), gdpa_status_name(expected),
                    gdpa_last_error());
        _fail(file, line);
    }
    expect_text_at(gdpa_last_error(), text, file, line);
}

void expect_ok_at(gdpa_status status, const char *file, int line)
{
    if (status != GDPA_OK) {
        print_error("%s:%d: %s: %s\n", file, line, gdpa_status_name(status), gdpa_last_error());
        _fail(file, line);
    }
}
