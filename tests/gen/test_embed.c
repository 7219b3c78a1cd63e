/*
 * embed: the program of the build, run on small folders: what it writes, and every fault that must fail a build.
 */
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "gen/assemble.h"
#include "tests/gen/gen_test.h"

static char folder[256];

static int make_folder(void **state)
{
    (void)state;
    const char *parent = getenv("TMPDIR");
    char path[300];
    snprintf(folder, sizeof(folder), "%s/gdpajit-embed-XXXXXX", parent != NULL && parent[0] != '\0' ? parent : "/tmp");
    if (mkdtemp(folder) == NULL) {
        return -1;
    }
    snprintf(path, sizeof(path), "%s/templates", folder);
    return mkdir(path, 0700);
}

/* Runs a shell command in the folder; its exit status. */
static int shell(const char *command)
{
    char line[1024];
    int length = snprintf(line, sizeof(line), "cd '%s' && %s", folder, command);
    assert_true(length > 0 && (size_t)length < sizeof(line));
    int status = system(line);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static int remove_folder(void **state)
{
    (void)state;
    char line[300];
    snprintf(line, sizeof(line), "rm -rf '%s'", folder);
    return system(line);
}

static void write_file(const char *name, const char *text, size_t length)
{
    char path[400];
    snprintf(path, sizeof(path), "%s/%s", folder, name);
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(text, 1, length, file), length);
    assert_int_equal(fclose(file), 0);
}

static void read_text(const char *name, struct sbuf *text)
{
    char path[400], chunk[4096];
    snprintf(path, sizeof(path), "%s/%s", folder, name);
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    sbuf_reset(text);
    for (size_t length; (length = fread(chunk, 1, sizeof(chunk), file)) > 0;) {
        sbuf_add(text, chunk, length);
    }
    fclose(file);
}

#define EMBED "'" TEST_BUILD_DIR "/embed' "

/* Runs embed on templates/a.cuh alone; what it printed is left in *messages. */
static int embed_text(const char *text, size_t length, struct sbuf *messages)
{
    write_file("templates/a.cuh", text, length);
    int status = shell("rm -f out.c && " EMBED "out.c templates/a.cuh 2> messages");
    read_text("messages", messages);
    return status;
}

static void faults_fail_the_build_with_file_and_line(void **state)
{
    (void)state;
    static const struct {
        const char *text, *message;
    } cases[] = {
        {"//@if casual\n//@endif\n",
         "templates/a.cuh:1: no template option is called 'casual'; did you mean 'causal'?"},
        {"x\n//@if causal\n", "templates/a.cuh:2: the //@if has no //@endif"},
        {"//@if bf16\n//@if causal\n//@if host\n//@endif\n//@endif\n//@endif\n",
         "templates/a.cuh:3: passages may be nested"},
        {"\n#include \"missing.cuh\"\n", "templates/a.cuh:2: there is no templates/missing.cuh"},
        {"//@if host\n#include \"missing.cuh\"\n//@endif\n", "templates/a.cuh:2: there is no templates/missing.cuh"},
        {"#include \"activation.cuh\"\n",
         "templates/a.cuh:1: there is no templates/activation/relu.cuh, which gen/activations.def names"},
        {"#include \"wgmma_keys.cuh\"\n",
         "templates/a.cuh:1: there is no templates/ptx/wgmma_n256.cuh, which gen/wgmma_widths.def names"},
        {"x\n#include \"wgmma_values.cuh\"\n", "templates/a.cuh:2: there is no templates/ptx/wgmma_n32.cuh"},
        {"#include <stdint.h>\n", "templates/a.cuh:1: system headers are for passages of //@if host alone"},
        {"//@if !host\n#include <stdint.h>\n//@endif\n", "templates/a.cuh:2: system headers"},
        {"//@if host\n//@else\n#include <stdint.h>\n//@endif\n", "templates/a.cuh:3: system headers"},
        {"a\nb\tc\n", "templates/a.cuh:2: only printable ASCII"},
        {"a\r\n", "templates/a.cuh:1: only printable ASCII"},
        {"\xc3\xa9\n", "templates/a.cuh:1: only printable ASCII"},
        {"a", "templates/a.cuh:1: the file must end in a newline"},
        {"", "templates/a.cuh:1: the file must end in a newline"},
    };
    struct sbuf messages;
    sbuf_init(&messages, 1 << 16);
    for (size_t i = 0; i < COUNT_OF(cases); ++i) {
        assert_int_equal(embed_text(cases[i].text, strlen(cases[i].text), &messages), 1);
        assert_contains(messages.text, cases[i].message);
        assert_int_equal(shell("test -e out.c"), 1);
    }
    sbuf_deinit(&messages);
}

static void all_faults_are_told_at_once(void **state)
{
    (void)state;
    static const char text[] = "#include \"one.cuh\"\n#include <two.h>\n//@endif\n";
    struct sbuf messages;
    sbuf_init(&messages, 1 << 16);
    assert_int_equal(embed_text(text, strlen(text), &messages), 1);
    assert_contains(messages.text, "a.cuh:1: there is no templates/one.cuh");
    assert_contains(messages.text, "a.cuh:2: system headers");
    assert_contains(messages.text, "a.cuh:3: there is no open //@if");
    assert_contains(messages.text, "embed: 3 faults in the templates");
    sbuf_deinit(&messages);
}

static void wrong_calls_are_told_apart_from_faults(void **state)
{
    (void)state;
    write_file("templates/a.cuh", "a\n", 2);
    write_file("loose.txt", "a\n", 2);
    static const char *const commands[] = {
        EMBED "2> messages",
        EMBED "out.c 2> messages",
        EMBED "out.c templates/none.cuh 2> messages",
        EMBED "out.c loose.txt 2> messages",
        EMBED "no/such/folder/out.c templates/a.cuh 2> messages",
    };
    for (size_t i = 0; i < COUNT_OF(commands); ++i) {
        assert_int_equal(shell(commands[i]), 2);
        assert_int_equal(shell("test -s messages"), 0);
    }
}

/* The text that C sees must be the text of the file: a program prints it again. */
static void what_is_written_is_c_with_the_same_bytes(void **state)
{
    (void)state;
    static const char text[] = "//@if host\n#include <a.h>\n//@endif\n\"quoted\" \\n \\ 'x' ?\?/ ?\?= %d \n\n\nlast\n";
    static const char program[] = "#include <stdio.h>\n#include \"gen/template.h\"\nint main(void)\n{\n"
                                  "    const struct template_file *file = &embedded_templates.files[0];\n"
                                  "    return fwrite(file->text, 1, file->length, stdout) != file->length;\n}\n";
    struct sbuf messages;
    sbuf_init(&messages, 1 << 16);
    assert_int_equal(embed_text(text, strlen(text), &messages), 0);
    write_file("print.c", program, strlen(program));
    assert_int_equal(shell("${CC:-cc} -std=c11 -Wall -Wextra -Wpedantic -Werror -I'" TEST_SOURCE_DIR
                           "' -o print out.c print.c && ./print > again && cmp again templates/a.cuh"),
                     0);
    sbuf_deinit(&messages);
}

/* The id that embed writes for a command's files. */
static void id_of(const char *command, char id[33])
{
    struct sbuf text;
    sbuf_init(&text, 1 << 20);
    assert_int_equal(shell(command), 0);
    read_text("out.c", &text);
    const char *at = strstr(text.text, "embedded_templates = {files, ");
    assert_non_null(at);
    assert_int_equal(sscanf(strchr(at, '"'), "\"%32[0-9a-f]\"", id), 1);
    assert_int_equal(strlen(id), 32);
    sbuf_deinit(&text);
}

static void the_version_follows_every_byte_of_every_file(void **state)
{
    (void)state;
    char first[33], second[33];
    write_file("templates/a.cuh", "a\n", 2);
    write_file("templates/b.cuh", "b\n", 2);
    write_file("table.def", "t\n", 2);
    id_of(EMBED "out.c templates/a.cuh templates/b.cuh table.def", first);
    id_of(EMBED "out.c table.def templates/b.cuh templates/a.cuh", second); /* the order of the call does not count */
    assert_string_equal(first, second);
    write_file("table.def", "u\n", 2);
    id_of(EMBED "out.c templates/a.cuh templates/b.cuh table.def", second);
    assert_string_not_equal(first, second);
    id_of(EMBED "out.c templates/a.cuh templates/b.cuh", second);
    assert_string_not_equal(first, second);
    write_file("templates/b.cuh", "c\n", 2);
    write_file("table.def", "t\n", 2);
    id_of(EMBED "out.c templates/a.cuh templates/b.cuh table.def", second);
    assert_string_not_equal(first, second);
}

static void the_version_of_this_build_is_a_hash(void **state)
{
    (void)state;
    assert_int_equal(strlen(generator_id()), 32);
    assert_int_equal(strspn(generator_id(), "0123456789abcdef"), 32);
    assert_ptr_equal(generator_id(), embedded_templates.id);
}

static void the_embedded_files_are_ordered_and_end_in_newlines(void **state)
{
    (void)state;
    assert_true(embedded_templates.count > 0);
    for (size_t i = 0; i < embedded_templates.count; ++i) {
        const struct template_file *file = &embedded_templates.files[i];
        assert_int_equal(strlen(file->text), file->length);
        assert_int_equal(file->text[file->length - 1], '\n');
        assert_true(i == 0 || strcmp(file[-1].path, file->path) < 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(faults_fail_the_build_with_file_and_line),
        cmocka_unit_test(all_faults_are_told_at_once),
        cmocka_unit_test(wrong_calls_are_told_apart_from_faults),
        cmocka_unit_test(what_is_written_is_c_with_the_same_bytes),
        cmocka_unit_test(the_version_follows_every_byte_of_every_file),
        cmocka_unit_test(the_version_of_this_build_is_a_hash),
        cmocka_unit_test(the_embedded_files_are_ordered_and_end_in_newlines),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
