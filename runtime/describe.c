/*
 * gdpa_ctx_describe: what this process found, as "name: value" lines. Names are stable; tools read them.
 */
#include "runtime/kernel.h"

#include <stdio.h>
#include <string.h>

#define DESCRIPTION_LIMIT ((size_t)1 << 18)

/* A text of several lines as a value: the later lines are indented. */
static void add_lines(struct sbuf *text, const char *name, const char *lines)
{
    sbuf_addf(text, "%s: ", name);
    for (const char *at = lines; *at != '\0';) {
        const size_t length = strcspn(at, "\n");
        sbuf_add(text, at, length);
        at += length;
        while (*at == '\n') {
            at++;
        }
        sbuf_addstr(text, *at != '\0' ? "\n    " : "");
    }
    sbuf_addstr(text, "\n");
}

/* A value of one line: a path or a variable may hold anything, and must not look like another line. */
static void add_value(struct sbuf *text, const char *name, const char *value)
{
    sbuf_addf(text, "%s: ", name);
    sbuf_add_line(text, value);
    sbuf_addstr(text, "\n");
}

static void describe_nvrtc(gdpa_ctx *ctx, struct sbuf *text, struct sbuf *why)
{
    const struct nvrtc *nvrtc = NULL;
    if (context_nvrtc(ctx, &nvrtc, why) != GDPA_OK) {
        add_lines(text, "nvrtc", why->text);
        return;
    }
    sbuf_addf(text, "nvrtc: %s\n", nvrtc->version);
    add_value(text, "nvrtc.path", nvrtc->path);
    add_value(text, "nvrtc.builtins", nvrtc->builtins[0] != '\0' ? nvrtc->builtins : "left to the loader");
    sbuf_addf(text, "nvrtc.build: %s\n", nvrtc->build);
    sbuf_addstr(text, "nvrtc.archs:");
    for (int i = 0; i < nvrtc->arch_count; i++) {
        sbuf_addf(text, " %d", nvrtc->archs[i]);
    }
    sbuf_addstr(text, "\n");
    add_lines(text, "nvrtc.tried", ctx->nvrtc_opening.text.text);
}

static void describe_driver(gdpa_ctx *ctx, struct sbuf *text, struct sbuf *why)
{
    struct driver *driver = NULL;
    if (context_driver(ctx, &driver, why) != GDPA_OK) {
        add_lines(text, "driver", why->text);
        return;
    }
    sbuf_addf(text, "driver: CUDA %d.%d\n", driver->version / 1000, driver->version % 1000 / 10);
    add_value(text, "driver.path", driver->path);
    if (context_devices(ctx, &driver, why) != GDPA_OK) {
        add_lines(text, "devices", why->text);
        return;
    }
    sbuf_addf(text, "devices: %d\n", driver->device_total);
    for (int i = 0; i < driver->device_total; i++) {
        const struct device *device = &driver->devices[i];
        const struct arch_row *row = arch_find(device->arch);
        sbuf_addf(text, "device.%d: %s, compute capability %d.%d, %s\n", i, device->name, device->capability / 10,
                  device->capability % 10, row != NULL ? row->target : "no kernels for it");
    }
}

static void describe_cache(gdpa_ctx *ctx, struct sbuf *text)
{
    struct cache *cache = context_cache(ctx);
    if (cache == NULL) {
        add_value(text, "cache", context_cache_absence(ctx));
        return;
    }
    int64_t entries = 0, bytes = 0, limit = 0;
    const enum cache_result result = cache_totals(cache, &entries, &bytes, &limit);
    add_value(text, "cache", cache_state(cache));
    add_value(text, "cache.path", cache_path(cache));
    if (ctx->cache_local == NULL) {
        sbuf_addf(text, "cache.origin: %s\n", ctx->cache_dir.origin);
    } else {
        sbuf_addstr(text, "cache.origin: default, on this machine because ");
        sbuf_add_line(text, ctx->cache_dir.value);
        sbuf_addstr(text, " is on a network file system\n");
    }
    if (result == CACHE_OK) {
        sbuf_addf(text, "cache.entries: %lld\n", (long long)entries);
        sbuf_addf(text, "cache.bytes: %lld\n", (long long)bytes);
    }
    sbuf_addf(text, "cache.limit: %lld\n", (long long)ctx->cache_limit);
}

static void describe_packs(gdpa_ctx *ctx, struct sbuf *text)
{
    const struct packs *packs = context_packs(ctx);
    for (int i = 0; i < packs->count; i++) {
        sbuf_addf(text, "pack.%d: ", i);
        sbuf_add_line(text, cache_path(packs->list[i]));
        sbuf_addf(text, "\npack.%d.state: ", i);
        sbuf_add_line(text, cache_state(packs->list[i]));
        sbuf_addstr(text, "\n");
    }
}

static void describe_environment(const gdpa_ctx *ctx, struct sbuf *text)
{
    if (ctx->env.ignored) {
        sbuf_addstr(text, "environment: ignored, the process has raised privileges\n");
    }
    for (int i = 0; i < ENV_OWN_COUNT; i++) {
        const char *value = ctx->env.values[i];
        sbuf_addf(text, "%s: ", env_rows[i].name);
        sbuf_add_line(text, value != NULL ? value : env_rows[i].fallback);
        sbuf_addf(text, " (%s)\n", value != NULL ? "environment" : "default");
    }
}

gdpa_status gdpa_ctx_describe(gdpa_ctx *ctx, char *text, size_t capacity, size_t *length)
{
    FAIL_IF(ctx == NULL, GDPA_E_ARGUMENT, "ctx is NULL");
    struct sbuf lines, why;
    sbuf_init(&lines, DESCRIPTION_LIMIT);
    sbuf_init(&why, WHY_LIMIT);
    sbuf_addf(&lines, "version: %s\n", GDPA_VERSION_STRING);
    sbuf_addf(&lines, "mode: %s (%s)\n", mode_name(ctx->mode), ctx->mode_origin);
    describe_nvrtc(ctx, &lines, &why);
    describe_driver(ctx, &lines, &why);
    describe_cache(ctx, &lines);
    describe_packs(ctx, &lines);
    describe_environment(ctx, &lines);
    const gdpa_status status = lines.overflow
                                   ? error_set(GDPA_E_MEMORY, "no memory for the description of a context")
                                   : bytes_give("description", lines.text, lines.length, true, text, capacity, length);
    sbuf_deinit(&lines);
    sbuf_deinit(&why);
    return status;
}
