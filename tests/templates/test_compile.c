/*
 * Kernels of the default matrix through the real NVRTC, for an architecture of each kind: they compile without a warning, spill no register,
 * use no local memory, and ptxas does not take their wgmma apart.
 *
 * By default a part of the matrix for each architecture, so that every kernel of it has its turn; GDPA_TEST_WHOLE_MATRIX=1 in the environment asks
 * for all of them for every one. Skipped without NVRTC. Under the address sanitizer, which sees nothing of the compiler but makes it slow, few
 * kernels are enough.
 */
#include "tests/support/kernel_build.h" /* before cmocka.h, which has a macro called fail */

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/support/parallel.h"
#include "tools/matrix.h"

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))
#define ALLOWED_FILE "tests/templates/spills-allowed.txt"

/*
 * What is compiled. Of Hopper's own family every second kernel, and each that may spill, of the others every fourth, unless all are asked
 * for.
 */
static const struct target {
    const char *matrix, *arch;
    size_t step, first;
} targets[] = {{"default", "sm_90a", 2, 0},  {"default", "sm_80", 4, 1}, {"portable", "sm_90a", 4, 2},
               {"default", "sm_100a", 4, 3}, {"short", "sm_90a", 2, 0},  {"short", "sm_80", 4, 1},
               {"whole", "sm_90a", 4, 0},    {"pairs", "sm_90a", 4, 1}};

enum { MOST_KERNELS = 2048, MOST_ALLOWED = 64, TEXT_SIZE = 512, WHY_SIZE = 1 << 16 };

#ifdef __SANITIZE_ADDRESS__
static const size_t sparseness = 16;
#else
static const size_t sparseness = 1;
#endif

/* One kernel to compile, and what came of it. */
struct kernel {
    char text[TEXT_SIZE];
    char words[TEXT_SIZE]; /* by which the file of spills names it */
    bool compiled;
    struct resources resources;
    double milliseconds;
    char remark[TEXT_SIZE]; /* of the compiler, worth failing for; or why it did not compile */
};

/* A line of the file of spills. */
struct allowance {
    char words[TEXT_SIZE]; /* that a kernel must have */
    int32_t bytes;
    int32_t needed; /* by the worst kernel with the words */
};

static struct nvrtc *nvrtc;
static struct kernel *kernels;
static size_t kernel_count;
static struct allowance allowances[MOST_ALLOWED];
static size_t allowance_count;
static char allowed_version[16]; /* of the compiler */

/* ---- the file of spills ---- */

/* "BYTES WORD... # REASON" */
static void read_allowance(const char *line, int number)
{
    int bytes = 0, start = 0;
    size_t end = strcspn(line, "#\n");
    assert_true(allowance_count < MOST_ALLOWED);
    struct allowance *allowance = &allowances[allowance_count++];
    if (sscanf(line, "%d %n", &bytes, &start) != 1 || bytes <= 0 || line[end] != '#' ||
        end - (size_t)start >= TEXT_SIZE) {
        fail_msg(ALLOWED_FILE ":%d: a line is BYTES WORD... # REASON", number);
    }
    snprintf(allowance->words, TEXT_SIZE, "%.*s", (int)(end - (size_t)start), line + start);
    allowance->bytes = bytes;
}

/* What is allowed was found with one version of the compiler. */
static void read_allowances(void)
{
    char line[1024];
    FILE *file = fopen(TEST_SOURCE_DIR "/" ALLOWED_FILE, "r");
    assert_non_null(file);
    for (int number = 1; fgets(line, sizeof(line), file) != NULL; ++number) {
        if (line[0] != '#' && line[0] != '\n') {
            read_allowance(line, number);
        } else {
            (void)sscanf(line, "# nvrtc %15s", allowed_version);
        }
    }
    fclose(file);
}

static bool has_word(const char *text, const char *word, size_t length)
{
    for (const char *at = strstr(text, word); at != NULL; at = strstr(at + 1, word)) {
        if (at == text || at[-1] == ' ') {
            return at[length] == ' ' || at[length] == '\0';
        }
    }
    return false;
}

static bool has_words(const char *text, const char *words)
{
    char copy[TEXT_SIZE], *rest = copy;
    strcpy(copy, words);
    for (char *word; (word = strtok_r(rest, " ", &rest)) != NULL;) {
        if (!has_word(text, word, strlen(word))) {
            return false;
        }
    }
    return true;
}

/* The first line that fits the words of a kernel, or NULL. */
static struct allowance *find_allowance(const char *words)
{
    for (size_t i = 0; i < allowance_count; ++i) {
        if (has_words(words, allowances[i].words)) {
            return &allowances[i];
        }
    }
    return NULL;
}

/* ---- the list of kernels ---- */

static bool whole_matrix(void)
{
    const char *value = getenv("GDPA_TEST_WHOLE_MATRIX");
    return value != NULL && strcmp(value, "1") == 0;
}

/* The spec, the family that runs it, and the columns of the output in its tiles. */
static void words_of(const struct kernel_build *build, char words[TEXT_SIZE])
{
    int length = snprintf(words, TEXT_SIZE, "%s plan=%s columns=%d", build->text.text,
                          plan_family_name(build->plan.family), (int)plan_padded_dim(build->spec.head_dim_v));
    assert_in_range(length, 1, TEXT_SIZE - 1);
}

/* Two specs of the matrix may be one kernel. One of Hopper's own that may spill has its turn always, so that no line is kept for nothing. */
static void add_kernel(const char *text, bool turn, bool each_spilling)
{
    struct kernel_build build;
    struct sbuf why;
    sbuf_init(&why, WHY_SIZE);
    if (kernel_build_init(&build, text, &why) != GDPA_OK) {
        fail_msg("'%s': %s", text, why.text);
    }
    assert_true(kernel_count < MOST_KERNELS && build.text.length < TEXT_SIZE);
    struct kernel *kernel = &kernels[kernel_count];
    words_of(&build, kernel->words);
    strcpy(kernel->text, build.text.text);
    bool wanted = turn || (each_spilling && sparseness == 1 && find_allowance(kernel->words) != NULL);
    for (size_t i = 0; i < kernel_count && wanted; ++i) {
        wanted = strcmp(kernels[i].text, kernel->text) != 0;
    }
    kernel_count += wanted;
    kernel_build_deinit(&build);
    sbuf_deinit(&why);
}

struct walk {
    const struct target *target;
    size_t row;
};

static bool add_row(const char *text, void *user)
{
    struct walk *walk = user;
    bool turn = walk->row++ % (walk->target->step * sparseness) == walk->target->first || whole_matrix();
    add_kernel(text, turn, walk->target == &targets[0]);
    return true;
}

static void list_kernels(void)
{
    for (size_t i = 0; i < COUNT_OF(targets); ++i) {
        struct walk walk = {.target = &targets[i]};
        assert_true(matrix_specs(targets[i].matrix, targets[i].arch, add_row, &walk));
    }
}

/* ---- compile ---- */

/*
 * What the assembler remarks on wgmma has numbers from C7510 to C7520: all of them say that products wait for each other, but C7519, which says
 * that a fence is where one is needed.
 */
static const char *find_remark(const char *log)
{
    for (const char *at = strstr(log, "C75"); at != NULL; at = strstr(at + 1, "C75")) {
        long number = strtol(at + 1, NULL, 10);
        if (number >= 7510 && number <= 7520 && number != 7519) {
            return at;
        }
    }
    const char *warning = strstr(log, "warning");
    return warning != NULL && strstr(warning, "spill") == NULL ? warning : NULL;
}

static void compile_one(int64_t item, int thread, void *user)
{
    (void)thread, (void)user;
    struct kernel *kernel = &kernels[item];
    struct kernel_build build;
    struct sbuf why;
    sbuf_init(&why, WHY_SIZE);
    if (kernel_build_init(&build, kernel->text, &why) != GDPA_OK || kernel_build_make(&build, nvrtc, &why) != GDPA_OK) {
        snprintf(kernel->remark, TEXT_SIZE, "%s", why.text);
    } else {
        kernel->compiled = true;
        kernel->resources = build.result.resources;
        kernel->milliseconds = build.result.milliseconds;
        const char *remark = find_remark(build.result.output.log);
        if (remark != NULL) {
            snprintf(kernel->remark, TEXT_SIZE, "%.*s", (int)strcspn(remark, "\n"), remark);
        }
    }
    kernel_build_deinit(&build);
    sbuf_deinit(&why);
}

static void print_counts(void)
{
    double total = 0;
    int64_t spilling = 0;
    for (size_t i = 0; i < kernel_count; ++i) {
        total += kernels[i].milliseconds / 1e3;
        spilling += kernels[i].resources.spill_bytes > 0;
    }
    print_message("NVRTC %s compiled %zu kernels, %.2f s each; %lld of them spill\n", nvrtc->version, kernel_count,
                  total / (double)kernel_count, (long long)spilling);
}

static int compile_all(void **state)
{
    (void)state;
    struct sbuf why;
    sbuf_init(&why, WHY_SIZE);
    nvrtc = kernel_build_nvrtc(&why);
    read_allowances();
    kernels = calloc(MOST_KERNELS, sizeof(*kernels));
    assert_non_null(kernels);
    if (nvrtc != NULL) {
        list_kernels();
        parallel_for((int64_t)kernel_count, 0, compile_one, NULL);
        print_counts();
    } else {
        print_message("skipped: %s\n", why.text);
    }
    sbuf_deinit(&why);
    return 0;
}

static int free_all(void **state)
{
    (void)state;
    free(kernels);
    nvrtc_free(nvrtc);
    return 0;
}

/* ---- tests ---- */

static void need_nvrtc(void)
{
    if (nvrtc == NULL) {
        skip();
    }
}

static void every_kernel_compiles_without_a_remark(void **state)
{
    (void)state;
    need_nvrtc();
    size_t failed = 0;
    for (size_t i = 0; i < kernel_count; ++i) {
        if (!kernels[i].compiled || kernels[i].remark[0] != '\0') {
            print_error("%s: %s\n", kernels[i].text, kernels[i].remark);
            ++failed;
        }
    }
    assert_true(kernel_count >= matrix_count("default") / sparseness);
    assert_int_equal(failed, 0);
}

static size_t count_spilling(void)
{
    size_t failed = 0;
    for (size_t i = 0; i < kernel_count; ++i) {
        int32_t spilled = kernels[i].resources.spill_bytes;
        struct allowance *allowance = find_allowance(kernels[i].words);
        int32_t allowed = allowance != NULL ? allowance->bytes : 0;
        if (spilled > allowed) {
            print_error("%s spills %d bytes, %d are allowed\n", kernels[i].text, (int)spilled, (int)allowed);
            ++failed;
        }
        if (allowance != NULL && spilled > allowance->needed) {
            allowance->needed = spilled;
        }
    }
    return failed;
}

static void no_kernel_spills_more_than_is_allowed(void **state)
{
    (void)state;
    need_nvrtc();
    if (strcmp(nvrtc->version, allowed_version) != 0) {
        print_message("skipped: " ALLOWED_FILE " is of NVRTC %s, not %s\n", allowed_version, nvrtc->version);
        skip();
    }
    size_t failed = count_spilling();
    for (size_t i = 0; i < allowance_count && sparseness == 1; ++i) {
        const bool all_compiled = whole_matrix() || strstr(allowances[i].words, "plan=sm90") != NULL;
        if (allowances[i].needed == 0 && all_compiled) {
            print_error(ALLOWED_FILE " allows %d bytes for '%s', and no such kernel spills\n", (int)allowances[i].bytes,
                        allowances[i].words);
            ++failed;
        }
    }
    assert_int_equal(failed, 0);
}

/* A stack holds what was spilled, and nothing else. */
static void no_kernel_uses_local_memory_otherwise(void **state)
{
    (void)state;
    need_nvrtc();
    size_t failed = 0;
    for (size_t i = 0; i < kernel_count; ++i) {
        const struct resources *resources = &kernels[i].resources;
        if (resources->stack_bytes > resources->spill_bytes) {
            print_error("%s has a stack of %d bytes and spills %d\n", kernels[i].text, (int)resources->stack_bytes,
                        (int)resources->spill_bytes);
            ++failed;
        }
    }
    assert_int_equal(failed, 0);
}

static void remarks_are_found_in_logs(void **state)
{
    (void)state;
    assert_null(find_remark("ptxas info    : Used 168 registers\n"));
    assert_null(find_remark("ptxas info    : (C7519) warpgroup.arrive is injected\n"));
    assert_null(find_remark("ptxas warning : Registers are spilled to local memory\n"));
    assert_non_null(find_remark("ptxas info    : (C7510) Potential Performance Loss: wgmma\n"));
    assert_non_null(find_remark("(C7519) x\nptxas info    : (C7514) Potential Performance Loss: wgmma\n"));
    assert_non_null(find_remark("a.cu(3): warning #177-D: variable was declared but never referenced\n"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_kernel_compiles_without_a_remark),
        cmocka_unit_test(no_kernel_spills_more_than_is_allowed),
        cmocka_unit_test(no_kernel_uses_local_memory_otherwise),
        cmocka_unit_test(remarks_are_found_in_logs),
    };
    return cmocka_run_group_tests(tests, compile_all, free_all);
}
