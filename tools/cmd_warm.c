/*
 * gdpa-jit warm: compiles kernels into the cache ahead of their use, on any machine with NVRTC, for any architecture. What
 * is in the cache already is skipped, so a run that was interrupted goes on where it stopped.
 */
#include "tools/bench_case.h"
#include "tools/commands.h"
#include "tools/compile_list.h"
#include "tools/compile_worker.h"
#include "tools/json.h"
#include "tools/matrix.h"
#include "tools/specs.h"
#include "tools/tool.h"
#include "tools/vocabulary.h"
#include "tools/warm_kept.h"

#include <stdlib.h>
#include <string.h>

enum { SLOWEST_SHOWN = 5, LISTED = 10 };

static const struct option_row options[] = {
    {.name = "file",
     .letter = 'f',
     .kind = OPTION_REPEAT,
     .values = "FILE",
     .doc = "specs, one a line, # comments; -: stdin"},
    {.name = "trace",
     .kind = OPTION_REPEAT,
     .values = "FILE",
     .doc = "what GDPAJIT_TRACE recorded; lines that are not whole are left out"},
    {.name = "preset",
     .kind = OPTION_REPEAT,
     .values = "minimal|default|activations|gdpa|hstu",
     .doc = "a named set for common uses"},
    {.name = "matrix", .kind = OPTION_REPEAT, .values = "NAME", .doc = "the kernels that `verify --matrix NAME` runs"},
    {.name = "suite", .kind = OPTION_REPEAT, .values = "NAME", .doc = "the kernels that `bench --suite NAME` measures"},
    {.name = "arch",
     .kind = OPTION_REPEAT,
     .values = "LIST",
     .doc = "for specs without arch: sm_80,sm_90a,... or all; default: this GPU"},
    {.name = "jobs",
     .letter = 'j',
     .kind = OPTION_INTEGER,
     .values = "N",
     .doc = "compiles at a time; default: GDPAJIT_JOBS, or what fits",
     .lowest = 1,
     .highest = 1024},
    {.name = "dry-run",
     .letter = 'n',
     .kind = OPTION_FLAG,
     .doc = "list the specs and whether they are cached; compile none"},
    {.name = "keep-going", .letter = 'k', .kind = OPTION_FLAG, .doc = "after a failure go on with the others"},
    {.name = "fail-on-spill", .kind = OPTION_FLAG, .doc = "a kernel that spills registers counts as failed"},
    {.name = "timeout",
     .kind = OPTION_NUMBER,
     .values = "SECONDS",
     .doc = "give up on a kernel after this time; default: never",
     .lowest = 0,
     .highest = 86400},
    {.name = "pack",
     .kind = OPTION_TEXT,
     .values = "FILE",
     .doc = "write the kernels into a pack as well; ignores GDPAJIT_PACKS"},
    {.name = "progress",
     .kind = OPTION_CHOICE,
     .values = "auto|always|never",
     .doc = "auto (default): a bar on a terminal, else a line every 10 s"},
    {.name = NULL},
};

struct warm {
    struct tool *tool;
    gdpa_ctx *ctx;
    struct spec_list list;
    struct outcome *outcomes;
    long long peak_bytes; /* of memory, of one compile */
    bool keep_going, fail_on_spill;
    double timeout, seconds;
    int jobs;
    size_t cached, compiled, failed;
    bool unusable; /* a kernel had no compiler or no device */
};

/* ---------------------------------------------------------------------------------------------------------------
 * What to compile
 * ------------------------------------------------------------------------------------------------------------- */

static void print_refused(const char *origin, const char *text, const char *reason, void *user)
{
    tool_error(user, "%s%s%s: %s", origin, *origin != 0 ? ": " : "", text, reason);
}

/* A matrix gives its kernels one by one. */
struct matrix_visit {
    struct warm *warm;
    const char *name;
    const struct spec_rules *rules;
    char *why;
    size_t why_size;
};

static bool take_matrix_spec(const char *text, void *user)
{
    const struct matrix_visit *visit = user;
    return spec_list_add(&visit->warm->list, text, visit->name, visit->rules, visit->why, visit->why_size);
}

static bool collect_matrix(struct warm *warm, const char *name, const struct spec_rules *rules, char *why,
                           size_t why_size)
{
    struct matrix_visit visit = {.warm = warm, .name = name, .rules = rules, .why = why, .why_size = why_size};
    if (matrix_count(name) == 0) {
        matrix_unknown(name, why, why_size);
        return false;
    }
    return matrix_specs(name, NULL, take_matrix_spec, &visit);
}

static bool collect_suite(struct warm *warm, const char *name, const struct spec_rules *rules, char *why,
                          size_t why_size)
{
    const struct bench_suite *suite = bench_suite_find(name);
    if (suite == NULL) {
        bench_suite_unknown(name, why, why_size);
        return false;
    }
    bool good = true;
    for (size_t i = 0; good && suite->cases[i] != NULL; i++) {
        struct bench_case one;
        char *text = NULL;
        good = bench_case_parse(suite->cases[i], &one, why, why_size);
        if (good && tool_spec_text(&one.spec, &text) != GDPA_OK) {
            snprintf(why, why_size, "%s: %s", suite->cases[i], gdpa_last_error());
            good = false;
        }
        good = good && spec_list_add(&warm->list, text, name, rules, why, why_size);
        free(text);
    }
    return good;
}

static bool collect(struct warm *warm, const struct spec_rules *rules, char *why, size_t why_size)
{
    const struct args *args = &warm->tool->args;
    const char *text = NULL;
    for (size_t i = 0; (text = args_repeat(args, "file", i)) != NULL; i++) {
        if (!spec_list_add_file(&warm->list, text, rules, why, why_size)) {
            return false;
        }
    }
    for (size_t i = 0; (text = args_repeat(args, "trace", i)) != NULL; i++) {
        if (!spec_list_add_trace(&warm->list, text, rules, why, why_size)) {
            return false;
        }
    }
    for (size_t i = 0; (text = args_repeat(args, "preset", i)) != NULL; i++) {
        if (!spec_list_add_preset(&warm->list, text, rules, why, why_size)) {
            return false;
        }
    }
    for (size_t i = 0; (text = args_repeat(args, "matrix", i)) != NULL; i++) {
        if (!collect_matrix(warm, text, rules, why, why_size)) {
            return false;
        }
    }
    for (size_t i = 0; (text = args_repeat(args, "suite", i)) != NULL; i++) {
        if (!collect_suite(warm, text, rules, why, why_size)) {
            return false;
        }
    }
    return spec_list_add_words(&warm->list, args->words, args->word_count, rules, why, why_size);
}

/* Fills warm->list; returns EXIT_DONE or what to end with. */
static int collect_specs(struct warm *warm)
{
    char why[1024];
    char *archs = tool_strdup("");
    const char *text = NULL;
    for (size_t i = 0; (text = args_repeat(&warm->tool->args, "arch", i)) != NULL; i++) {
        char *longer = tool_format("%s,%s", archs, text);
        free(archs);
        archs = longer;
    }
    int *numbers = NULL;
    size_t number_count = 0;
    bool good = *archs == 0 || arch_list_parse(archs, &numbers, &number_count, why, sizeof why);
    free(archs);
    struct spec_rules rules = {
        .archs = numbers,
        .arch_count = number_count,
        .keep_going = warm->keep_going,
        .refused = print_refused,
        .user = warm->tool,
    };
    good = good && collect(warm, &rules, why, sizeof why);
    free(numbers);
    if (!good) {
        return tool_usage(warm->tool, "%s", why);
    }
    if (warm->list.count == 0 && warm->list.refused == 0) {
        return tool_usage(warm->tool, "warm needs a spec, --file, --trace, --preset, --matrix or --suite");
    }
    if (warm->list.left_out > 0) {
        tool_note(warm->tool, "left out of the trace: %zu line%s, cut off or not a spec of this version",
                  warm->list.left_out, warm->list.left_out == 1 ? "" : "s");
    }
    warm->failed = warm->list.refused;
    return EXIT_DONE;
}

/* ---------------------------------------------------------------------------------------------------------------
 * One kernel
 * ------------------------------------------------------------------------------------------------------------- */

static const char *state_name(const struct outcome *outcome)
{
    if (outcome->status != GDPA_OK) {
        return "failed";
    }
    return outcome->hit ? "cached" : "compiled";
}

static void print_outcome(const struct warm *warm, size_t item, const struct outcome *outcome)
{
    const char *spec = outcome->spec != NULL ? outcome->spec : warm->list.texts[item];
    if (warm->tool->json) {
        json_t *report = json_report("kernel");
        json_set_text(report, "state", state_name(outcome));
        json_set_text(report, "spec", spec);
        if (outcome->status != GDPA_OK) {
            json_set_text(report, "status", gdpa_status_name(outcome->status));
            json_set_text(report, "error", outcome->error);
        }
        if (outcome->name != NULL) {
            json_set_text(report, "name", outcome->name);
            json_set_text(report, "key", outcome->key);
            json_set_text(report, "target", outcome->target);
            json_set_integer(report, "registers", outcome->registers);
            json_set_integer(report, "spill_bytes", outcome->spill_bytes);
            json_set_integer(report, "smem_dynamic", outcome->smem_dynamic);
            json_set_integer(report, "threads", outcome->threads);
            json_set_integer(report, "binary_bytes", outcome->binary_bytes);
            json_set_real(report, "generate_ms", outcome->generate_ms);
            json_set_real(report, "compile_ms", outcome->compile_ms);
        }
        json_print(stdout, report);
    } else if (outcome->status == GDPA_OK && warm->tool->verbose > 0) {
        printf("%-8s  %7.0f ms  %3d registers  %s\n", state_name(outcome), outcome->hit ? 0 : outcome->compile_ms,
               outcome->registers, spec);
    }
    if (outcome->status != GDPA_OK) {
        bool for_this_gpu = outcome->status == GDPA_E_NO_DRIVER && warm->list.specs[item].arch == 0;
        tool_error(warm->tool, "%s: %s%s", spec, outcome->error,
                   for_this_gpu ? "; --arch sm_90a, say, needs no GPU" : "");
    }
}

/* On the thread that compiled it, one at a time; the outcome's texts pass to warm->outcomes. */
static bool take_outcome(size_t item, struct outcome *outcome, void *user)
{
    struct warm *warm = user;
    if (outcome->status == GDPA_OK && outcome->spill_bytes > 0 && warm->fail_on_spill) {
        outcome->status = GDPA_E_COMPILE;
        outcome->error = tool_format("spills %d bytes of registers", outcome->spill_bytes);
    }
    if (outcome->status != GDPA_OK) {
        warm->failed++;
    } else if (outcome->hit) {
        warm->cached++;
    } else {
        warm->compiled++;
    }
    print_outcome(warm, item, outcome);
    warm->outcomes[item] = *outcome;
    warm->unusable = warm->unusable || tool_exit_code(outcome->status) == EXIT_NO_DEVICE;
    return outcome->status == GDPA_OK || warm->keep_going;
}

/* ---------------------------------------------------------------------------------------------------------------
 * All of them, and the summary
 * ------------------------------------------------------------------------------------------------------------- */

static void run_all(struct warm *warm, enum pool_state *states)
{
    struct compile_list list = {
        .tool = warm->tool,
        .texts = (const char *const *)warm->list.texts,
        .count = warm->list.count,
        .jobs = warm->jobs,
        .timeout = warm->timeout,
        .mode = progress_mode_from(args_text(&warm->tool->args, "progress", "auto")),
        .take = take_outcome,
        .user = warm,
        .failed = warm->failed, /* those that were refused */
    };
    compile_list_run(&list, states);
    warm->seconds = list.seconds;
    warm->peak_bytes = list.peak_bytes;
}

static int slower_first(const void *left, const void *right)
{
    const struct outcome *a = *(const struct outcome *const *)left;
    const struct outcome *b = *(const struct outcome *const *)right;
    return (a->compile_ms < b->compile_ms) - (a->compile_ms > b->compile_ms);
}

/* The compiles that took longest, where there is a choice. */
static void print_slowest(const struct warm *warm)
{
    const struct outcome **compiled = tool_alloc(warm->list.count * sizeof *compiled);
    size_t count = 0;
    for (size_t i = 0; i < warm->list.count; i++) {
        if (warm->outcomes[i].name != NULL && !warm->outcomes[i].hit) {
            compiled[count++] = &warm->outcomes[i];
        }
    }
    qsort(compiled, count, sizeof *compiled, slower_first);
    if (count > 1) {
        printf("slowest:\n");
    }
    for (size_t i = 0; count > 1 && i < count && i < SLOWEST_SHOWN; i++) {
        printf("  %6.0f ms  %s\n", compiled[i]->compile_ms, compiled[i]->spec);
    }
    free(compiled);
}

static size_t print_spills(const struct warm *warm)
{
    size_t count = 0;
    for (size_t i = 0; i < warm->list.count; i++) {
        const struct outcome *outcome = &warm->outcomes[i];
        if (outcome->name == NULL || outcome->spill_bytes == 0) {
            continue;
        }
        count++;
        if (!warm->tool->json && count == 1) {
            printf("spilling registers:\n");
        }
        if (!warm->tool->json && count <= LISTED) {
            printf("  %6d bytes  %s\n", outcome->spill_bytes, outcome->spec);
        }
    }
    if (!warm->tool->json && count > LISTED) {
        printf("  and %zu more\n", count - LISTED);
    }
    return count;
}

/* The specs that were not begun. */
static size_t print_left(const struct warm *warm, const enum pool_state *states)
{
    size_t left = 0;
    for (size_t i = 0; i < warm->list.count; i++) {
        if (states[i] != POOL_WAITING) {
            continue;
        }
        left++;
        if (warm->tool->json) {
            json_t *report = json_report("kernel");
            json_set_text(report, "state", "left");
            json_set_text(report, "spec", warm->list.texts[i]);
            json_print(stdout, report);
        } else if (left <= LISTED) {
            tool_error(warm->tool, "left: %s", warm->list.texts[i]);
        }
    }
    if (left > LISTED && !warm->tool->json) {
        tool_error(warm->tool, "left: and %zu more", left - LISTED);
    }
    size_t count = warm->list.count;
    if (left > 0 && tool_interrupted()) {
        tool_error(warm->tool, "interrupted: %zu of %zu kernels left; the same command goes on with them", left, count);
    } else if (left > 0) {
        tool_error(warm->tool, "stopped at the first failure: %zu of %zu kernels left; --keep-going does not stop",
                   left, count);
    }
    return left;
}

static void print_summary(const struct warm *warm, size_t left)
{
    size_t total = warm->list.count + warm->list.refused;
    if (warm->tool->json) {
        json_t *report = json_report("summary");
        json_set_integer(report, "kernels", (long long)total);
        json_set_integer(report, "cached", (long long)warm->cached);
        json_set_integer(report, "compiled", (long long)warm->compiled);
        json_set_integer(report, "failed", (long long)warm->failed);
        json_set_integer(report, "left", (long long)left);
        json_set_integer(report, "spilling", (long long)print_spills(warm));
        json_set_bool(report, "interrupted", tool_interrupted());
        json_set_integer(report, "jobs", warm->jobs);
        json_set_integer(report, "worker_peak_bytes", warm->peak_bytes);
        json_set_real(report, "seconds", warm->seconds);
        json_print(stdout, report);
        return;
    }
    if (warm->tool->quiet) {
        return;
    }
    printf("%zu kernel%s: %zu cached, %zu compiled, %zu failed, %zu left; %.1f s, %d at a time\n", total,
           total == 1 ? "" : "s", warm->cached, warm->compiled, warm->failed, left, warm->seconds, warm->jobs);
    if (warm->tool->verbose > 0) {
        printf("at most %lld MiB of memory for each compile\n", warm->peak_bytes >> 20);
    }
    print_slowest(warm);
    print_spills(warm);
}

/* Exactly the kernels of this run, cached ones too. */
static int write_pack(struct warm *warm, const char *path)
{
    const char **keys = tool_alloc(warm->list.count * sizeof *keys);
    gdpa_pack_report report = {.size = sizeof report};
    size_t count = 0;
    for (size_t i = 0; i < warm->list.count; i++) {
        if (warm->outcomes[i].key != NULL) {
            keys[count++] = warm->outcomes[i].key;
        }
    }
    gdpa_status status = gdpa_pack_write(warm->ctx, path, keys, count, 0, &report);
    free(keys);
    if (status != GDPA_OK) {
        return tool_fail(warm->tool, status);
    }
    pack_print(warm->tool, path, &report);
    return EXIT_DONE;
}

static int warm_all(struct warm *warm)
{
    int code = warm_check_cache(warm->tool, warm->ctx);
    if (code != EXIT_DONE) {
        return code;
    }
    enum pool_state *states = tool_alloc(warm->list.count * sizeof *states);
    warm->outcomes = tool_alloc(warm->list.count * sizeof *warm->outcomes);
    memset(warm->outcomes, 0, warm->list.count * sizeof *warm->outcomes);
    tool_catch_interrupts();
    run_all(warm, states);
    size_t left = print_left(warm, states);
    print_summary(warm, left);
    free(states);
    if (tool_interrupted()) {
        return EXIT_INTERRUPTED;
    }
    if (warm->unusable) {
        return EXIT_NO_DEVICE;
    }
    if (warm->failed > 0) {
        return EXIT_SOME_FAILED;
    }
    const char *pack = args_text(&warm->tool->args, "pack", NULL);
    code = warm_check_cache(warm->tool, warm->ctx);
    code = code == EXIT_DONE ? warm_check_kept(warm->tool, warm->ctx, warm->outcomes, warm->list.count) : code;
    return code == EXIT_DONE && pack != NULL ? write_pack(warm, pack) : code;
}

/* ---------------------------------------------------------------------------------------------------------------
 * --dry-run
 * ------------------------------------------------------------------------------------------------------------- */

/* One line a spec, which --file reads again. */
static void print_plan(const struct warm *warm, size_t item, const char *state)
{
    if (warm->tool->json) {
        json_t *report = json_report("kernel");
        json_set_text(report, "state", state);
        json_set_text(report, "spec", warm->list.texts[item]);
        json_print(stdout, report);
    } else {
        printf("%s  # %s\n", warm->list.texts[item], state);
    }
}

static int dry_run(struct warm *warm)
{
    gdpa_ctx *strict = NULL;
    gdpa_status status = tool_context_create(warm->tool, GDPA_MODE_STRICT, &strict);
    if (status != GDPA_OK) {
        return tool_fail(warm->tool, status);
    }
    int code = warm->failed > 0 ? EXIT_SOME_FAILED : EXIT_DONE;
    for (size_t i = 0; i < warm->list.count && code != EXIT_NO_DEVICE; i++) {
        gdpa_kernel *kernel = NULL;
        status = gdpa_kernel_get(strict, &warm->list.specs[i], &kernel);
        if (status == GDPA_E_NO_DRIVER) {
            code = tool_fail(warm->tool, status); /* without an architecture there is nothing to say */
        } else {
            /* Without a compiler an entry may be there all the same, but under a key that only the compiler tells. */
            const char *missing = status == GDPA_E_NO_COMPILER ? "unknown" : "missing";
            print_plan(warm, i, status == GDPA_OK ? "cached" : missing);
        }
        gdpa_kernel_release(kernel);
    }
    gdpa_ctx_destroy(strict);
    return code;
}

static void warm_deinit(struct warm *warm)
{
    for (size_t i = 0; warm->outcomes != NULL && i < warm->list.count; i++) {
        outcome_deinit(&warm->outcomes[i]);
    }
    free(warm->outcomes);
    spec_list_deinit(&warm->list);
    free(warm);
}

static int run(struct tool *tool)
{
    struct warm *warm = tool_alloc(sizeof *warm);
    memset(warm, 0, sizeof *warm);
    warm->tool = tool;
    warm->keep_going = args_flag(&tool->args, "keep-going");
    warm->fail_on_spill = args_flag(&tool->args, "fail-on-spill");
    warm->timeout = args_number(&tool->args, "timeout", 0);
    spec_list_init(&warm->list);
    if (args_text(&tool->args, "pack", NULL) != NULL) {
        unsetenv(
            "GDPAJIT_PACKS"); /* what is in another pack would not get into the cache, and from there into this one */
    }
    int code = collect_specs(warm);
    if (code == EXIT_DONE && args_flag(&tool->args, "dry-run")) {
        code = dry_run(warm);
    } else if (code == EXIT_DONE && warm->list.count == 0) {
        code = EXIT_SOME_FAILED; /* every spec was refused, and said so */
    } else if (code == EXIT_DONE) {
        warm->ctx = tool_context(tool);
        warm->jobs = compile_jobs(tool);
        code = warm->ctx == NULL ? tool_fail(tool, tool->ctx_status) : warm_all(warm);
    }
    warm_deinit(warm);
    return code;
}

const struct command command_warm = {
    .name = "warm",
    .summary = "compile kernels into the cache ahead of their use",
    .synopsis = "[OPTIONS] [SPEC...]",
    .details = "Specs come from words, --file, --trace, --preset, --matrix and --suite. Commas give every\n"
               "combination, and `all` every value of a choice: head_dim=64,128 activation=all. Kernels in\n"
               "the cache already are skipped. Needs NVRTC, and no GPU when the specs or --arch say for which one.",
    .options = options,
    .takes_specs = true,
    .examples = {"warm head_dim=64,128 activation=relu,silu causal=0,1 --arch sm_80,sm_90a",
                 "warm --preset default --arch all --jobs 8",
                 "warm --file specs.txt --keep-going --fail-on-spill --json"},
    .run = run,
};
