/*
 * gdpa-jit verify: runs kernels on the GPU and holds everything they leave behind against the float64 reference. What is
 * checked stands in verify_run.h, how a kernel that never ends is survived in verify_worker.h.
 */
#include "tools/commands.h"
#include "tools/compile_ahead.h"
#include "tools/compile_worker.h"
#include "tools/json.h"
#include "tools/matrix.h"
#include "tools/progress.h"
#include "tools/record.h"
#include "tools/specs.h"
#include "tools/term.h"
#include "tools/tool.h"
#include "tools/verify_gpu.h"
#include "tools/verify_worker.h"
#include "tools/vocabulary.h"

#include "tests/support/random.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static const struct option_row options[] = {
    {.name = "matrix",
     .letter = 'm',
     .kind = OPTION_TEXT,
     .values = "NAME",
     .doc = "default, portable, short, whole, pairs, backward, small, tiny, public"},
    {.name = "arch", .kind = OPTION_TEXT, .values = "ARCH", .doc = "for specs without arch; default: this GPU's"},
    {.name = "filter", .kind = OPTION_REPEAT, .values = "TEXT", .doc = "only kernels whose spec holds every TEXT"},
    {.name = "shapes", .kind = OPTION_TEXT, .values = "LIST", .doc = "run these shapes, not those of the matrix"},
    {.name = "list", .kind = OPTION_FLAG, .doc = "show kernels and their shapes; run nothing, need no GPU"},
    {.name = "record", .kind = OPTION_TEXT, .values = "FILE", .doc = "keep a line a kernel; in a folder: <gpu>.jsonl"},
    {.name = "seed",
     .kind = OPTION_INTEGER,
     .values = "N",
     .doc = "of the data; default: another one each time",
     .lowest = 0,
     .highest = 9223372036854775807L},
    {.name = "timeout",
     .kind = OPTION_NUMBER,
     .values = "SECONDS",
     .doc = "a case may take; default 120",
     .lowest = 1,
     .highest = 86400},
    {.name = "device",
     .kind = OPTION_INTEGER,
     .values = "N",
     .doc = "number of the GPU; default 0",
     .lowest = 0,
     .highest = 1023},
    {.name = "threads",
     .letter = 'j',
     .kind = OPTION_INTEGER,
     .values = "N",
     .doc = "of the reference; default: one a processor",
     .lowest = 1,
     .highest = 256},
    {.name = "jobs",
     .kind = OPTION_INTEGER,
     .values = "N",
     .doc = "compiles at a time, before any kernel runs; 1: none ahead",
     .lowest = 1,
     .highest = 1024},
    {.name = "in-process",
     .kind = OPTION_FLAG,
     .doc = "no child processes: for debuggers and sanitizers; a hang is not cured"},
    {.name = "progress",
     .kind = OPTION_CHOICE,
     .values = "auto|always|never",
     .doc = "auto (default): a bar on a terminal, else a line every 10 s"},
    {.name = NULL},
};

struct verify {
    struct tool *tool;
    char **texts; /* of the kernels */
    struct worker_kernel *kernels;
    size_t count, capacity;
    const char *matrix; /* NULL: specs of the command line */
    size_t matrix_index;
    unsigned long long shapes; /* of --shapes; 0: the matrix's own */
    uint64_t seed;
    struct progress progress;
    size_t done, failed;
    long long cases;
    double worst_ratio;
    char gpu[128];
    bool record_failed;
};

/* ---------------------------------------------------------------------------------------------------------------
 * What to run
 * ------------------------------------------------------------------------------------------------------------- */

static bool filtered_out(const struct verify *verify, const char *text)
{
    const char *part;
    for (size_t i = 0; (part = args_repeat(&verify->tool->args, "filter", i)) != NULL; i++) {
        if (strstr(text, part) == NULL) {
            return true;
        }
    }
    return false;
}

static void kernel_add(struct verify *verify, const char *text, unsigned long long shape_bits)
{
    if (filtered_out(verify, text)) {
        return;
    }
    if (verify->count == verify->capacity) {
        verify->capacity = 2 * verify->capacity + 64;
        verify->texts = tool_realloc(verify->texts, verify->capacity * sizeof *verify->texts);
        verify->kernels = tool_realloc(verify->kernels, verify->capacity * sizeof *verify->kernels);
    }
    verify->texts[verify->count] = tool_strdup(text);
    verify->kernels[verify->count].spec = verify->texts[verify->count];
    verify->kernels[verify->count].shapes = verify->shapes != 0 ? verify->shapes : shape_bits;
    verify->count++;
}

static bool take_matrix_spec(const char *text, void *user)
{
    struct verify *verify = user;
    kernel_add(verify, text, matrix_shapes(verify->matrix, verify->matrix_index++));
    return true;
}

static bool take_words(struct verify *verify, char *why, size_t capacity)
{
    const char *arch = args_text(&verify->tool->args, "arch", NULL);
    int *numbers = NULL;
    size_t number_count = 0;
    if (arch != NULL && !arch_list_parse(arch, &numbers, &number_count, why, capacity)) {
        return false;
    }
    struct spec_rules rules = {.archs = numbers, .arch_count = number_count};
    struct spec_list list;
    spec_list_init(&list);
    const struct args *args = &verify->tool->args;
    bool good = spec_list_add_words(&list, args->words, args->word_count, &rules, why, capacity);
    for (size_t i = 0; good && i < list.count; i++) {
        gdpa_spec spec = GDPA_SPEC_INIT;
        (void)gdpa_spec_parse(list.texts[i], &spec); /* which the list did, too */
        kernel_add(verify, list.texts[i], shapes_general(spec.family));
    }
    spec_list_deinit(&list);
    free(numbers);
    return good;
}

static bool collect(struct verify *verify, char *why, size_t capacity)
{
    const struct args *args = &verify->tool->args;
    const char *names = args_text(args, "shapes", NULL);
    const char *arch = args_text(args, "arch", NULL);
    int *numbers = NULL;
    size_t number_count = 0;
    if (arch != NULL) {
        bool good = arch_list_parse(arch, &numbers, &number_count, why, capacity);
        free(numbers);
        if (good && number_count != 1) {
            snprintf(why, capacity, "--arch %s: a GPU runs kernels of one architecture", arch);
        }
        if (!good || number_count != 1) {
            return false;
        }
    }
    if (names != NULL && !shapes_parse(names, &verify->shapes, why, capacity)) {
        return false;
    }
    verify->matrix = args_text(args, "matrix", args->word_count > 0 ? NULL : "default");
    if (verify->matrix != NULL) {
        if (matrix_count(verify->matrix) == 0) {
            matrix_unknown(verify->matrix, why, capacity);
            return false;
        }
        matrix_specs(verify->matrix, arch, take_matrix_spec, verify);
    }
    if (!take_words(verify, why, capacity)) {
        return false;
    }
    if (verify->count == 0) {
        snprintf(why, capacity, "no kernel is left after --filter");
    }
    return verify->count > 0;
}

static void shape_names(unsigned long long bits, char *text, size_t capacity)
{
    size_t length = 0;
    text[0] = 0;
    for (int row = 0; shapes[row].name != NULL; row++) {
        if ((bits >> row & 1) != 0 && length < capacity) {
            length +=
                (size_t)snprintf(text + length, capacity - length, "%s%s", length > 0 ? "," : "", shapes[row].name);
        }
    }
}

static int bit_count(unsigned long long bits)
{
    int count = 0;
    for (; bits != 0; bits &= bits - 1) {
        count++;
    }
    return count;
}

static void list_kernels(const struct verify *verify)
{
    long long cases = 0;
    for (size_t i = 0; i < verify->count; i++) {
        char names[1024];
        shape_names(verify->kernels[i].shapes, names, sizeof names);
        cases += bit_count(verify->kernels[i].shapes);
        if (verify->tool->json) {
            json_t *report = json_report("verify_kernel");
            json_set_text(report, "spec", verify->texts[i]);
            json_set_integer(report, "cases", bit_count(verify->kernels[i].shapes));
            json_set_text(report, "shapes", names);
            json_print(stdout, report);
        } else if (verify->tool->verbose > 0) {
            printf("%s\n    %s\n", verify->texts[i], names);
        } else {
            printf("%3d cases  %s\n", bit_count(verify->kernels[i].shapes), verify->texts[i]);
        }
    }
    if (!verify->tool->json && verify->tool->verbose > 0) {
        printf("shapes:\n");
        for (int row = 0; shapes[row].name != NULL; row++) {
            printf("  %-26s %s\n", shapes[row].name, shapes[row].doc);
        }
    }
    tool_note(verify->tool, "%zu kernels, %lld cases", verify->count, cases);
}

/* ---------------------------------------------------------------------------------------------------------------
 * Results
 * ------------------------------------------------------------------------------------------------------------- */

static void set_facts(json_t *object, const struct kernel_result *result)
{
    json_set_integer(object, "cases", result->cases);
    json_set_real(object, "max_err", result->max_error);
    json_set_real(object, "bound", result->bound);
    json_set_real(object, "frobenius", result->frobenius);
    json_set_bool(object, "ok", result->good);
    json_set_integer(object, "regs", result->facts.registers);
    json_set_integer(object, "spill_bytes", result->facts.spill_bytes);
    json_set_integer(object, "smem", result->facts.smem_bytes);
    json_set_text(object, "gpu", result->gpu);
    json_set_text(object, "driver", result->driver);
    json_set_text(object, "nvrtc", result->facts.nvrtc[0] != 0 ? result->facts.nvrtc : NULL);
}

/* "fwd" or "bwd": the first word of a canonical text. */
static void set_pass(json_t *object, const char *spec)
{
    char pass[8];
    snprintf(pass, sizeof pass, "%.*s", (int)strcspn(spec, " ") < 7 ? (int)strcspn(spec, " ") : 7, spec);
    json_set_text(object, "pass", pass);
}

static void keep_record(struct verify *verify, size_t kernel, const struct kernel_result *result)
{
    const char *path = args_text(&verify->tool->args, "record", NULL);
    if (path == NULL || verify->record_failed) {
        return;
    }
    if (result->facts.spec[0] == 0) {
        tool_error(verify->tool, "not recorded: this GPU has no kernel %s", verify->texts[kernel]);
        return;
    }
    struct stat status;
    bool folder = stat(path, &status) == 0 && S_ISDIR(status.st_mode);
    char *file = folder ? tool_format("%s/%s.jsonl", path, result->slug) : tool_strdup(path);
    json_t *record = json_object();
    json_set_text(record, "spec", result->facts.spec);
    set_pass(record, result->facts.spec);
    json_set_text(record, "source", result->facts.source[0] != 0 ? result->facts.source : NULL);
    set_facts(record, result);
    char date[11];
    record_date(date);
    json_set_text(record, "date", date);
    char why[512];
    static const char *const keys[] = {"spec", NULL};
    if (!record_replace(file, keys, record, why, sizeof why)) {
        tool_error(verify->tool, "%s", why);
        verify->record_failed = true;
    }
    json_decref(record);
    free(file);
}

/* Elements that the reference allows more than the rule does, or would have: a check with many of them shows little. */
static void set_kinks(json_t *report, long long elements, long long at_kinks, long long excused)
{
    json_set_integer(report, "elements", elements);
    json_set_integer(report, "at_kinks", at_kinks);
    json_set_integer(report, "excused", excused);
}

static void print_result(struct verify *verify, size_t kernel, const struct kernel_result *result)
{
    struct tool *tool = verify->tool;
    const char *spec = result->facts.spec[0] != 0 ? result->facts.spec : verify->texts[kernel];
    if (tool->json) {
        json_t *report = json_report("verify");
        json_set_text(report, "spec", spec);
        set_pass(report, spec);
        json_set_text(report, "source", result->facts.source);
        set_facts(report, result);
        json_set_integer(report, "sampled", result->sampled);
        json_set_integer(report, "failed", result->failed);
        set_kinks(report, result->elements, result->at_kinks, result->excused);
        json_set_real(report, "seconds", result->seconds);
        json_set_text(report, "error", result->good ? NULL : result->message);
        json_print(stdout, report);
        return;
    }
    if (!tool->quiet || !result->good) {
        const char *color = !tool->color ? "" : result->good ? TERM_GREEN : TERM_RED;
        printf("%s%-6s%s %2d cases  error/bound %4.2f  frobenius %.1e  %5.1f s  %s\n", color,
               result->good ? "ok" : "FAILED", tool->color ? TERM_RESET : "", result->cases, result->ratio,
               result->frobenius, result->seconds, spec);
    }
    if (result->excused > 0 && !tool->quiet) {
        printf("       %lld of %lld elements excused: a score is at a kink of the activation, or f or f' next to 0\n",
               result->excused, result->elements);
    }
    if (!result->good) {
        printf("       %s\n", result->message);
    }
    fflush(stdout);
}

static void on_begun(size_t kernel, const char *shape, void *user)
{
    struct verify *verify = user;
    char label[512];
    snprintf(label, sizeof label, "%s: %s", shape[0] != 0 ? shape : "compile", verify->texts[kernel]);
    pthread_mutex_lock(&verify->tool->stderr_lock);
    progress_update(&verify->progress, verify->done, verify->failed, label, clock_seconds());
    pthread_mutex_unlock(&verify->tool->stderr_lock);
}

/* Cases are told one by one when that is asked for, and where each of them takes long. */
static void on_judged(size_t kernel, const char *shape, const struct case_result *result, double seconds, void *user)
{
    struct verify *verify = user;
    bool long_cases = verify->matrix != NULL && strcmp(verify->matrix, "public") == 0;
    if (verify->tool->quiet || (verify->tool->verbose == 0 && !long_cases)) {
        return;
    }
    pthread_mutex_lock(&verify->tool->stderr_lock);
    progress_hide(&verify->progress);
    pthread_mutex_unlock(&verify->tool->stderr_lock);
    if (verify->tool->json) {
        json_t *report = json_report("verify_case");
        json_set_text(report, "spec", verify->texts[kernel]);
        json_set_text(report, "shape", shape);
        json_set_bool(report, "ok", result->good);
        json_set_bool(report, "sampled", result->sampled);
        json_set_real(report, "max_err", result->max_error);
        json_set_real(report, "bound", result->bound);
        json_set_real(report, "frobenius", result->frobenius);
        set_kinks(report, result->elements, result->at_kinks, result->excused);
        json_set_real(report, "seconds", seconds);
        json_set_text(report, "error", result->good ? NULL : result->message);
        json_print(stdout, report);
        return;
    }
    printf("  %-6s %-26s error/bound %4.2f  frobenius %.1e  %5.1f s%s\n", result->good ? "ok" : "wrong", shape,
           result->ratio, result->frobenius, seconds, result->sampled ? "  in samples" : "");
    fflush(stdout);
}

static bool on_done(size_t kernel, const struct kernel_result *result, void *user)
{
    struct verify *verify = user;
    verify->done++;
    verify->failed += result->good ? 0 : 1;
    verify->cases += result->cases;
    verify->worst_ratio = result->ratio > verify->worst_ratio ? result->ratio : verify->worst_ratio;
    if (result->gpu[0] != 0) {
        snprintf(verify->gpu, sizeof verify->gpu, "%s", result->gpu);
    }
    pthread_mutex_lock(&verify->tool->stderr_lock);
    progress_hide(&verify->progress);
    pthread_mutex_unlock(&verify->tool->stderr_lock);
    print_result(verify, kernel, result);
    keep_record(verify, kernel, result);
    return !verify->record_failed;
}

static void print_summary(const struct verify *verify, double seconds)
{
    if (verify->tool->json) {
        json_t *report = json_report("summary");
        json_set_text(report, "gpu", verify->gpu);
        json_set_integer(report, "kernels", (long long)verify->count);
        json_set_integer(report, "done", (long long)verify->done);
        json_set_integer(report, "failed", (long long)verify->failed);
        json_set_integer(report, "cases", verify->cases);
        json_set_real(report, "worst_ratio", verify->worst_ratio);
        json_set_integer(report, "seed", (long long)verify->seed);
        json_set_real(report, "seconds", seconds);
        json_print(stdout, report);
        return;
    }
    tool_note(verify->tool,
              "%zu of %zu kernels, %lld cases on %s in %.0f s: %zu failed, worst error/bound %.2f, --seed %llu",
              verify->done, verify->count, verify->cases, verify->gpu, seconds, verify->failed, verify->worst_ratio,
              (unsigned long long)verify->seed);
}

/* ---------------------------------------------------------------------------------------------------------------
 * The command
 * ------------------------------------------------------------------------------------------------------------- */

static int exit_code(const struct verify *verify, enum worker_end end, const char *why)
{
    switch (end) {
    case WORKER_NO_DEVICE:
        tool_error(verify->tool, "%s", why);
        return verify->done > 0 ? EXIT_SOME_FAILED : EXIT_NO_DEVICE;
    case WORKER_NO_PROCESS:
        tool_error(verify->tool, "%s", why);
        return EXIT_SOME_FAILED;
    case WORKER_INTERRUPTED:
        return EXIT_INTERRUPTED;
    default:
        return verify->failed > 0 || verify->record_failed ? EXIT_SOME_FAILED : EXIT_DONE;
    }
}

static int run_kernels(struct verify *verify)
{
    const struct args *args = &verify->tool->args;
    struct verify_gpu gpu;
    verify_gpu_init(&gpu, verify->tool, (int)args_integer(args, "device", 0));
    verify->seed = random_fresh_seed();
    if (args_count(args, "seed") > 0) {
        verify->seed = (uint64_t)args_integer(args, "seed", 0);
    }
    struct worker_plan plan = {
        .device = &gpu.device,
        .kernels = verify->kernels,
        .count = verify->count,
        .options = {.threads = (int)args_integer(args, "threads", 0), .seed = verify->seed},
        .timeout = args_number(args, "timeout", 120),
        .in_process = args_flag(args, "in-process"),
        .begun = on_begun,
        .judged = on_judged,
        .done = on_done,
        .interrupted = tool_interrupted,
        .user = verify,
    };
    tool_note(verify->tool, "%zu kernel%s, --seed %llu", verify->count, verify->count == 1 ? "" : "s",
              (unsigned long long)verify->seed);
    tool_catch_interrupts();
    enum progress_mode mode = progress_mode_from(args_text(args, "progress", "auto"));
    if (!plan.in_process) {
        compile_ahead(verify->tool, (const char *const *)verify->texts, verify->count, compile_jobs(verify->tool),
                      plan.timeout, mode);
    }
    char why[1024] = "";
    double start = clock_seconds();
    progress_init(&verify->progress, stderr, verify->tool->quiet ? PROGRESS_NEVER : mode, verify->count, start);
    verify->tool->progress = &verify->progress;
    enum worker_end end = workers_run(&plan, why, sizeof why);
    progress_hide(&verify->progress);
    verify->tool->progress = NULL;
    if (verify->done > 0) {
        print_summary(verify, clock_seconds() - start);
    }
    verify_gpu_deinit(&gpu);
    return exit_code(verify, end, why);
}

static int run(struct tool *tool)
{
    struct verify verify = {.tool = tool};
    char why[1024] = "";
    int code = EXIT_DONE;
    if (!collect(&verify, why, sizeof why)) {
        code = tool_usage(tool, "%s", why);
    } else if (args_flag(&tool->args, "list")) {
        list_kernels(&verify);
    } else {
        code = run_kernels(&verify);
    }
    for (size_t i = 0; i < verify.count; i++) {
        free(verify.texts[i]);
    }
    free(verify.texts);
    free(verify.kernels);
    return code;
}

const struct command command_verify = {
    .name = "verify",
    .summary = "run kernels on the GPU and check all that they write",
    .synopsis = "[OPTIONS] [SPEC...]",
    .details =
        "Each kernel runs on random data of several shapes, with guards around every tensor and NaN wherever\n"
        "nothing may be read. The result is held against a float64 reference: its largest error may be twice\n"
        "(of gradients three times) that of the same formulas in the input type, plus one unit in the last\n"
        "place. A score that fp32 cannot tell from a kink of relu, leaky_relu, elu or hardswish allows its\n"
        "gradients both slopes, and where f or f' is nearly 0 it may be off by its bound; how many made use of\n"
        "that is told, and is few. SPEC, --shapes and --seed repeat what a report says. Without SPEC and --matrix\n"
        "the matrix `default` is run. A kernel that hangs or crashes is reported and the others go on.\n"
        "--verbose tells every case; those of `public`, which has gigabytes each, are told anyway.",
    .options = options,
    .takes_specs = true,
    .examples = {"verify --matrix default --record tests/hardware", "verify head_dim=128 activation=silu causal=0,1",
                 "verify --matrix small --filter jagged --seed 7 --json"},
    .run = run,
};
