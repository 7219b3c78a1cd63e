/*
 * Every kernel of the matrices, as it is generated today, has a passing hardware record or a reason in pending.txt; and the
 * check that says so finds what it must find.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "gen/assemble.h"
#include "gen/plan.h"
#include "gen/spec.h"
#include "tests/support/hardware_record.h"
#include "tools/matrix.h"

/* ---------------------------------------------------------------------------------------------------------------
 * The committed records
 * ------------------------------------------------------------------------------------------------------------- */

static void every_kernel_of_today_has_run_on_a_gpu_or_says_why_not(void **state)
{
    (void)state;
    static const char *const names[] = {"default", "portable", "short", "whole", "pairs", "public", NULL};
    static const char *const archs[] = {"sm_90a", NULL};
    const struct hardware_question question = {TEST_SOURCE_DIR "/tests/hardware", names, archs};
    struct hardware_answer answer;
    assert_true(hardware_check(&question, stderr, &answer));
    print_message("# %d kernels: %d with a passing record, %d pending\n", answer.kernels, answer.proven,
                  answer.pending);
    assert_true(answer.kernels >= 400);
    if (answer.faults > 0) {
        fail_msg(
            "%d faults, listed above; run gdpa-jit verify --record tests/hardware on a GPU, or name the kernels in "
            "tests/hardware/pending.txt",
            answer.faults);
    }
}

/* ---------------------------------------------------------------------------------------------------------------
 * What the check finds: folders with one thing wrong, for the few kernels of the matrix tiny
 * ------------------------------------------------------------------------------------------------------------- */

static char folder[64];
static char record_path[96], second_path[96], pending_path[96];

static int make_folder(void **state)
{
    (void)state;
    snprintf(folder, sizeof folder, "/tmp/gdpa-hardware-XXXXXX");
    if (mkdtemp(folder) == NULL) {
        return -1;
    }
    snprintf(record_path, sizeof record_path, "%s/gpu.jsonl", folder);
    snprintf(second_path, sizeof second_path, "%s/other.jsonl", folder);
    snprintf(pending_path, sizeof pending_path, "%s/pending.txt", folder);
    return 0;
}

static int remove_folder(void **state)
{
    (void)state;
    unlink(record_path);
    unlink(second_path);
    unlink(pending_path);
    return rmdir(folder);
}

static void write_pending(const char *text)
{
    FILE *file = fopen(pending_path, "w");
    assert_non_null(file);
    fputs(text, file);
    assert_int_equal(fclose(file), 0);
}

/* What is wrong with the line of one kernel. */
enum damage {
    DAMAGE_NONE,
    DAMAGE_LEFT_OUT,
    DAMAGE_FAILED,
    DAMAGE_OTHER_SOURCE,
    DAMAGE_NO_SOURCE,
    DAMAGE_FEWER_CASES,
    DAMAGE_NO_JSON,
    DAMAGE_NO_FIELD,
    DAMAGE_TWICE,
};

struct writer {
    FILE *file;
    int at; /* number of the damaged kernel */
    int index;
    enum damage damage;
};

static bool write_line(const char *words, void *user)
{
    struct writer *writer = user;
    enum damage damage = writer->index++ == writer->at ? writer->damage : DAMAGE_NONE;
    gdpa_spec parsed = GDPA_SPEC_INIT;
    gdpa_spec spec;
    struct kernel_plan plan;
    struct sbuf text, source;
    char hash[33];
    sbuf_init(&text, 4096);
    sbuf_init(&source, 1 << 24);
    assert_int_equal(spec_parse(words, &parsed, NULL), GDPA_OK);
    assert_int_equal(spec_normalise(&parsed, false, &spec, NULL), GDPA_OK);
    assert_int_equal(plan_make(&spec, &plan, NULL, NULL), GDPA_OK);
    assert_int_equal(source_generate(&spec, &plan, &source, NULL), GDPA_OK);
    spec_print(&spec, &text);
    source_hash(source.text, source.length, hash);
    if (damage == DAMAGE_OTHER_SOURCE) {
        hash[0] = hash[0] == '0' ? '1' : '0';
    }
    char quoted[40];
    snprintf(quoted, sizeof quoted, damage == DAMAGE_NO_SOURCE ? "null" : "\"%s\"", hash);
    for (int copies = damage == DAMAGE_LEFT_OUT ? 0 : damage == DAMAGE_TWICE ? 2 : 1; copies > 0; copies--) {
        fprintf(writer->file, "{\"spec\":\"%s\",\"source\":%s,\"%s\":%d,\"ok\":%s%s\n", text.text, quoted,
                damage == DAMAGE_NO_FIELD ? "shapes" : "cases", damage == DAMAGE_FEWER_CASES ? 1 : 2,
                damage == DAMAGE_FAILED ? "false" : "true", damage == DAMAGE_NO_JSON ? "" : "}");
    }
    sbuf_deinit(&text);
    sbuf_deinit(&source);
    return true;
}

static void write_record(const char *path, const char *arch, enum damage damage, int at)
{
    struct writer writer = {.file = fopen(path, "w"), .at = at, .damage = damage};
    assert_non_null(writer.file);
    assert_true(matrix_specs("tiny", arch, write_line, &writer));
    assert_int_equal(fclose(writer.file), 0);
}

static struct hardware_answer ask(const char *const *archs, char *report, size_t capacity)
{
    static const char *const names[] = {"tiny", NULL};
    const struct hardware_question question = {folder, names, archs};
    struct hardware_answer answer;
    memset(report, 0, capacity);
    FILE *file = fmemopen(report, capacity - 1, "w");
    assert_non_null(file);
    assert_true(hardware_check(&question, file, &answer));
    assert_int_equal(fclose(file), 0);
    return answer;
}

static const char *const sm_90a[] = {"sm_90a", NULL};

static void a_whole_record_has_no_faults(void **state)
{
    (void)state;
    char report[8192];
    write_record(record_path, "sm_90a", DAMAGE_NONE, 0);
    struct hardware_answer answer = ask(sm_90a, report, sizeof report);
    assert_string_equal(report, "");
    assert_int_equal(answer.faults, 0);
    assert_int_equal(answer.kernels, (int)matrix_count("tiny"));
    assert_int_equal(answer.proven, answer.kernels);
    assert_int_equal(answer.pending, 0);
}

static void each_kind_of_damage_is_a_fault_that_names_the_kernel(void **state)
{
    (void)state;
    static const char spec[] =
        "fwd head_dim=64 dtype=fp16 activation=relu causal layout_q=jagged layout_k=jagged arch=sm_90a";
    static const struct {
        enum damage damage;
        int faults;
        const char *messages[2];
    } cases[] = {
        {DAMAGE_LEFT_OUT, 1, {": no record"}},
        {DAMAGE_FAILED, 1, {": failed when it ran last (line 2)"}},
        {DAMAGE_OTHER_SOURCE, 1, {": recorded with another source (line 2): "}},
        {DAMAGE_NO_SOURCE, 1, {": recorded with another source (line 2): "}},
        {DAMAGE_FEWER_CASES, 1, {": ran 1 of 2 cases (line 2)"}},
        {DAMAGE_NO_JSON, 2, {": no record", "gpu.jsonl:2: no record of a kernel"}},
        {DAMAGE_NO_FIELD, 2, {": no record", "gpu.jsonl:2: no record of a kernel"}},
        {DAMAGE_TWICE, 1, {": has a line already"}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char report[8192];
        write_record(record_path, "sm_90a", cases[i].damage, 1);
        struct hardware_answer answer = ask(sm_90a, report, sizeof report);
        assert_int_equal(answer.faults, cases[i].faults);
        assert_int_equal(answer.proven, answer.kernels - (cases[i].damage == DAMAGE_TWICE ? 0 : 1));
        assert_non_null(strstr(report, spec));
        for (int m = 0; m < cases[i].faults; m++) {
            if (strstr(report, cases[i].messages[m]) == NULL) {
                fail_msg("damage %d: '%s' lacks '%s'", (int)cases[i].damage, report, cases[i].messages[m]);
            }
        }
    }
}

static void an_architecture_without_a_record_lacks_every_kernel(void **state)
{
    (void)state;
    char report[8192];
    struct hardware_answer answer = ask(sm_90a, report, sizeof report);
    assert_int_equal(answer.kernels, (int)matrix_count("tiny"));
    assert_int_equal(answer.faults, answer.kernels);
    assert_int_equal(answer.proven, 0);
}

static void a_record_is_complete_for_each_architecture_in_it(void **state)
{
    (void)state;
    static const char *const none[] = {NULL};
    char report[8192];
    write_record(record_path, "sm_90a", DAMAGE_NONE, 0);
    write_record(second_path, "sm_80", DAMAGE_LEFT_OUT, 3);
    struct hardware_answer answer = ask(none, report, sizeof report);
    assert_int_equal(answer.kernels, 2 * (int)matrix_count("tiny"));
    assert_int_equal(answer.faults, 1);
    assert_non_null(strstr(report, "activation=silu"));
    assert_non_null(strstr(report, "arch=sm_80: no record"));
}

static void what_is_pending_is_no_fault_as_long_as_it_is_needed(void **state)
{
    (void)state;
    char report[8192];
    write_record(record_path, "sm_90a", DAMAGE_FAILED, 1);
    write_pending("# why\n\n*activation=relu causal*: the driver is at fault\n");
    struct hardware_answer answer = ask(sm_90a, report, sizeof report);
    assert_string_equal(report, "");
    assert_int_equal(answer.pending, 1);
    assert_int_equal(answer.proven, answer.kernels - 1);

    write_record(record_path, "sm_90a", DAMAGE_NONE, 0);
    answer = ask(sm_90a, report, sizeof report);
    assert_int_equal(answer.faults, 1);
    assert_non_null(strstr(report, "pending.txt:3: *activation=relu causal*: not needed"));

    write_pending("*activation=nothing*: it names no kernel\n");
    answer = ask(sm_90a, report, sizeof report);
    assert_int_equal(answer.faults, 1);
    assert_non_null(strstr(report, "pending.txt:1: *activation=nothing*: not needed"));
}

static void what_is_pending_has_a_reason(void **state)
{
    (void)state;
    static const char *const texts[] = {"*relu*\n", "*relu*:\n", "*relu*:  \n", ": because\n"};
    char report[8192];
    write_record(record_path, "sm_90a", DAMAGE_FAILED, 1);
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        write_pending(texts[i]);
        struct hardware_answer answer = ask(sm_90a, report, sizeof report);
        assert_int_equal(answer.faults, 2);
        assert_non_null(strstr(report, "pending.txt:1: not of the form PATTERN: REASON"));
    }
}

static void lines_outside_the_matrices_are_current_or_removed(void **state)
{
    (void)state;
    static const struct {
        const char *line, *message;
    } cases[] = {
        {"{\"spec\":\"fwd head_dim=64 dtype=bf16 activation=elu arch=sm_90a\",\"source\":"
         "\"00000000000000000000000000000000\",\"cases\":1,\"ok\":true}",
         "activation=elu arch=sm_90a: recorded with another source (line 10)"},
        {"{\"spec\":\"fwd head_dim=64 dtype=bf16 activation=elu "
         "arch=sm_90a\",\"source\":null,\"cases\":0,\"ok\":false}",
         "activation=elu arch=sm_90a: failed when it ran last (line 10); run it again or remove the line"},
        {"{\"spec\":\"fwd head_dim=63 dtype=bf16 activation=elu arch=sm_90a\",\"source\":null,\"cases\":1,\"ok\":true}",
         "gpu.jsonl:10: fwd head_dim=63 dtype=bf16 activation=elu arch=sm_90a: of no kernel"},
        {"{\"spec\":\"fwd activation=elu head_dim=64 dtype=bf16 arch=sm_90a\",\"source\":null,\"cases\":1,\"ok\":true}",
         "gpu.jsonl:10: fwd activation=elu head_dim=64 dtype=bf16 arch=sm_90a: of no kernel"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char report[8192];
        write_record(record_path, "sm_90a", DAMAGE_NONE, 0);
        FILE *file = fopen(record_path, "a");
        assert_non_null(file);
        fprintf(file, "%s\n", cases[i].line);
        assert_int_equal(fclose(file), 0);
        struct hardware_answer answer = ask(sm_90a, report, sizeof report);
        assert_int_equal(answer.faults, 1);
        if (strstr(report, cases[i].message) == NULL) {
            fail_msg("case %zu: '%s'", i, report);
        }
    }
}

int main(void)
{
#define TEST_IN_FOLDER(test) cmocka_unit_test_setup_teardown(test, make_folder, remove_folder)
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_kernel_of_today_has_run_on_a_gpu_or_says_why_not),
        TEST_IN_FOLDER(a_whole_record_has_no_faults),
        TEST_IN_FOLDER(each_kind_of_damage_is_a_fault_that_names_the_kernel),
        TEST_IN_FOLDER(an_architecture_without_a_record_lacks_every_kernel),
        TEST_IN_FOLDER(a_record_is_complete_for_each_architecture_in_it),
        TEST_IN_FOLDER(what_is_pending_is_no_fault_as_long_as_it_is_needed),
        TEST_IN_FOLDER(what_is_pending_has_a_reason),
        TEST_IN_FOLDER(lines_outside_the_matrices_are_current_or_removed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
