/*
 * See sass.h.
 */
#include "tests/support/sass.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/support/runtime_fixture.h"

enum { PATH_SIZE = 4096, LABEL_SIZE = 64 };

static bool is_program(const char *path)
{
    return access(path, X_OK) == 0;
}

static bool find_on_path(char path[PATH_SIZE])
{
    const char *folders = getenv("PATH");
    while (folders != NULL && *folders != '\0') {
        size_t length = strcspn(folders, ":");
        snprintf(path, PATH_SIZE, "%.*s/nvdisasm", (int)length, folders);
        if (is_program(path)) {
            return true;
        }
        folders += length;
        folders += *folders == ':';
    }
    return false;
}

const char *sass_disassembler(void)
{
    static char path[PATH_SIZE];
    const char *home = getenv("CUDA_HOME");
    if (find_on_path(path)) {
        return path;
    }
    snprintf(path, sizeof(path), "%s/bin/nvdisasm", home != NULL ? home : "/usr/local/cuda");
    if (is_program(path)) {
        return path;
    }
    snprintf(path, sizeof(path), "%s", TEST_SOURCE_DIR "/.deps/nvidia-cuda-nvdisasm/nvdisasm");
    return is_program(path) ? path : NULL;
}

/* ---- listing ---- */

static char *read_all(FILE *file)
{
    size_t length = 0, capacity = 1 << 16;
    char *text = malloc(capacity);
    assert_non_null(text);
    for (size_t got; (got = fread(text + length, 1, capacity - length - 1, file)) > 0;) {
        length += got;
        if (capacity - length < 2) {
            capacity *= 2;
            char *larger = realloc(text, capacity);
            if (larger == NULL) {
                free(text);
                fail_msg("no memory for a listing");
            }
            text = larger;
        }
    }
    text[length] = '\0';
    return text;
}

static char *list(const void *cubin, size_t size)
{
    char *folder = scratch_make();
    char path[PATH_SIZE], command[3 * PATH_SIZE];
    snprintf(path, sizeof(path), "%s/kernel.cubin", folder);
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(cubin, 1, size, file), size);
    assert_int_equal(fclose(file), 0);
    snprintf(command, sizeof(command), "'%s' -c '%s' 2>&1", sass_disassembler(), path);
    FILE *pipe = popen(command, "r"); // NOLINT(cert-env33-c): our own file and program
    assert_non_null(pipe);
    char *text = read_all(pipe);
    if (pclose(pipe) != 0) {
        fail_msg("%s: %.400s", command, text);
    }
    scratch_remove(folder);
    return text;
}

/* ---- instructions and loops ---- */

/* A name and the instruction it stands before. */
struct label {
    const char *name;
    size_t length, index;
};

static const char *behind_predicate(const char *text)
{
    if (text[0] == '@') {
        text += strcspn(text, " ");
        text += strspn(text, " ");
    }
    return text;
}

/* "        /<*>0a10<*>/                   @P0 BRA `(.L_x_1) ;": the text, ended at the semicolon; NULL for other lines. */
static const char *instruction_in(char *line)
{
    char *at = line + strspn(line, " \t");
    if (strncmp(at, "/*", 2) != 0 || strspn(at + 2, "0123456789abcdef") < 4) {
        return NULL;
    }
    at = strstr(at, "*/");
    char *end = at != NULL ? strchr(at, ';') : NULL;
    if (end == NULL) {
        return NULL;
    }
    *end = '\0';
    at += 2;
    return at + strspn(at, " \t");
}

/* ".L_x_12:" at the beginning of a line. */
static bool label_in(const char *line, struct label *label)
{
    size_t length = strcspn(line, ":");
    if (line[0] != '.' || line[length] != ':' || line[length + 1] != '\0' || length >= LABEL_SIZE) {
        return false;
    }
    label->name = line;
    label->length = length;
    return true;
}

static void add_loop(struct sass *sass, size_t index, const struct label *labels, size_t label_count)
{
    const char *opcode = sass->instructions[index].opcode;
    const char *target = strstr(opcode, "`(");
    if (!sass_is(&sass->instructions[index], "BRA") || target == NULL) {
        return;
    }
    target += 2;
    for (size_t i = 0; i < label_count; ++i) {
        bool same = strncmp(target, labels[i].name, labels[i].length) == 0 && target[labels[i].length] == ')';
        if (same && labels[i].index <= index) {
            sass->loops[sass->loop_count++] = (struct sass_loop){labels[i].index, index};
        }
    }
}

void sass_read(const void *cubin, size_t size, struct sass *sass)
{
    sass_parse(list(cubin, size), sass);
}

void sass_parse(char *listing, struct sass *sass)
{
    size_t lines = 1, label_count = 0;
    for (const char *at = listing; *at != '\0'; ++at) {
        lines += *at == '\n';
    }
    *sass = (struct sass){.instructions = calloc(lines, sizeof(*sass->instructions)),
                          .loops = calloc(lines, sizeof(*sass->loops)),
                          .listing = listing};
    struct label *labels = calloc(lines, sizeof(*labels));
    assert_non_null(sass->instructions);
    assert_non_null(sass->loops);
    assert_non_null(labels);
    char *rest = listing;
    for (char *line; (line = strtok_r(rest, "\n", &rest)) != NULL;) {
        const char *text = instruction_in(line);
        if (text != NULL) {
            sass->instructions[sass->count++] = (struct sass_instruction){text, behind_predicate(text)};
        } else if (label_in(line, &labels[label_count])) {
            labels[label_count++].index = sass->count;
        }
    }
    for (size_t i = 0; i < sass->count; ++i) {
        add_loop(sass, i, labels, label_count);
    }
    free(labels);
    assert_true(sass->count > 0);
}

void sass_free(struct sass *sass)
{
    free(sass->instructions);
    free(sass->loops);
    free(sass->listing);
    *sass = (struct sass){.count = 0};
}

bool sass_is(const struct sass_instruction *instruction, const char *words)
{
    size_t length = strcspn(instruction->opcode, ". ");
    while (*words != '\0') {
        size_t word = strcspn(words, " ");
        if (word == length && memcmp(words, instruction->opcode, length) == 0) {
            return true;
        }
        words += word;
        words += strspn(words, " ");
    }
    return false;
}

size_t sass_count(const struct sass *sass, size_t begin, size_t end, const char *words)
{
    size_t count = 0;
    for (size_t i = begin; i <= end && i < sass->count; ++i) {
        count += sass_is(&sass->instructions[i], words);
    }
    return count;
}
