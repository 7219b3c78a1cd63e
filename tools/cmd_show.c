/*
 * gdpa-jit show: one kernel, from any side. The kernel is named by a spec (it is then generated or compiled if need be) or
 * by the first letters of its key or name in the cache (nothing is then compiled).
 */
#include "tools/commands.h"
#include "tools/entries.h"
#include "tools/json.h"
#include "tools/occupancy.h"
#include "tools/specs.h"
#include "tools/term.h"
#include "tools/tool.h"
#include "tools/vocabulary.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static const struct verb_row verbs[] = {
    {"source", "the CUDA source, one flat file"},
    {"plan", "tile sizes and why they were chosen"},
    {"ptx", "PTX that NVRTC made of it"},
    {"cubin", "the binary, for cuobjdump and nvdisasm"},
    {"resources", "registers, spills, shared memory, blocks an SM"},
    {"log", "what the compiler said"},
    {NULL, NULL},
};

/* The artifact of a verb; 0: resources. */
static const gdpa_artifact artifacts[] = {
    GDPA_ARTIFACT_SOURCE, GDPA_ARTIFACT_PLAN, GDPA_ARTIFACT_PTX,
    GDPA_ARTIFACT_CUBIN,  (gdpa_artifact)0,   GDPA_ARTIFACT_LOG,
};

static const struct option_row options[] = {
    {.name = "output", .letter = 'o', .kind = OPTION_TEXT, .values = "FILE", .doc = "write there; default: stdout"},
    {.name = "arch",
     .kind = OPTION_TEXT,
     .values = "ARCH",
     .doc = "for a spec without arch; default: that of this GPU"},
    {.name = NULL},
};

/* The kernel asked for, and what is known of it. */
struct subject {
    bool by_spec;
    gdpa_spec spec;
    const char *prefix; /* of key or name, when not by_spec */
    gdpa_kernel *kernel;
};

/* A single word without "=" that is no pass names a cached kernel. */
static bool is_spec(const char *const *words, size_t count)
{
    return count > 1 || strpbrk(words[0], "= \t") != NULL || strcmp(words[0], "fwd") == 0 ||
           strcmp(words[0], "bwd") == 0;
}

static int parse_subject(struct tool *tool, struct subject *subject)
{
    const char *const *words = tool->args.words + 1;
    size_t count = tool->args.word_count - 1;
    char why[1024];
    memset(subject, 0, sizeof *subject);
    subject->by_spec = is_spec(words, count);
    const char *arch = args_text(&tool->args, "arch", NULL);
    if (!subject->by_spec) {
        subject->prefix = words[0];
        return arch == NULL ? EXIT_DONE : tool_usage(tool, "--arch goes with a spec, not with a key or name");
    }
    gdpa_spec spec = GDPA_SPEC_INIT;
    if (!spec_from_words(words, count, &spec, why, sizeof why)) {
        return tool_usage(tool, "%s", why);
    }
    if (!spec_arch_default("show", arch, &spec, why, sizeof why)) {
        return tool_usage(tool, "%s", why);
    }
    if (gdpa_spec_check(&spec) != GDPA_OK) {
        return tool_usage(tool, "%s", gdpa_last_error());
    }
    subject->spec = spec;
    return EXIT_DONE;
}

static void subject_deinit(struct subject *subject)
{
    gdpa_kernel_release(subject->kernel);
}

/* ---------------------------------------------------------------------------------------------------------------
 * Artifacts
 * ------------------------------------------------------------------------------------------------------------- */

static int get_kernel(struct tool *tool, struct subject *subject)
{
    gdpa_ctx *ctx = tool_context(tool);
    gdpa_status status = ctx == NULL ? tool->ctx_status : gdpa_kernel_get(ctx, &subject->spec, &subject->kernel);
    if (status == GDPA_E_NO_DRIVER && subject->spec.arch == 0) {
        tool_error(tool, "the spec names no architecture; --arch sm_90a, say, needs no GPU");
    }
    return status == GDPA_OK ? EXIT_DONE : tool_fail(tool, status);
}

static int get_artifact(struct tool *tool, struct subject *subject, gdpa_artifact what, char **data, size_t *length)
{
    gdpa_status status;
    bool needs_no_compiler = what == GDPA_ARTIFACT_SOURCE || what == GDPA_ARTIFACT_PLAN;
    if (!subject->by_spec) {
        gdpa_ctx *ctx = tool_context(tool);
        status = ctx == NULL ? tool->ctx_status : tool_cache_artifact(ctx, subject->prefix, what, data, length);
    } else if (needs_no_compiler && subject->spec.arch != 0) {
        status = tool_generate(&subject->spec, what, data, length);
    } else {
        int code = get_kernel(tool, subject);
        if (code != EXIT_DONE) {
            return code;
        }
        status = tool_kernel_artifact(subject->kernel, what, data, length);
    }
    return status == GDPA_OK ? EXIT_DONE : tool_fail(tool, status);
}

static char *base64(const char *data, size_t length)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    char *text = tool_alloc((length + 2) / 3 * 4 + 1);
    char *to = text;
    for (size_t i = 0; i < length; i += 3) {
        size_t left = length - i;
        unsigned long bits = (unsigned long)(unsigned char)data[i] << 16;
        bits |= left > 1 ? (unsigned long)(unsigned char)data[i + 1] << 8 : 0;
        bits |= left > 2 ? (unsigned long)(unsigned char)data[i + 2] : 0;
        *to++ = digits[bits >> 18 & 63];
        *to++ = digits[bits >> 12 & 63];
        *to++ = left > 1 ? digits[bits >> 6 & 63] : '=';
        *to++ = left > 2 ? digits[bits & 63] : '=';
    }
    *to = 0;
    return text;
}

static void print_artifact_json(FILE *out, const char *view, bool binary, const char *data, size_t length)
{
    json_t *report = json_report("show");
    json_set_text(report, "view", view);
    json_set_integer(report, "bytes", (long long)length);
    if (binary) {
        char *text = base64(data, length);
        json_set_text(report, "base64", text);
        free(text);
    } else {
        json_set_text(report, "text", data);
    }
    json_print(out, report);
}

/* The stream of --output; NULL, said why, when it cannot be opened. */
static FILE *open_output(struct tool *tool)
{
    const char *path = args_text(&tool->args, "output", "-");
    if (strcmp(path, "-") == 0) {
        return stdout;
    }
    FILE *file = fopen(path, "wb");
    if (file == NULL) {
        tool_error(tool, "cannot write %s: %s", path, strerror(errno));
    }
    return file;
}

static int close_output(struct tool *tool, FILE *file)
{
    if (file == stdout) {
        return EXIT_DONE; /* main looks whether all was written */
    }
    bool failed = ferror(file) != 0;
    failed = fclose(file) != 0 || failed;
    if (failed) {
        tool_error(tool, "cannot write %s: %s", args_text(&tool->args, "output", "-"), strerror(errno));
    }
    return failed ? EXIT_SOME_FAILED : EXIT_DONE;
}

static int show_artifact(struct tool *tool, struct subject *subject, const struct verb_row *verb, gdpa_artifact what)
{
    bool binary = what == GDPA_ARTIFACT_CUBIN;
    bool to_terminal = args_text(&tool->args, "output", NULL) == NULL && term_is_terminal(stdout);
    if (binary && to_terminal && !tool->json) {
        return tool_usage(tool, "a cubin is binary; name a file by --output, or send it into a pipe");
    }
    char *data = NULL;
    size_t length = 0;
    int code = get_artifact(tool, subject, what, &data, &length);
    if (code != EXIT_DONE) {
        return code;
    }
    FILE *out = open_output(tool);
    if (out == NULL) {
        free(data);
        return EXIT_SOME_FAILED;
    }
    if (tool->json) {
        print_artifact_json(out, verb->name, binary, data, length);
    } else {
        fwrite(data, 1, length, out);
        if (!binary && length > 0 && data[length - 1] != '\n') {
            fputc('\n', out);
        }
    }
    free(data);
    return close_output(tool, out);
}

/* ---------------------------------------------------------------------------------------------------------------
 * Resources
 * ------------------------------------------------------------------------------------------------------------- */

enum { UNKNOWN = -1 };

struct resources {
    const char *name, *spec, *target, *key, *nvrtc;
    int registers, spill_bytes, stack_bytes, smem_static, smem_dynamic, threads, binary_bytes;
};

static void resources_of_kernel(const gdpa_kernel_info *info, struct resources *resources)
{
    *resources = (struct resources){
        .name = info->name,
        .spec = info->spec,
        .target = info->target,
        .key = info->key,
        .nvrtc = info->nvrtc,
        .registers = info->registers,
        .spill_bytes = info->spill_bytes,
        .stack_bytes = info->stack_bytes,
        .smem_static = info->smem_static,
        .smem_dynamic = info->smem_dynamic,
        .threads = info->threads,
        .binary_bytes = info->binary_bytes,
    };
}

static void resources_of_entry(const gdpa_cache_entry *entry, struct resources *resources)
{
    *resources = (struct resources){
        .name = entry->name,
        .spec = entry->spec,
        .target = entry->target,
        .key = entry->key,
        .nvrtc = entry->nvrtc,
        .registers = entry->registers,
        .spill_bytes = entry->spill_bytes,
        .stack_bytes = UNKNOWN,
        .smem_static = UNKNOWN,
        .smem_dynamic = entry->smem_dynamic,
        .threads = entry->threads,
        .binary_bytes = (int)entry->binary_bytes,
    };
}

static bool resources_occupancy(const struct resources *resources, struct occupancy *occupancy)
{
    gdpa_spec spec = GDPA_SPEC_INIT;
    int smem = resources->smem_dynamic + (resources->smem_static > 0 ? resources->smem_static : 0);
    return gdpa_spec_parse(resources->spec, &spec) == GDPA_OK &&
           occupancy_compute(spec.arch, resources->registers, smem, resources->threads, occupancy);
}

static void print_known(FILE *out, const char *label, int value, const char *unit)
{
    if (value == UNKNOWN) {
        fprintf(out, "%-14snot recorded\n", label);
    } else {
        fprintf(out, "%-14s%d %s\n", label, value, unit);
    }
}

static void print_resources(FILE *out, const struct resources *resources)
{
    struct occupancy occupancy;
    fprintf(out, "name          %s\nspec          %s\ntarget        %s\nkey           %s\nnvrtc         %s\n",
            resources->name, resources->spec, resources->target, resources->key, resources->nvrtc);
    print_known(out, "registers", resources->registers, "a thread");
    print_known(out, "spills", resources->spill_bytes, "bytes");
    print_known(out, "stack", resources->stack_bytes, "bytes a thread");
    print_known(out, "smem static", resources->smem_static, "bytes a block");
    print_known(out, "smem dynamic", resources->smem_dynamic, "bytes a block");
    print_known(out, "threads", resources->threads, "a block");
    print_known(out, "binary", resources->binary_bytes, "bytes");
    if (!resources_occupancy(resources, &occupancy)) {
        fprintf(out, "blocks an SM  unknown for this target\n");
        return;
    }
    fprintf(out, "blocks an SM  %d, limited by %s (registers %d, shared memory %d, warps %d, blocks %d)\n",
            occupancy.blocks, occupancy.limiter, occupancy.by_registers, occupancy.by_smem, occupancy.by_warps,
            occupancy.by_blocks);
    fprintf(out, "warps an SM   %d of %d\n", occupancy.warps, occupancy.warps_limit);
}

static void set_known(json_t *object, const char *name, int value)
{
    json_set(object, name, value == UNKNOWN ? json_null() : json_integer(value));
}

static void print_resources_json(FILE *out, const struct resources *resources)
{
    struct occupancy occupancy;
    json_t *report = json_report("show");
    json_set_text(report, "view", "resources");
    json_set_text(report, "name", resources->name);
    json_set_text(report, "spec", resources->spec);
    json_set_text(report, "target", resources->target);
    json_set_text(report, "key", resources->key);
    json_set_text(report, "nvrtc", resources->nvrtc);
    set_known(report, "registers", resources->registers);
    set_known(report, "spill_bytes", resources->spill_bytes);
    set_known(report, "stack_bytes", resources->stack_bytes);
    set_known(report, "smem_static", resources->smem_static);
    set_known(report, "smem_dynamic", resources->smem_dynamic);
    set_known(report, "threads", resources->threads);
    set_known(report, "binary_bytes", resources->binary_bytes);
    if (resources_occupancy(resources, &occupancy)) {
        json_t *object = json_object();
        json_set_integer(object, "blocks", occupancy.blocks);
        json_set_text(object, "limiter", occupancy.limiter);
        json_set_integer(object, "by_registers", occupancy.by_registers);
        json_set_integer(object, "by_smem", occupancy.by_smem);
        json_set_integer(object, "by_warps", occupancy.by_warps);
        json_set_integer(object, "by_blocks", occupancy.by_blocks);
        json_set_integer(object, "warps", occupancy.warps);
        json_set_integer(object, "warps_limit", occupancy.warps_limit);
        json_set(report, "occupancy", object);
    } else {
        json_set(report, "occupancy", json_null());
    }
    json_print(out, report);
}

static int write_resources(struct tool *tool, const struct resources *resources)
{
    FILE *out = open_output(tool);
    if (out == NULL) {
        return EXIT_SOME_FAILED;
    }
    if (tool->json) {
        print_resources_json(out, resources);
    } else {
        print_resources(out, resources);
    }
    return close_output(tool, out);
}

/*
 * A list entry lacks some numbers, which a kernel handle has. The entry is opened as a kernel where that finds the same one
 * without compiling; an entry that another compiler or version made is shown as far as the list knows it.
 */
static int show_cached_resources(struct tool *tool, const char *prefix)
{
    struct entry_list list;
    char why[512];
    gdpa_ctx *ctx = tool_context(tool);
    gdpa_status status = ctx == NULL ? tool->ctx_status : entry_list_read(ctx, &list);
    if (status != GDPA_OK) {
        return tool_fail(tool, status);
    }
    const gdpa_cache_entry *entry = entry_find(&list, prefix, why, sizeof why);
    if (entry == NULL) {
        tool_error(tool, "%s", why);
        entry_list_deinit(&list);
        return EXIT_SOME_FAILED;
    }
    struct resources resources;
    resources_of_entry(entry, &resources);
    gdpa_ctx *strict = NULL;
    gdpa_kernel *kernel = NULL;
    gdpa_spec spec = GDPA_SPEC_INIT;
    gdpa_kernel_info info = {.size = sizeof info};
    bool opened = gdpa_spec_parse(entry->spec, &spec) == GDPA_OK &&
                  tool_context_create(tool, GDPA_MODE_STRICT, &strict) == GDPA_OK &&
                  gdpa_kernel_get(strict, &spec, &kernel) == GDPA_OK && gdpa_kernel_info_get(kernel, &info) == GDPA_OK;
    if (opened && strcmp(info.key, entry->key) == 0) {
        resources_of_kernel(&info, &resources);
    }
    int code = write_resources(tool, &resources);
    gdpa_kernel_release(kernel);
    gdpa_ctx_destroy(strict);
    entry_list_deinit(&list);
    return code;
}

static int show_resources(struct tool *tool, struct subject *subject)
{
    if (!subject->by_spec) {
        return show_cached_resources(tool, subject->prefix);
    }
    int code = get_kernel(tool, subject);
    if (code != EXIT_DONE) {
        return code;
    }
    gdpa_kernel_info info = {.size = sizeof info};
    gdpa_status status = gdpa_kernel_info_get(subject->kernel, &info);
    if (status != GDPA_OK) {
        return tool_fail(tool, status);
    }
    struct resources resources;
    resources_of_kernel(&info, &resources);
    return write_resources(tool, &resources);
}

static int run(struct tool *tool)
{
    char why[512];
    const struct verb_row *verb = args_verb(&tool->args, why, sizeof why);
    if (verb == NULL) {
        return tool_usage(tool, "%s", why);
    }
    if (tool->args.word_count < 2) {
        return tool_usage(tool, "show %s needs a spec, or the first letters of a key or name in the cache", verb->name);
    }
    struct subject subject;
    int code = parse_subject(tool, &subject);
    if (code == EXIT_DONE) {
        gdpa_artifact what = artifacts[verb - verbs];
        code = what == (gdpa_artifact)0 ? show_resources(tool, &subject) : show_artifact(tool, &subject, verb, what);
        subject_deinit(&subject);
    }
    return code;
}

const struct command command_show = {
    .name = "show",
    .summary = "one kernel: source, plan, ptx, cubin, resources, log",
    .synopsis = "source|plan|ptx|cubin|resources|log SPEC...|KEY [OPTIONS]",
    .details =
        "KEY is the first letters of a key or name that `gdpa-jit list` shows, enough to be the only one. A SPEC is\n"
        "compiled when it is not in the cache; source and plan of a spec with an arch need no compiler.",
    .verbs = verbs,
    .options = options,
    .takes_specs = true,
    .examples = {"show source head_dim=128 activation=gelu arch=sm_90a", "show resources gdpa_fwd_sm90_d128_bf16_relu",
                 "show cubin fwd d=64 act=silu causal --arch sm_80 --output kernel.cubin"},
    .run = run,
};
