/*
 * See body.h. The config block comes first. Files are spliced where they are first included, depth first, each once; the
 * comment at the head of a file waits until what it includes is written, so that most files stand in the source as one.
 */
#include "gen/body.h"

#include <stdio.h>
#include <string.h>

#include "gen/fail.h"

enum { MOST_FILES = 256, DEEPEST_INCLUDE = 16 };

struct assembly {
    const struct template_set *set;
    const gdpa_spec *spec;
    const struct kernel_plan *plan;
    struct sbuf *body;
    struct sbuf *why;
    bool values[TEMPLATE_OPTION_COUNT];
    bool spliced[MOST_FILES]; /* by index in set */
};

/* A file being read. */
struct section {
    const char *path;
    struct sbuf head; /* comments and blank lines before its first code, until they are written */
    bool begun;       /* its code has begun */
    bool marked;      /* a line of it was written since another file was spliced into it */
    bool continued;   /* a line of it was written before that */
};

static void evaluate_options(const gdpa_spec *spec, const struct kernel_plan *plan, bool values[TEMPLATE_OPTION_COUNT])
{
#define TEMPLATE_OPTION(name, value, doc) values[TEMPLATE_OPTION_##name] = (value);
#include "gen/template_options.def"
#undef TEMPLATE_OPTION
}

static bool ends_with_blank_line(const struct sbuf *body)
{
    return body->length < 2 || memcmp(body->text + body->length - 2, "\n\n", 2) == 0;
}

/* Every change of file is marked, in one line that tools can find: "// ---- templates/<path>". */
static void mark(struct assembly *assembly, const char *path, const char *note)
{
    if (!ends_with_blank_line(assembly->body)) {
        sbuf_addstr(assembly->body, "\n");
    }
    sbuf_addf(assembly->body, "// ---- templates/%s%s\n", path, note);
}

static void write_line(struct assembly *assembly, struct section *section, const char *text, size_t length)
{
    while (length > 0 && (text[length - 1] == ' ' || text[length - 1] == '\t')) {
        --length;
    }
    if (length == 0 && (!section->marked || ends_with_blank_line(assembly->body))) {
        return;
    }
    if (!section->marked) {
        mark(assembly, section->path, section->continued ? " (continued)" : "");
        section->marked = true;
    }
    sbuf_add(assembly->body, text, length);
    sbuf_addstr(assembly->body, "\n");
}

static void write_head(struct assembly *assembly, struct section *section)
{
    const char *end;
    for (const char *line = section->head.text; (end = strchr(line, '\n')) != NULL; line = end + 1) {
        write_line(assembly, section, line, (size_t)(end - line));
    }
    assembly->body->overflow = assembly->body->overflow || section->head.overflow;
    sbuf_reset(&section->head);
    section->begun = true;
}

static void take_line(struct assembly *assembly, struct section *section, const struct template_line *line)
{
    if (!section->begun && !line->has_code) {
        sbuf_add(&section->head, line->text, line->length);
        sbuf_addstr(&section->head, "\n");
        return;
    }
    write_head(assembly, section);
    write_line(assembly, section, line->text, line->length);
}

static void write_constant(struct sbuf *body, const char *name, int32_t value, const char *doc)
{
    size_t start = body->length;
    sbuf_addf(body, "constexpr int %s = %d;", name, (int)value);
    size_t width = body->length - start;
    sbuf_addf(body, "%*s// %s\n", width < 40 ? (int)(40 - width) : 1, "", doc);
}

static void write_config(struct assembly *assembly)
{
    const gdpa_spec *spec = assembly->spec;
    const struct kernel_plan *plan = assembly->plan;
    mark(assembly, "config_default.cuh", ", with the values of this kernel");
#define CONFIG(name, when, value, doc)                                                                                 \
    if (when) {                                                                                                        \
        write_constant(assembly->body, #name, value, doc);                                                             \
    }
#include "gen/config.def"
#undef CONFIG
}

static gdpa_status splice(struct assembly *assembly, const char *path, int depth);

static bool file_is(const struct template_line *line, const char *name)
{
    return line->file_length == strlen(name) && memcmp(line->file, name, line->file_length) == 0;
}

enum { PATH_SIZE = 96 };

/* The file that an include stands for: one of this kernel, or the file itself. */
static void include_path(const struct assembly *assembly, const struct template_line *line, char path[PATH_SIZE])
{
    if (file_is(line, "activation.cuh")) {
        const char *file = activation_find(assembly->spec->activation)->file;
        snprintf(path, PATH_SIZE, "activation/%s/%s.cuh", plan_family_name(assembly->plan->family), file);
        if (template_find(assembly->set, path, strlen(path)) == NULL) {
            snprintf(path, PATH_SIZE, "activation/%s.cuh", file);
        }
    } else if (file_is(line, "activation_pair.cuh")) {
        snprintf(path, PATH_SIZE, "activation/pair/%s.cuh", activation_find(assembly->spec->activation)->file);
        if (template_find(assembly->set, path, strlen(path)) == NULL) {
            snprintf(path, PATH_SIZE, "activation/pair.cuh");
        }
    } else if (file_is(line, "packed_pair.cuh")) {
        snprintf(path, PATH_SIZE, "activation/packed_pair/%s.cuh", activation_find(assembly->spec->activation)->file);
        if (template_find(assembly->set, path, strlen(path)) == NULL) {
            snprintf(path, PATH_SIZE, "activation/packed_pair.cuh");
        }
    } else if (file_is(line, "wgmma_queries.cuh")) {
        snprintf(path, PATH_SIZE, "ptx/wgmma_n%d.cuh", (int)assembly->plan->block_m);
    } else if (file_is(line, "wgmma_depth.cuh")) {
        snprintf(path, PATH_SIZE, "ptx/wgmma_n%d.cuh", (int)assembly->plan->depth_columns);
    } else if (file_is(line, "wgmma_share.cuh")) {
        snprintf(path, PATH_SIZE, "ptx/wgmma_n%d.cuh", (int)assembly->plan->share_columns);
    } else if (file_is(line, "wgmma_dq_keys.cuh")) {
        snprintf(path, PATH_SIZE, "ptx/wgmma_n%d.cuh", (int)assembly->plan->dq_keys);
    } else if (file_is(line, "wgmma_keys.cuh")) {
        snprintf(path, PATH_SIZE, "ptx/wgmma_n%d.cuh", (int)assembly->plan->block_n);
    } else if (file_is(line, "wgmma_half_keys.cuh")) {
        snprintf(path, PATH_SIZE, "ptx/wgmma_n%d.cuh", (int)assembly->plan->block_n / 2);
    } else if (file_is(line, "wgmma_values.cuh")) {
        snprintf(path, PATH_SIZE, "ptx/wgmma_n%d.cuh", (int)assembly->plan->value_columns);
    } else {
        snprintf(path, PATH_SIZE, "%.*s", (int)line->file_length, line->file);
    }
}

static gdpa_status splice_include(struct assembly *assembly, struct section *section, const struct template_line *line,
                                  int depth)
{
    size_t before = assembly->body->length;
    if (file_is(line, "config_default.cuh")) {
        return GDPA_OK; /* it comes first in every source */
    }
    char path[PATH_SIZE];
    include_path(assembly, line, path);
    TRY(splice(assembly, path, depth + 1));
    if (assembly->body->length != before) {
        section->continued = section->continued || section->marked;
        section->marked = false;
    }
    return GDPA_OK;
}

static gdpa_status splice_lines(struct assembly *assembly, struct template_reader *reader, struct section *section,
                                int depth)
{
    for (;;) {
        struct template_line line;
        enum template_line_kind kind = template_next(reader, &line, assembly->why);
        if (kind == TEMPLATE_END) {
            write_head(assembly, section);
            return GDPA_OK;
        }
        if (kind == TEMPLATE_ERROR) {
            return GDPA_E_INTERNAL;
        }
        if (!template_is_active(reader) || kind == TEMPLATE_DIRECTIVE || kind == TEMPLATE_GUARD) {
            continue;
        }
        if (kind == TEMPLATE_INCLUDE) {
            TRY(splice_include(assembly, section, &line, depth));
        } else if (kind == TEMPLATE_INCLUDE_SYSTEM) {
            return fail(assembly->why, GDPA_E_INTERNAL, "templates/%s:%d: a generated source has no system headers",
                        section->path, reader->line);
        } else {
            take_line(assembly, section, &line);
        }
    }
}

static gdpa_status splice(struct assembly *assembly, const char *path, int depth)
{
    const struct template_file *file = template_find(assembly->set, path, strlen(path));
    if (file == NULL) {
        return fail(assembly->why, GDPA_E_INTERNAL, "this build has no template called %s", path);
    }
    size_t index = (size_t)(file - assembly->set->files);
    if (index >= MOST_FILES || depth > DEEPEST_INCLUDE) {
        return fail(assembly->why, GDPA_E_INTERNAL, "templates/%s: more than %d files or includes more than %d deep",
                    file->path, MOST_FILES, DEEPEST_INCLUDE);
    }
    if (assembly->spliced[index]) {
        return GDPA_OK;
    }
    assembly->spliced[index] = true;
    struct template_reader reader;
    struct section section = {.path = file->path};
    template_open(&reader, file, assembly->values);
    sbuf_init(&section.head, file->length + 1);
    gdpa_status status = splice_lines(assembly, &reader, &section, depth);
    sbuf_deinit(&section.head);
    return status;
}

gdpa_status body_assemble(const struct template_set *set, const gdpa_spec *normalised, const struct kernel_plan *plan,
                          struct sbuf *body, struct sbuf *why)
{
    const char *entry = plan_family_template(normalised->pass, plan->family);
    if (entry == NULL) {
        return fail(why, GDPA_E_ARGUMENT, "family of the plan is %d; there is none of that number for the pass",
                    (int)plan->family);
    }
    struct assembly assembly = {.set = set, .spec = normalised, .plan = plan, .body = body, .why = why};
    evaluate_options(normalised, plan, assembly.values);
    write_config(&assembly);
    TRY(splice(&assembly, entry, 0));
    if (body->overflow) {
        return fail(why, GDPA_E_MEMORY, "out of memory for a kernel source of more than %zu bytes", body->length);
    }
    return GDPA_OK;
}

static bool is_word_character(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

const char *second_entry_suffix(const gdpa_spec *normalised)
{
    return normalised->pass == GDPA_PASS_BACKWARD ? SECOND_ENTRY_SUFFIX
           : spec_is_listed(normalised)           ? SCHEDULE_ENTRY_SUFFIX
                                                  : NULL;
}

static bool is_word_end(const char *after, const char *suffix)
{
    const size_t length = strlen(suffix);
    return strncmp(after, suffix, length) == 0 && !is_word_character(after[length]);
}

/* Whether the word gdpa_kernel_entry ends there, or with the suffix of a second kernel. */
static bool is_entry_end(const char *after)
{
    return is_word_end(after, "") || is_word_end(after, SECOND_ENTRY_SUFFIX) ||
           is_word_end(after, SCHEDULE_ENTRY_SUFFIX);
}

size_t body_add_named(const struct sbuf *body, const char *name, struct sbuf *source)
{
    const size_t length = strlen(ENTRY_PLACEHOLDER);
    const char *from = body->text;
    size_t count = 0;
    for (const char *at = strstr(from, ENTRY_PLACEHOLDER); at != NULL; at = strstr(at + length, ENTRY_PLACEHOLDER)) {
        if ((at > body->text && is_word_character(at[-1])) || !is_entry_end(at + length)) {
            continue;
        }
        sbuf_add(source, from, (size_t)(at - from));
        sbuf_addstr(source, name);
        from = at + length;
        ++count;
    }
    sbuf_addstr(source, from);
    return count;
}
