/*
 * gdpa-jit doctor: looks whether everything that is needed is there and works, and prints all that a report of a fault
 * needs. What is merely absent (a GPU, on a machine that only compiles) is no fault.
 */
#include "tools/commands.h"
#include "tools/entries.h"
#include "tools/facts.h"
#include "tools/gpu.h"
#include "tools/json.h"
#include "tools/term.h"
#include "tools/tool.h"

#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>

enum check_state { CHECK_OK, CHECK_ABSENT, CHECK_WARNING, CHECK_FAILED };

static const char *const state_names[] = {"ok", "absent", "warning", "failed"};
static const char *const state_colors[] = {TERM_GREEN, "", TERM_YELLOW, TERM_RED};

enum { CHECKS_LIMIT = 16 };

struct check {
    const char *name;
    enum check_state state;
    char *detail;
};

struct doctor {
    struct tool *tool;
    struct check checks[CHECKS_LIMIT];
    size_t check_count;
    struct facts facts;
    int arch;   /* of the first device with kernels; 0: none */
    int device; /* its number */
    int code;
};

static const struct option_row options[] = {
    {.name = NULL},
};

/* Takes the detail. A failed check makes code the exit code, unless an earlier one did. */
static void add_check(struct doctor *doctor, const char *name, enum check_state state, int code, char *detail)
{
    struct check *check = &doctor->checks[doctor->check_count++];
    check->name = name;
    check->state = state;
    check->detail = detail;
    if (state == CHECK_FAILED && doctor->code == EXIT_DONE) {
        doctor->code = code;
    }
}

/* ---------------------------------------------------------------------------------------------------------------
 * Checks
 * ------------------------------------------------------------------------------------------------------------- */

static void check_library(struct doctor *doctor)
{
    bool same = strcmp(gdpa_version_string(), GDPA_VERSION_STRING) == 0;
    add_check(doctor, "library", same ? CHECK_OK : CHECK_FAILED, EXIT_SOME_FAILED,
              same ? tool_format("%s", gdpa_version_string())
                   : tool_format("this program is %s, the library %s: install both from one release",
                                 GDPA_VERSION_STRING, gdpa_version_string()));
}

static void check_nvrtc(struct doctor *doctor)
{
    const char *value = facts_find(&doctor->facts, "nvrtc");
    const char *path = facts_find(&doctor->facts, "nvrtc.path");
    if (path != NULL) {
        add_check(doctor, "nvrtc", CHECK_OK, EXIT_DONE, tool_format("%s, %s", value, path));
    } else {
        add_check(doctor, "nvrtc", CHECK_FAILED, EXIT_NO_DEVICE, tool_strdup(value != NULL ? value : "not found"));
    }
}

static void check_driver(struct doctor *doctor)
{
    const char *value = facts_find(&doctor->facts, "driver");
    const char *path = facts_find(&doctor->facts, "driver.path");
    if (path != NULL) {
        add_check(doctor, "driver", CHECK_OK, EXIT_DONE, tool_format("%s, %s", value, path));
    } else {
        add_check(doctor, "driver", CHECK_ABSENT, EXIT_DONE, tool_strdup(value != NULL ? value : "not found"));
    }
}

static void check_devices(struct doctor *doctor)
{
    if (facts_find(&doctor->facts, "driver.path") == NULL) {
        return; /* said above */
    }
    size_t found = 0;
    for (size_t i = 0; i < doctor->facts.count && found < 4; i++) {
        const struct fact *fact = &doctor->facts.rows[i];
        const char *target = strrchr(fact->value, ' ');
        if (strncmp(fact->name, "device.", strlen("device.")) != 0) {
            continue;
        }
        found++;
        bool usable = target != NULL && strncmp(target + 1, "sm_", 3) == 0;
        if (usable && doctor->arch == 0) {
            gdpa_spec spec = GDPA_SPEC_INIT;
            char *text = tool_format("head_dim=64 activation=relu arch=%s", target + 1);
            doctor->arch = gdpa_spec_parse(text, &spec) == GDPA_OK ? spec.arch : 0;
            doctor->device = (int)strtol(fact->name + strlen("device."), NULL, 10);
            free(text);
        }
        add_check(doctor, "device", usable ? CHECK_OK : CHECK_WARNING, EXIT_DONE, tool_strdup(fact->value));
    }
    if (found == 0) {
        const char *reason = facts_find(&doctor->facts, "devices");
        add_check(doctor, "device", CHECK_ABSENT, EXIT_DONE, tool_strdup(reason != NULL ? reason : "none"));
    }
}

static void check_cache(struct doctor *doctor)
{
    gdpa_cache_summary summary = {.size = sizeof summary};
    gdpa_status status = gdpa_cache_describe(doctor->tool->ctx, &summary);
    if (status != GDPA_OK) {
        add_check(doctor, "cache", CHECK_FAILED, EXIT_CACHE_TROUBLE, tool_strdup(gdpa_last_error()));
        return;
    }
    bool writable = strcmp(summary.state, "read-write") == 0;
    const char *mode = facts_find(&doctor->facts, "mode");
    if (!cache_is_usable(&summary)) {
        bool switched_off = mode != NULL && strncmp(mode, "off", strlen("off")) == 0;
        add_check(doctor, "cache", switched_off ? CHECK_ABSENT : CHECK_FAILED, EXIT_CACHE_TROUBLE,
                  tool_strdup(summary.state));
        return;
    }
    add_check(doctor, "cache", writable ? CHECK_OK : CHECK_WARNING, EXIT_DONE,
              tool_format("%s, %lld entries, %lld bytes, %s", summary.state, (long long)summary.entries,
                          (long long)summary.bytes, summary.path));
    int64_t good = 0;
    int64_t bad = 0;
    status = writable ? gdpa_cache_verify(doctor->tool->ctx, &good, &bad) : GDPA_OK;
    if (status != GDPA_OK) {
        add_check(doctor, "entries", CHECK_FAILED, EXIT_CACHE_TROUBLE, tool_strdup(gdpa_last_error()));
    } else if (writable) {
        add_check(
            doctor, "entries", bad == 0 ? CHECK_OK : CHECK_WARNING, EXIT_DONE,
            tool_format("%lld good, %lld damaged%s", (long long)good, (long long)bad, bad > 0 ? " and removed" : ""));
    }
}

/* A kernel compiled with no disk involved, for the device there is or for sm_80. */
static gdpa_kernel *check_compile(struct doctor *doctor, gdpa_ctx *off)
{
    gdpa_spec spec = GDPA_SPEC_INIT;
    gdpa_kernel *kernel = NULL;
    gdpa_kernel_info info = {.size = sizeof info};
    spec.head_dim = 64;
    spec.activation = GDPA_ACTIVATION_RELU;
    spec.arch = doctor->arch != 0 ? doctor->arch : 80;
    gdpa_status status = gdpa_kernel_get(off, &spec, &kernel);
    if (status == GDPA_OK) {
        status = gdpa_kernel_info_get(kernel, &info);
    }
    if (status != GDPA_OK) {
        add_check(doctor, "compile", CHECK_FAILED, EXIT_NO_DEVICE, tool_strdup(gdpa_last_error()));
        gdpa_kernel_release(kernel);
        return NULL;
    }
    add_check(doctor, "compile", info.spill_bytes == 0 ? CHECK_OK : CHECK_WARNING, EXIT_DONE,
              tool_format("%s in %.0f ms, %d registers, %d bytes spilled", info.target, info.compile_ms, info.registers,
                          info.spill_bytes));
    return kernel;
}

/* One sequence and head of 64 rows, all ones: each score is 64, each result 64 * 64, exact in every type on the way. */
enum { ROWS = 64, HEAD_DIM = 64, ELEMENTS = ROWS * HEAD_DIM };
static const uint16_t bf16_one = 0x3f80;
static const uint16_t bf16_4096 = 0x4580;

struct launch {
    struct gpu gpu;
    void *q, *k, *v, *o;
    uint16_t *host;
};

static bool launch_prepare(struct launch *launch)
{
    size_t bytes = ELEMENTS * sizeof *launch->host;
    for (int i = 0; i < ELEMENTS; i++) {
        launch->host[i] = bf16_one;
    }
    return gpu_alloc(&launch->gpu, bytes, &launch->q) && gpu_alloc(&launch->gpu, bytes, &launch->k) &&
           gpu_alloc(&launch->gpu, bytes, &launch->v) && gpu_alloc(&launch->gpu, bytes, &launch->o) &&
           gpu_upload(&launch->gpu, launch->q, launch->host, bytes) &&
           gpu_upload(&launch->gpu, launch->k, launch->host, bytes) &&
           gpu_upload(&launch->gpu, launch->v, launch->host, bytes) &&
           gpu_fill(&launch->gpu, launch->o, 0xff, bytes, NULL); /* NaN */
}

static char *launch_run(struct launch *launch, gdpa_kernel *kernel)
{
    if (!launch_prepare(launch)) {
        return tool_strdup(launch->gpu.why);
    }
    gdpa_args args = GDPA_ARGS_INIT;
    args.q.data = launch->q;
    args.k.data = launch->k;
    args.v.data = launch->v;
    args.o.data = launch->o;
    args.batch = 1;
    args.heads_q = 1;
    args.heads_k = 1;
    args.seqlen_q = ROWS;
    args.seqlen_k = ROWS;
    if (gdpa_launch(kernel, &args, NULL, 0, NULL) != GDPA_OK) {
        return tool_strdup(gdpa_last_error());
    }
    if (!gpu_stream_wait(&launch->gpu, NULL) ||
        !gpu_download(&launch->gpu, launch->host, launch->o, ELEMENTS * sizeof *launch->host)) {
        return tool_strdup(launch->gpu.why);
    }
    for (int i = 0; i < ELEMENTS; i++) {
        if (launch->host[i] != bf16_4096) {
            return tool_format("element %d of the result is 0x%04x and should be 0x%04x; `gdpa-jit verify` tells more",
                               i, (unsigned)launch->host[i], (unsigned)bf16_4096);
        }
    }
    return NULL;
}

static void check_launch(struct doctor *doctor, gdpa_kernel *kernel)
{
    struct launch launch;
    memset(&launch, 0, sizeof launch);
    launch.host = tool_alloc(ELEMENTS * sizeof *launch.host);
    char *trouble = NULL;
    if (!gpu_open(&launch.gpu, NULL, doctor->device)) {
        trouble = tool_strdup(launch.gpu.why);
    } else {
        trouble = launch_run(&launch, kernel);
        gpu_free(&launch.gpu, launch.q);
        gpu_free(&launch.gpu, launch.k);
        gpu_free(&launch.gpu, launch.v);
        gpu_free(&launch.gpu, launch.o);
    }
    add_check(doctor, "launch", trouble == NULL ? CHECK_OK : CHECK_FAILED, EXIT_NO_DEVICE,
              trouble != NULL ? trouble : tool_format("%d results are right", ELEMENTS));
    free(launch.host);
    gpu_close(&launch.gpu);
}

static void check_kernel(struct doctor *doctor)
{
    gdpa_ctx *off = NULL;
    if (tool_context_create(doctor->tool, GDPA_MODE_OFF, &off) != GDPA_OK) {
        add_check(doctor, "compile", CHECK_FAILED, EXIT_SOME_FAILED, tool_strdup(gdpa_last_error()));
        return;
    }
    gdpa_kernel *kernel = check_compile(doctor, off);
    if (kernel != NULL && doctor->arch != 0) {
        check_launch(doctor, kernel);
    }
    gdpa_kernel_release(kernel);
    gdpa_ctx_destroy(off);
}

/* ---------------------------------------------------------------------------------------------------------------
 * The report
 * ------------------------------------------------------------------------------------------------------------- */

/* A text whose later lines are indented as far as the first one starts. */
static void print_indented(const char *text, int column)
{
    for (; *text != 0; text++) {
        putchar(*text);
        if (*text == '\n' && text[1] != 0) {
            printf("%*s", column, "");
        }
    }
    putchar('\n');
}

static void print_text(const struct doctor *doctor, const char *system, const struct facts *build)
{
    for (size_t i = 0; i < doctor->check_count; i++) {
        const struct check *check = &doctor->checks[i];
        bool color = doctor->tool->color;
        printf("%s%-8s%s  %-8s  ", color ? state_colors[check->state] : "", state_names[check->state],
               color ? TERM_RESET : "", check->name);
        print_indented(check->detail, 20);
    }
    printf("\nsystem: %s\n", system);
    for (size_t i = 0; i < build->count; i++) {
        printf("build.%s: %s\n", build->rows[i].name, build->rows[i].value);
    }
    for (size_t i = 0; i < doctor->facts.count; i++) {
        printf("%s: ", doctor->facts.rows[i].name);
        print_indented(doctor->facts.rows[i].value, 4);
    }
}

static void print_json(const struct doctor *doctor, const char *system, const struct facts *build)
{
    json_t *report = json_report("doctor");
    json_t *checks = json_array();
    for (size_t i = 0; i < doctor->check_count; i++) {
        json_t *check = json_object();
        json_set_text(check, "name", doctor->checks[i].name);
        json_set_text(check, "state", state_names[doctor->checks[i].state]);
        json_set_text(check, "detail", doctor->checks[i].detail);
        json_array_append_new(checks, check);
    }
    json_set_bool(report, "healthy", doctor->code == EXIT_DONE);
    json_set(report, "checks", checks);
    json_set_text(report, "system", system);
    json_set(report, "build", facts_json(build));
    json_set(report, "facts", facts_json(&doctor->facts));
    json_print(stdout, report);
}

static void print_report(const struct doctor *doctor)
{
    struct utsname names;
    char *system = uname(&names) == 0 ? tool_format("%s %s %s", names.sysname, names.release, names.machine)
                                      : tool_strdup("unknown");
    struct facts build;
    facts_parse(gdpa_build_info(), &build);
    if (doctor->tool->json) {
        print_json(doctor, system, &build);
    } else {
        print_text(doctor, system, &build);
    }
    facts_deinit(&build);
    free(system);
}

static int run(struct tool *tool)
{
    if (tool->args.word_count > 0) {
        return tool_usage(tool, "doctor takes no %s", tool->args.words[0]);
    }
    struct doctor doctor;
    memset(&doctor, 0, sizeof doctor);
    doctor.tool = tool;
    char *text = NULL;
    gdpa_ctx *ctx = tool_context(tool);
    gdpa_status status = ctx == NULL ? tool->ctx_status : tool_describe(ctx, &text);
    if (status != GDPA_OK) {
        return tool_fail(tool, status);
    }
    facts_parse(text, &doctor.facts);
    free(text);
    check_library(&doctor);
    check_nvrtc(&doctor);
    check_driver(&doctor);
    check_devices(&doctor);
    check_cache(&doctor);
    check_kernel(&doctor);
    print_report(&doctor);
    for (size_t i = 0; i < doctor.check_count; i++) {
        free(doctor.checks[i].detail);
    }
    facts_deinit(&doctor.facts);
    return doctor.code;
}

const struct command command_doctor = {
    .name = "doctor",
    .summary = "check compiler, GPU and cache; print what a bug report needs",
    .synopsis = "[OPTIONS]",
    .details = "Compiles a kernel, and runs it where there is a GPU. Checks every entry of the cache and removes\n"
               "damaged ones. A GPU that is absent is no fault: everything but running kernels works without.",
    .options = options,
    .examples = {"doctor", "doctor --json > report.json", "doctor --cache-dir /var/cache/gdpajit --verbose"},
    .run = run,
};
