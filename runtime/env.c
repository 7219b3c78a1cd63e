/*
 * Reading the environment; see env.h. Nothing else in the library calls getenv.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* environ */
#endif
#include "runtime/env.h"
#include "gen/suggest.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

const struct env_row env_rows[ENV_COUNT] = {
#define ENV(suffix, name, fallback, doc) {name, fallback, doc},
#include "runtime/env.def"
#undef ENV
    {"XDG_CACHE_HOME", "HOME/.cache", "folder of all caches of the user"},
    {"HOME", "none", "home folder of the user"},
    {"TMPDIR", "/var/tmp, else /tmp", "folder for temporary files"},
    {"CUDA_HOME", "none", "folder of a CUDA toolkit"},
    {"CUDA_PATH", "none", "folder of a CUDA toolkit"},
};

static const char prefix[] = "GDPAJIT_";
static const char setup_prefix[] = "GDPAJIT_SETUP_"; /* of the scripts that set a source tree up */

bool env_read(struct env *env, const gdpa_allocator *allocator)
{
    memset(env, 0, sizeof *env);
    env->ignored = getauxval(AT_SECURE) != 0;
    for (int i = 0; i < ENV_COUNT && !env->ignored; i++) {
        const char *value = getenv(env_rows[i].name);
        if (value == NULL || value[0] == '\0') {
            continue;
        }
        env->values[i] = memory_text(allocator, value);
        if (env->values[i] == NULL) {
            env_deinit(env, allocator);
            return false;
        }
    }
    return true;
}

void env_deinit(struct env *env, const gdpa_allocator *allocator)
{
    for (int i = 0; i < ENV_COUNT; i++) {
        memory_free(allocator, env->values[i]);
        env->values[i] = NULL;
    }
}

static bool name_is_known(const char *name, size_t length)
{
    if (strncmp(name, setup_prefix, sizeof setup_prefix - 1) == 0) {
        return true;
    }
    for (int i = 0; i < ENV_OWN_COUNT; i++) {
        if (strlen(env_rows[i].name) == length && strncmp(env_rows[i].name, name, length) == 0) {
            return true;
        }
    }
    return false;
}

void env_report_unknown(const struct env *env, void (*say)(const char *name, const char *nearest, void *user),
                        void *user)
{
    static atomic_flag said = ATOMIC_FLAG_INIT;
    if (env->ignored || environ == NULL || atomic_flag_test_and_set(&said)) {
        return;
    }
    for (char **entry = environ; *entry != NULL; entry++) {
        const size_t length = strcspn(*entry, "=");
        char name[128];
        if (strncmp(*entry, prefix, sizeof prefix - 1) != 0 || length >= sizeof name || name_is_known(*entry, length)) {
            continue;
        }
        memcpy(name, *entry, length);
        name[length] = '\0';
        struct suggestion suggestion;
        suggest_start(&suggestion, name, length);
        for (int i = 0; i < ENV_OWN_COUNT; i++) {
            suggest_offer(&suggestion, env_rows[i].name);
        }
        say(name, suggestion.nearest, user);
    }
}

bool env_parse_size(const char *text, int64_t *bytes)
{
    static const char units[] = "kMGT";
    char *end = NULL;
    if (text[0] < '0' || text[0] > '9') {
        return false;
    }
    errno = 0;
    const long long number = strtoll(text, &end, 10);
    if (errno != 0) {
        return false;
    }
    int shift = 0;
    if (*end != '\0') {
        const char *unit = strchr(units, *end == 'K' ? 'k' : *end);
        if (unit == NULL || (end[1] != '\0' && strcmp(end + 1, "B") != 0 && strcmp(end + 1, "iB") != 0)) {
            return false;
        }
        shift = 10 * (int)(unit - units + 1);
    }
    if (number > INT64_MAX >> shift) {
        return false;
    }
    *bytes = (int64_t)number << shift;
    return true;
}

bool env_parse_seconds(const char *text, int32_t *seconds)
{
    const long limit = 366L * 24 * 3600;
    char *end = NULL;
    if (text[0] < '0' || text[0] > '9') {
        return false;
    }
    errno = 0;
    const long number = strtol(text, &end, 10);
    if (errno != 0 || *end != '\0' || number > limit) {
        return false;
    }
    *seconds = (int32_t)number;
    return true;
}
