/*
 * The device of verify that is a GPU; see verify_gpu.h.
 */
#include "tools/verify_gpu.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/nvml.h"
#include "tools/tool.h"

enum {
    STAGING_BYTES = 64 << 20,
};

static bool device_open(void *self)
{
    struct verify_gpu *gpu = self;
    if (!gpu_open(&gpu->gpu, NULL, gpu->ordinal) || !gpu_stream_create(&gpu->gpu, &gpu->stream)) {
        snprintf(gpu->why, sizeof gpu->why, "%s", gpu->gpu.why);
        return false;
    }
    struct verify_device *device = &gpu->device;
    snprintf(device->gpu, sizeof device->gpu, "%s", gpu->gpu.name);
    snprintf(device->slug, sizeof device->slug, "%s", gpu->gpu.slug);
    snprintf(device->driver, sizeof device->driver, "%d.%d", gpu->gpu.driver_api / 1000,
             gpu->gpu.driver_api % 1000 / 10);
    struct nvml nvml;
    if (nvml_open(&nvml, NULL, gpu->gpu.bus_id)) {
        snprintf(device->driver, sizeof device->driver, "%s", nvml.driver);
        nvml_close(&nvml);
    }
    if (tool_context(gpu->tool) == NULL) {
        snprintf(gpu->why, sizeof gpu->why, "%s", gdpa_last_error());
        return false;
    }
    return true;
}

void kernel_facts_fill(gdpa_kernel *kernel, struct kernel_facts *facts)
{
    gdpa_kernel_info info = {.size = sizeof info};
    if (gdpa_kernel_info_get(kernel, &info) != GDPA_OK) {
        return;
    }
    snprintf(facts->spec, sizeof facts->spec, "%s", info.spec);
    snprintf(facts->source, sizeof facts->source, "%s", info.source_hash);
    snprintf(facts->nvrtc, sizeof facts->nvrtc, "%s", info.nvrtc);
    snprintf(facts->target, sizeof facts->target, "%s", info.target);
    facts->registers = info.registers;
    facts->spill_bytes = info.spill_bytes;
    facts->smem_bytes = info.smem_static + info.smem_dynamic;
}

/* The canonical text for this GPU, as gdpa_kernel_info_get gives it once there is a kernel. */
static void device_describe(void *self, const char *text, struct kernel_facts *facts)
{
    struct verify_gpu *gpu = self;
    gdpa_spec spec = GDPA_SPEC_INIT;
    char *canonical = NULL;
    if (gdpa_spec_parse(text, &spec) != GDPA_OK) {
        return;
    }
    if (spec.arch == 0) {
        spec.arch = gpu->gpu.capability;
    }
    if (tool_spec_text(&spec, &canonical) == GDPA_OK) {
        snprintf(facts->spec, sizeof facts->spec, "%s", canonical);
    }
    free(canonical);
}

static bool device_prepare(void *self, const char *spec, gdpa_spec *parsed, struct kernel_facts *facts)
{
    struct verify_gpu *gpu = self;
    gdpa_kernel_release(gpu->kernel);
    gpu->kernel = NULL;
    gdpa_spec wanted = GDPA_SPEC_INIT;
    gdpa_status status = gdpa_spec_parse(spec, &wanted);
    if (status == GDPA_OK) {
        status = gdpa_kernel_get(tool_context(gpu->tool), &wanted, &gpu->kernel);
    }
    if (status == GDPA_OK) {
        kernel_facts_fill(gpu->kernel, facts);
        status = gdpa_kernel_prepare(gpu->kernel);
    }
    if (status != GDPA_OK) {
        snprintf(gpu->why, sizeof gpu->why, "%s", gdpa_last_error());
        return false;
    }
    *parsed = wanted;
    gpu->spec = wanted;
    return true;
}

/* Room for what a launch needs, full of NaN: a workspace needs no initialisation. */
static bool workspace_make(struct verify_gpu *gpu, size_t bytes)
{
    if (bytes > gpu->workspace_bytes) {
        gpu_free(&gpu->gpu, gpu->workspace);
        gpu->workspace = NULL;
        gpu->workspace_bytes = 0;
        if (!gpu_alloc(&gpu->gpu, bytes, &gpu->workspace)) {
            return false;
        }
        gpu->workspace_bytes = bytes;
    }
    return bytes == 0 || gpu_fill(&gpu->gpu, gpu->workspace, 0xff, bytes, gpu->stream);
}

/* Backward kernels make no schedule themselves: bytes of the one that a launch needs. */
static gdpa_status schedule_size(struct verify_gpu *gpu, const gdpa_args *args, size_t *bytes)
{
    *bytes = 0;
    if (gpu->spec.pass != GDPA_PASS_BACKWARD || gpu->spec.schedule < GDPA_SCHEDULE_ZIGZAG) {
        return GDPA_OK;
    }
    return gdpa_schedule_size(tool_context(gpu->tool), &gpu->spec, args, bytes);
}

/* With the schedule, if there is one, behind the workspace. */
static gdpa_status launch_with_schedule(struct verify_gpu *gpu, const gdpa_args *args, size_t workspace, size_t bytes)
{
    gdpa_args own = *args;
    gdpa_status status = GDPA_OK;
    if (bytes > 0) {
        own.schedule = (unsigned char *)gpu->workspace + workspace;
        own.schedule_bytes = bytes;
        status = gdpa_schedule_build(tool_context(gpu->tool), &gpu->spec, args, own.schedule, own.schedule_bytes,
                                     gpu->stream);
    }
    return status != GDPA_OK ? status : gdpa_launch(gpu->kernel, &own, gpu->workspace, workspace, gpu->stream);
}

static bool device_launch(void *self, const gdpa_args *args)
{
    struct verify_gpu *gpu = self;
    size_t workspace = 0, schedule = 0;
    gdpa_status status = gdpa_workspace_size(gpu->kernel, args, &workspace);
    workspace = (workspace + 255) / 256 * 256;
    status = status == GDPA_OK ? schedule_size(gpu, args, &schedule) : status;
    if (status == GDPA_OK && !workspace_make(gpu, workspace + schedule)) {
        snprintf(gpu->why, sizeof gpu->why, "%s", gpu->gpu.why);
        return false;
    }
    if (status != GDPA_OK || launch_with_schedule(gpu, args, workspace, schedule) != GDPA_OK) {
        snprintf(gpu->why, sizeof gpu->why, "%s", gdpa_last_error());
        return false;
    }
    if (!gpu_stream_wait(&gpu->gpu, gpu->stream)) {
        snprintf(gpu->why, sizeof gpu->why, "%s", gpu->gpu.why);
        return false;
    }
    return true;
}

/* Passes the reason of a failing memory call on. */
static bool passed(struct verify_gpu *gpu, bool good)
{
    if (!good) {
        snprintf(gpu->why, sizeof gpu->why, "%s", gpu->gpu.why);
    }
    return good;
}

static bool device_alloc(void *self, size_t bytes, void **memory)
{
    struct verify_gpu *gpu = self;
    return passed(gpu, gpu_alloc(&gpu->gpu, bytes, memory));
}

static bool device_fill(void *self, void *memory, unsigned char value, size_t bytes)
{
    struct verify_gpu *gpu = self;
    return passed(gpu,
                  gpu_fill(&gpu->gpu, memory, value, bytes, gpu->stream) && gpu_stream_wait(&gpu->gpu, gpu->stream));
}

static bool device_upload(void *self, void *to, const void *from, size_t bytes)
{
    struct verify_gpu *gpu = self;
    return passed(gpu, gpu_upload(&gpu->gpu, to, from, bytes));
}

static bool device_download(void *self, void *to, const void *from, size_t bytes)
{
    struct verify_gpu *gpu = self;
    return passed(gpu, gpu_download(&gpu->gpu, to, from, bytes));
}

static void *device_staging(void *self, size_t *bytes)
{
    struct verify_gpu *gpu = self;
    *bytes = STAGING_BYTES;
    if (gpu->staging == NULL && !passed(gpu, gpu_host_alloc(&gpu->gpu, STAGING_BYTES, &gpu->staging))) {
        return NULL;
    }
    return gpu->staging;
}

static void device_release(void *self, void *memory)
{
    struct verify_gpu *gpu = self;
    gpu_free(&gpu->gpu, memory);
}

static const char *device_why(void *self)
{
    struct verify_gpu *gpu = self;
    return gpu->why;
}

void verify_gpu_init(struct verify_gpu *gpu, struct tool *tool, int ordinal)
{
    *gpu = (struct verify_gpu){.tool = tool, .ordinal = ordinal};
    gpu->device = (struct verify_device){
        .self = gpu,
        .open = device_open,
        .alloc = device_alloc,
        .fill = device_fill,
        .upload = device_upload,
        .download = device_download,
        .describe = device_describe,
        .prepare = device_prepare,
        .launch = device_launch,
        .release = device_release,
        .staging = device_staging,
        .why = device_why,
    };
}

void verify_gpu_deinit(struct verify_gpu *gpu)
{
    gdpa_kernel_release(gpu->kernel);
    gpu->kernel = NULL;
    if (gpu->workspace != NULL) {
        gpu_free(&gpu->gpu, gpu->workspace);
        gpu->workspace = NULL;
        gpu->workspace_bytes = 0;
    }
    if (gpu->staging != NULL) {
        gpu_host_free(&gpu->gpu, gpu->staging);
        gpu->staging = NULL;
    }
    if (gpu->stream != NULL) {
        gpu_stream_destroy(&gpu->gpu, gpu->stream);
        gpu->stream = NULL;
    }
    gpu_close(&gpu->gpu);
}
