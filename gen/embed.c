/*
 * embed: a program of the build. Checks the templates and writes them, with their version, as C.
 *
 *     embed OUTPUT.c FILE...
 *
 * Files under a folder called templates/ are embedded under their path in it; all other files (tables and sources of the
 * generator) only count for the version. A fault in a template is printed as "templates/path:line: message", all faults of
 * all files at once, and nothing is written. Exit status: 0 done, 1 faults, 2 usage or a file that cannot be read or written.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gen/hash.h"
#include "gen/template.h"
#include "include/gdpajit.h"

enum { MOST_FILES = 256, FILE_LIMIT = 16 << 20 };

struct input {
    const char *argument; /* as given */
    const char *path;     /* relative to templates/, or NULL: counts for the version only */
    struct sbuf text;
};

struct embed {
    struct input inputs[MOST_FILES];
    size_t count;
    struct template_file files[MOST_FILES];
    struct template_set set;
    int faults;
};

static const char *const activation_files[] = {
#define ACTIVATION(SUFFIX, number, name, aliases, file, kind, rel, abs, param, formula, derivative) file,
#include "gen/activations.def"
#undef ACTIVATION
};

static const int wgmma_widths[] = {
#define WGMMA_WIDTH(columns) columns,
#include "gen/wgmma_widths.def"
#undef WGMMA_WIDTH
};

static int compare_inputs(const void *a, const void *b)
{
    const struct input *x = a, *y = b;
    return strcmp(x->path != NULL ? x->path : x->argument, y->path != NULL ? y->path : y->argument);
}

/* The part after the last "templates/" that begins a path component. */
static const char *path_in_templates(const char *argument)
{
    const char folder[] = "templates/";
    const char *found = NULL;
    for (const char *at = strstr(argument, folder); at != NULL; at = strstr(at + 1, folder)) {
        if (at == argument || at[-1] == '/') {
            found = at + strlen(folder);
        }
    }
    return found;
}

static bool read_file(const char *name, struct sbuf *text)
{
    char chunk[16384];
    FILE *file = fopen(name, "rb");
    if (file == NULL) {
        fprintf(stderr, "embed: cannot open %s: %s\n", name, strerror(errno));
        return false;
    }
    size_t length;
    while ((length = fread(chunk, 1, sizeof(chunk), file)) > 0) {
        sbuf_add(text, chunk, length);
    }
    bool failed = ferror(file) != 0;
    fclose(file);
    if (failed || text->overflow) {
        fprintf(stderr, "embed: cannot read %s, or it has more than %d bytes\n", name, FILE_LIMIT);
        return false;
    }
    return true;
}

/* ---- checks ---- */

static void fault(struct embed *embed, const char *path, int line, const char *message)
{
    fprintf(stderr, "templates/%s:%d: %s\n", path, line, message);
    ++embed->faults;
}

/* What a text file of the project never has; the reader relies on it. */
static void check_bytes(struct embed *embed, const struct template_file *file)
{
    int line = 1;
    for (size_t i = 0; i < file->length; ++i) {
        unsigned char c = (unsigned char)file->text[i];
        if (c == '\n') {
            ++line;
        } else if (c == '\t' || c == '\r' || c < ' ' || c > '~') {
            fault(embed, file->path, line, "only printable ASCII, and neither tabs nor carriage returns, may be here");
            return;
        }
    }
    if (file->length == 0 || file->text[file->length - 1] != '\n') {
        fault(embed, file->path, line, "the file must end in a newline");
    }
}

static void check_file(struct embed *embed, const struct template_reader *reader, const char *path, const char *why)
{
    char message[400];
    if (template_find(&embed->set, path, strlen(path)) == NULL) {
        snprintf(message, sizeof(message), "there is no templates/%s%s", path, why);
        fault(embed, reader->file->path, reader->line, message);
    }
}

static bool file_is(const struct template_line *line, const char *name)
{
    return line->file_length == strlen(name) && memcmp(line->file, name, line->file_length) == 0;
}

/* "activation.cuh" and the like stand for one file or the other: all of them must be there. */
static void check_include(struct embed *embed, const struct template_reader *reader, const struct template_line *line)
{
    char path[200];
    if (file_is(line, "activation.cuh")) {
        for (size_t i = 0; i < sizeof(activation_files) / sizeof(activation_files[0]); ++i) {
            snprintf(path, sizeof(path), "activation/%s.cuh", activation_files[i]);
            check_file(embed, reader, path, ", which gen/activations.def names");
        }
    } else if (file_is(line, "activation_pair.cuh")) {
        check_file(embed, reader, "activation/pair.cuh", "");
    } else if (file_is(line, "packed_pair.cuh")) {
        check_file(embed, reader, "activation/packed_pair.cuh", "");
    } else if (file_is(line, "wgmma_keys.cuh") || file_is(line, "wgmma_half_keys.cuh") ||
               file_is(line, "wgmma_values.cuh") || file_is(line, "wgmma_queries.cuh") ||
               file_is(line, "wgmma_depth.cuh") || file_is(line, "wgmma_share.cuh") ||
               file_is(line, "wgmma_dq_keys.cuh")) {
        for (size_t i = 0; i < sizeof(wgmma_widths) / sizeof(wgmma_widths[0]); ++i) {
            snprintf(path, sizeof(path), "ptx/wgmma_n%d.cuh", wgmma_widths[i]);
            check_file(embed, reader, path, ", which gen/wgmma_widths.def names");
        }
    } else {
        snprintf(path, sizeof(path), "%.*s", (int)(line->file_length < 100 ? line->file_length : 100), line->file);
        check_file(embed, reader, path, "");
    }
}

static void check_template(struct embed *embed, const struct template_file *file)
{
    static const bool values[TEMPLATE_OPTION_COUNT];
    struct template_reader reader;
    struct sbuf why;
    sbuf_init(&why, 4096);
    check_bytes(embed, file);
    template_open(&reader, file, values);
    for (;;) {
        struct template_line line;
        enum template_line_kind kind = template_next(&reader, &line, &why);
        if (kind == TEMPLATE_END) {
            break;
        }
        if (kind == TEMPLATE_ERROR) {
            fprintf(stderr, "%s\n", why.text);
            ++embed->faults;
            break; /* what follows a wrong directive cannot be judged */
        }
        if (kind == TEMPLATE_INCLUDE) {
            check_include(embed, &reader, &line);
        } else if (kind == TEMPLATE_INCLUDE_SYSTEM && !template_is_inside(&reader, TEMPLATE_OPTION_host)) {
            fault(embed, file->path, reader.line, "system headers are for passages of //@if host alone");
        }
    }
    sbuf_deinit(&why);
}

/* ---- output ---- */

static void write_string(FILE *output, const char *text, size_t length)
{
    fputs("    \"", output);
    for (size_t i = 0; i < length; ++i) {
        if (text[i] == '\n') {
            fputs(i + 1 < length ? "\\n\"\n    \"" : "\\n", output);
        } else if (text[i] == '?' || text[i] == '"' || text[i] == '\\') {
            fprintf(output, "\\%c", text[i]); /* '?': no trigraphs */
        } else {
            fputc(text[i], output);
        }
    }
    fputs("\"", output);
}

static bool write_output(const struct embed *embed, const char *name, const char *id)
{
    FILE *output = fopen(name, "wb");
    if (output == NULL) {
        fprintf(stderr, "embed: cannot write %s: %s\n", name, strerror(errno));
        return false;
    }
    fputs("/*\n * Written by gen/embed.c from templates/. Do not edit.\n */\n#include \"gen/template.h\"\n\n", output);
    fputs("#pragma GCC diagnostic ignored \"-Woverlength-strings\"\n\n", output);
    fputs("static const struct template_file files[] = {\n", output);
    for (size_t i = 0; i < embed->set.count; ++i) {
        const struct template_file *file = &embed->set.files[i];
        fprintf(output, "    {\"%s\",\n", file->path);
        write_string(output, file->text, file->length);
        fprintf(output, ",\n     %zu},\n", file->length);
    }
    fprintf(output, "};\n\nconst struct template_set embedded_templates = {files, %zu, \"%s\"};\n", embed->set.count,
            id);
    bool failed = ferror(output) != 0;
    failed = fclose(output) != 0 || failed;
    if (failed) {
        fprintf(stderr, "embed: cannot write %s: %s\n", name, strerror(errno));
        remove(name);
    }
    return !failed;
}

/* The version of everything that a source depends on: (name, length, bytes) of each file, and the library's version. */
static bool make_id(const struct embed *embed, char id[33])
{
    struct sbuf material;
    sbuf_init(&material, (size_t)MOST_FILES * FILE_LIMIT);
    sbuf_addstr(&material, "libgdpajit " GDPA_VERSION_STRING "\n");
    for (size_t i = 0; i < embed->count; ++i) {
        const struct input *input = &embed->inputs[i];
        sbuf_addf(&material, "%s %zu\n", input->path != NULL ? input->path : input->argument, input->text.length);
        sbuf_add(&material, input->text.text, input->text.length);
    }
    bool complete = !material.overflow;
    hash_hex(material.text, material.length, id);
    sbuf_deinit(&material);
    if (!complete) {
        fprintf(stderr, "embed: out of memory\n");
    }
    return complete;
}

static bool read_inputs(struct embed *embed, char **arguments)
{
    for (size_t i = 0; i < embed->count; ++i) {
        struct input *input = &embed->inputs[i];
        input->argument = arguments[i];
        input->path = path_in_templates(arguments[i]);
        sbuf_init(&input->text, FILE_LIMIT);
        if (!read_file(input->argument, &input->text)) {
            return false;
        }
    }
    qsort(embed->inputs, embed->count, sizeof(embed->inputs[0]), compare_inputs);
    for (size_t i = 0; i < embed->count; ++i) {
        const struct input *input = &embed->inputs[i];
        if (input->path != NULL) {
            embed->files[embed->set.count++] =
                (struct template_file){input->path, input->text.text, input->text.length};
        }
    }
    embed->set.files = embed->files;
    return true;
}

static int run(struct embed *embed, const char *output, char **arguments)
{
    char id[33];
    if (!read_inputs(embed, arguments)) {
        return 2;
    }
    if (embed->set.count == 0) {
        fprintf(stderr, "embed: none of the files is under templates/\n");
        return 2;
    }
    for (size_t i = 0; i < embed->set.count; ++i) {
        check_template(embed, &embed->files[i]);
    }
    if (embed->faults > 0) {
        fprintf(stderr, "embed: %d %s in the templates\n", embed->faults, embed->faults == 1 ? "fault" : "faults");
        return 1;
    }
    return make_id(embed, id) && write_output(embed, output, id) ? 0 : 2;
}

int main(int argc, char **argv)
{
    if (argc < 3 || argc - 2 > MOST_FILES) {
        fprintf(stderr, "usage: embed OUTPUT.c FILE... (at most %d files)\n", MOST_FILES);
        return 2;
    }
    struct embed *embed = calloc(1, sizeof(*embed));
    if (embed == NULL) {
        fprintf(stderr, "embed: out of memory\n");
        return 2;
    }
    embed->count = (size_t)argc - 2;
    int status = run(embed, argv[1], argv + 2);
    for (size_t i = 0; i < embed->count; ++i) {
        if (embed->inputs[i].text.text != NULL) {
            sbuf_deinit(&embed->inputs[i].text);
        }
    }
    free(embed);
    return status;
}
