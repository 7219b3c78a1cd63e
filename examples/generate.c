/*
 * Without a GPU: a spec in words, its kernel's source, and what the compiled kernel costs.
 *
 *     cc generate.c $(pkg-config --cflags --libs gdpajit) -o generate
 *     ./generate "fwd head_dim=128 activation=silu causal arch=sm_90a" > kernel.cu
 */
#include <gdpajit.h>

#include <stdio.h>
#include <stdlib.h>

static int report(const char *what)
{
    fprintf(stderr, "%s: %s\n", what, gdpa_last_error());
    return 1;
}

/* The source goes to stdout. Asking with no room first tells how much is needed. */
static int print_source(const gdpa_spec *spec)
{
    size_t length = 0;
    gdpa_status status = gdpa_generate(spec, GDPA_ARTIFACT_SOURCE, NULL, 0, &length);
    if (status != GDPA_OK && status != GDPA_E_BUFFER) {
        return report("generate");
    }
    char *source = malloc(length + 1);
    if (source == NULL) {
        fprintf(stderr, "out of memory for %zu bytes of source\n", length);
        return 1;
    }
    status = gdpa_generate(spec, GDPA_ARTIFACT_SOURCE, source, length + 1, &length);
    if (status == GDPA_OK) {
        fwrite(source, 1, length, stdout);
    }
    free(source);
    return status == GDPA_OK ? 0 : report("generate");
}

/* What the kernel costs goes to stderr. This needs NVRTC, or a cache that has the kernel already. */
static int print_costs(const gdpa_spec *spec)
{
    gdpa_ctx *ctx = NULL;
    gdpa_kernel *kernel = NULL;
    gdpa_kernel_info info = {.size = sizeof(info)};
    gdpa_status status = gdpa_ctx_create(NULL, &ctx);
    if (status == GDPA_OK) {
        status = gdpa_kernel_get(ctx, spec, &kernel);
    }
    if (status == GDPA_OK) {
        status = gdpa_kernel_info_get(kernel, &info);
    }
    int code = status == GDPA_OK ? 0 : report("kernel");
    if (code == 0) {
        fprintf(stderr, "%s: %d registers, %d bytes spilled, %d bytes of shared memory, %s in %.0f ms\n", info.name,
                (int)info.registers, (int)info.spill_bytes, (int)(info.smem_static + info.smem_dynamic), info.origin,
                info.compile_ms);
    }
    gdpa_kernel_release(kernel);
    gdpa_ctx_destroy(ctx);
    return code;
}

int main(int argc, char **argv)
{
    gdpa_spec spec = GDPA_SPEC_INIT;
    if (argc != 2) {
        fprintf(stderr, "usage: %s \"fwd head_dim=128 activation=silu causal arch=sm_90a\"\n", argv[0]);
        return 2;
    }
    if (gdpa_spec_parse(argv[1], &spec) != GDPA_OK) {
        return report("spec");
    }
    return print_source(&spec) || print_costs(&spec);
}
