/*
 * Record files: lines are replaced case by case, others keep their bytes, damage is never written over, and a failing write
 * leaves the file as it was.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "tools/record.h"

static char folder[64];
static char path[96];

static int make_folder(void **state)
{
    (void)state;
    snprintf(folder, sizeof folder, "/tmp/gdpa-record-XXXXXX");
    if (mkdtemp(folder) == NULL) {
        return -1;
    }
    snprintf(path, sizeof path, "%s/gpu.jsonl", folder);
    return 0;
}

static int remove_folder(void **state)
{
    (void)state;
    unlink(path);
    return rmdir(folder); /* fails when something else was left behind */
}

static void write_file(const char *text)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    assert_int_equal(fclose(file), 0);
}

static void assert_file(const char *text)
{
    char found[4096];
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    size_t length = fread(found, 1, sizeof found - 1, file);
    fclose(file);
    found[length] = 0;
    assert_string_equal(found, text);
}

static bool put(const char *spec, int value, char *why, size_t capacity)
{
    static const char *const keys[] = {"spec", NULL};
    json_t *record = json_pack("{s:s, s:i}", "spec", spec, "value", value);
    assert_non_null(record);
    bool good = record_replace(path, keys, record, why, capacity);
    json_decref(record);
    return good;
}

static void a_missing_file_is_made(void **state)
{
    (void)state;
    char why[256];
    assert_true(put("a", 1, why, sizeof why));
    assert_file("{\"spec\":\"a\",\"value\":1}\n");
}

static void a_line_is_replaced_in_its_place_and_others_keep_their_bytes(void **state)
{
    (void)state;
    char why[256];
    write_file("{ \"spec\": \"a\",   \"value\":1}\n{\"spec\":\"b\",\"value\":2,\"more\":[1, 2]}\n{\"spec\":\"c\"}\n");
    assert_true(put("b", 7, why, sizeof why));
    assert_file("{ \"spec\": \"a\",   \"value\":1}\n{\"spec\":\"b\",\"value\":7}\n{\"spec\":\"c\"}\n");
    assert_true(put("d", 8, why, sizeof why));
    assert_file("{ \"spec\": \"a\",   \"value\":1}\n{\"spec\":\"b\",\"value\":7}\n{\"spec\":\"c\"}\n"
                "{\"spec\":\"d\",\"value\":8}\n");
}

static void doubles_of_a_case_become_one_line(void **state)
{
    (void)state;
    char why[256];
    write_file("{\"spec\":\"a\",\"value\":1}\n{\"spec\":\"b\"}\n{\"spec\":\"a\",\"value\":2}"); /* no last newline */
    assert_true(put("a", 3, why, sizeof why));
    assert_file("{\"spec\":\"a\",\"value\":3}\n{\"spec\":\"b\"}\n");
}

static void every_key_must_agree(void **state)
{
    (void)state;
    static const char *const keys[] = {"case", "impl", NULL};
    char why[256];
    write_file("{\"case\":\"x\",\"impl\":\"gdpa\",\"t\":1}\n{\"case\":\"x\",\"impl\":\"cublas\",\"t\":2}\n");
    json_t *record = json_pack("{s:s, s:s, s:f}", "case", "x", "impl", "cublas", "t", 0.1234567891);
    assert_true(record_replace(path, keys, record, why, sizeof why));
    json_decref(record);
    assert_file("{\"case\":\"x\",\"impl\":\"gdpa\",\"t\":1}\n{\"case\":\"x\",\"impl\":\"cublas\",\"t\":0.123457}\n");
}

static void damage_is_named_and_not_written_over(void **state)
{
    (void)state;
    static const char *const damaged[] = {
        "{\"spec\":\"a\"}\nnot json\n",
        "{\"spec\":\"a\"}\n[1]\n",
        "{\"spec\":\"a\"}\n{\"spec\":\"b\",\n",
        "{\"spec\":\"a\"}\n\n{\"spec\":\"b\"}\n",
        "{\"spec\":\"a\"}\n<<<<<<< ours\n{\"spec\":\"b\"}\n",
    };
    for (size_t i = 0; i < sizeof damaged / sizeof *damaged; i++) {
        char why[256];
        write_file(damaged[i]);
        assert_false(put("b", 1, why, sizeof why));
        assert_non_null(strstr(why, "gpu.jsonl, line 2, is no JSON object"));
        assert_file(damaged[i]);
    }
}

static void a_folder_that_is_not_there_is_named(void **state)
{
    (void)state;
    static const char *const keys[] = {"spec", NULL};
    char why[256];
    json_t *record = json_pack("{s:s}", "spec", "a");
    assert_false(record_replace("/no/such/folder/gpu.jsonl", keys, record, why, sizeof why));
    assert_string_equal(why, "cannot use the folder of /no/such/folder/gpu.jsonl: No such file or directory");
    json_decref(record);
}

static void a_file_that_cannot_be_replaced_stays(void **state)
{
    (void)state;
    char why[256];
    assert_int_equal(mkdir(path, 0700), 0); /* a folder in the file's place: root too fails to read or rename over it */
    assert_false(put("a", 1, why, sizeof why));
    assert_non_null(strstr(why, "cannot "));
    assert_int_equal(rmdir(path), 0);
}

static void writers_at_the_same_time_lose_no_line(void **state)
{
    (void)state;
    enum { WRITERS = 4, LINES = 20 };
    pid_t writers[WRITERS];
    for (int w = 0; w < WRITERS; w++) {
        writers[w] = fork();
        assert_true(writers[w] >= 0);
        if (writers[w] == 0) {
            bool good = true;
            for (int i = 0; i < LINES && good; i++) {
                char spec[32];
                char why[256];
                snprintf(spec, sizeof spec, "%d-%d", w, i);
                good = put(spec, i, why, sizeof why);
            }
            _exit(good ? 0 : 1);
        }
    }
    for (int w = 0; w < WRITERS; w++) {
        int status = -1;
        assert_int_equal(waitpid(writers[w], &status, 0), writers[w]);
        assert_int_equal(status, 0);
    }
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    int lines = 0;
    for (int c; (c = fgetc(file)) != EOF;) {
        lines += c == '\n' ? 1 : 0;
    }
    fclose(file);
    assert_int_equal(lines, WRITERS * LINES);
}

static void dates_are_days(void **state)
{
    (void)state;
    char date[11];
    record_date(date);
    assert_int_equal(strlen(date), 10);
    assert_true(date[4] == '-' && date[7] == '-' && strncmp(date, "20", 2) == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_missing_file_is_made, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(a_line_is_replaced_in_its_place_and_others_keep_their_bytes, make_folder,
                                        remove_folder),
        cmocka_unit_test_setup_teardown(doubles_of_a_case_become_one_line, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(every_key_must_agree, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(damage_is_named_and_not_written_over, make_folder, remove_folder),
        cmocka_unit_test(a_folder_that_is_not_there_is_named),
        cmocka_unit_test_setup_teardown(a_file_that_cannot_be_replaced_stays, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(writers_at_the_same_time_lose_no_line, make_folder, remove_folder),
        cmocka_unit_test(dates_are_days),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
