/*
 * progress: when it shows, what it says, and that it never writes past the edge of the screen. Time is a number here.
 */
#include "tools/progress.h"

#include "tests/tools/cli_test.h"

struct screen {
    struct capture capture;
    struct progress progress;
};

static void start(struct screen *screen, enum progress_mode mode, size_t total)
{
    setenv("COLUMNS", "60", 1);
    capture_start(&screen->capture);
    progress_init(&screen->progress, screen->capture.stream, mode, total, 100.0);
    /* A memory stream is no terminal: what a terminal would get is asked for. */
}

static void nothing_is_written_when_it_is_off(void **state)
{
    (void)state;
    struct screen screen;
    start(&screen, PROGRESS_NEVER, 10);
    progress_update(&screen.progress, 5, 0, "x", 200.0);
    progress_update(&screen.progress, 10, 0, "x", 300.0);
    progress_hide(&screen.progress);
    char *text = capture_end(&screen.capture);
    assert_string_equal(text, "");
    free(text);
}

static void elsewhere_than_on_a_terminal_there_is_a_line_every_ten_seconds(void **state)
{
    (void)state;
    struct screen screen;
    start(&screen, PROGRESS_AUTO, 40);
    for (int i = 1; i <= 250; i++) {
        progress_update(&screen.progress, (size_t)i / 10, i > 150 ? 1 : 0, "fwd x", 100.0 + 0.1 * i);
    }
    char *text = capture_end(&screen.capture);
    assert_string_equal(text, "10/40  1.0/s  0:30 left  fwd x\n"
                              "20/40  1 failed  1.0/s  0:20 left  fwd x\n");
    free(text);
}

static void a_bar_appears_after_a_second_and_is_drawn_ten_times_a_second(void **state)
{
    (void)state;
    struct screen screen;
    start(&screen, PROGRESS_ALWAYS, 4);
    screen.progress.mode = PROGRESS_AUTO; /* as on a terminal */
    progress_update(&screen.progress, 1, 0, NULL, 100.5);
    progress_update(&screen.progress, 1, 0, NULL, 101.0);
    progress_update(&screen.progress, 2, 0, NULL, 101.05);
    progress_update(&screen.progress, 2, 0, NULL, 101.2);
    progress_hide(&screen.progress);
    progress_hide(&screen.progress);
    char *text = capture_end(&screen.capture);
    assert_string_equal(text, "\r[######..................] 1/4  1.0/s  0:03 left\033[K"
                              "\r[############............] 2/4  1.7/s  0:01 left\033[K"
                              "\r\033[K");
    free(text);
}

static void short_work_shows_no_bar_at_all(void **state)
{
    (void)state;
    struct screen screen;
    start(&screen, PROGRESS_ALWAYS, 4);
    screen.progress.mode = PROGRESS_AUTO;
    progress_update(&screen.progress, 2, 0, NULL, 100.4);
    progress_update(&screen.progress, 4, 0, NULL, 100.9);
    progress_hide(&screen.progress);
    char *text = capture_end(&screen.capture);
    assert_string_equal(text, "");
    free(text);
}

static void a_long_label_is_cut_at_the_edge(void **state)
{
    (void)state;
    struct screen screen;
    start(&screen, PROGRESS_ALWAYS, 100000);
    char label[300];
    memset(label, 'x', sizeof label - 1);
    label[sizeof label - 1] = 0;
    progress_update(&screen.progress, 50000, 3, label, 110.0);
    char *text = capture_end(&screen.capture);
    assert_int_equal(strlen(text), 1 + 59 + 3);
    assert_non_null(strstr(text, "[############............] 50000/100000  3 failed"));
    free(text);
}

static void hours_and_empty_work_are_printed_right(void **state)
{
    (void)state;
    struct screen screen;
    start(&screen, PROGRESS_ALWAYS, 7300);
    progress_update(&screen.progress, 100, 0, NULL, 200.0);
    char *text = capture_end(&screen.capture);
    assert_non_null(strstr(text, "2:00:00 left"));
    free(text);
    start(&screen, PROGRESS_ALWAYS, 0);
    progress_update(&screen.progress, 0, 0, NULL, 100.0);
    text = capture_end(&screen.capture);
    assert_non_null(strstr(text, "[########################] 0/0"));
    free(text);
}

static void words_of_the_option_are_modes(void **state)
{
    (void)state;
    assert_int_equal(progress_mode_from("auto"), PROGRESS_AUTO);
    assert_int_equal(progress_mode_from("always"), PROGRESS_ALWAYS);
    assert_int_equal(progress_mode_from("never"), PROGRESS_NEVER);
    double before = clock_seconds();
    assert_true(clock_seconds() >= before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_is_written_when_it_is_off),
        cmocka_unit_test(elsewhere_than_on_a_terminal_there_is_a_line_every_ten_seconds),
        cmocka_unit_test(a_bar_appears_after_a_second_and_is_drawn_ten_times_a_second),
        cmocka_unit_test(short_work_shows_no_bar_at_all),
        cmocka_unit_test(a_long_label_is_cut_at_the_edge),
        cmocka_unit_test(hours_and_empty_work_are_printed_right),
        cmocka_unit_test(words_of_the_option_are_modes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
