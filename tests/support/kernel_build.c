/*
 * See kernel_build.h.
 */
#include "tests/support/kernel_build.h"

#include <stdlib.h>
#include <string.h>

#include "gen/assemble.h"
#include "gen/fail.h"

enum { SOURCE_SIZE = 1 << 22, TEXT_SIZE = 4096 };

struct nvrtc *kernel_build_nvrtc(struct sbuf *why)
{
    const struct nvrtc_search search = {.path = getenv("GDPAJIT_NVRTC"),
                                        .path_origin = "GDPAJIT_NVRTC",
                                        .cuda_home = getenv("CUDA_HOME"),
                                        .cuda_path = getenv("CUDA_PATH")};
    struct nvrtc *nvrtc = NULL;
    return nvrtc_open(&search, &nvrtc, why) == GDPA_OK ? nvrtc : NULL;
}

gdpa_status kernel_build_init(struct kernel_build *build, const char *spec, struct sbuf *why)
{
    gdpa_spec parsed;
    memset(build, 0, sizeof(*build));
    sbuf_init(&build->text, TEXT_SIZE);
    sbuf_init(&build->name, TEXT_SIZE);
    TRY(spec_parse(spec, &parsed, why));
    TRY(spec_normalise(&parsed, false, &build->spec, why));
    TRY(plan_make(&build->spec, &build->plan, NULL, why));
    spec_print(&build->spec, &build->text);
    return GDPA_OK;
}

gdpa_status kernel_build_make(struct kernel_build *build, const struct nvrtc *nvrtc, struct sbuf *why)
{
    struct sbuf source;
    char hash[33];
    sbuf_init(&source, SOURCE_SIZE);
    kernel_name(&build->spec, &build->plan, &build->name);
    gdpa_status status = source_generate(&build->spec, &build->plan, &source, why);
    if (status == GDPA_OK) {
        source_hash(source.text, source.length, hash);
        const struct compile_request request = {.source = source.text,
                                                .source_hash = hash,
                                                .name = build->name.text,
                                                .target = arch_find(build->spec.arch)->target,
                                                .arch = build->spec.arch};
        status = compile_source(nvrtc, &request, &build->result, why);
    }
    sbuf_deinit(&source);
    return status;
}

void kernel_build_deinit(struct kernel_build *build)
{
    compile_result_deinit(&build->result);
    sbuf_deinit(&build->name);
    sbuf_deinit(&build->text);
}
