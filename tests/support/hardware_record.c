/*
 * The check of hardware records; see hardware_record.h.
 */
#include "tests/support/hardware_record.h"

#include <errno.h>
#include <fnmatch.h>
#include <glob.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "gen/assemble.h"
#include "gen/plan.h"
#include "gen/spec.h"
#include "tools/matrix.h"

enum {
    TEXT_LIMIT = 1 << 24, /* of a source */
    WHY_LIMIT = 4096,
};

/* A line of a record, or of pending.txt. Texts are malloced. */
struct line {
    int number;
    char *text;      /* the spec; the pattern */
    char source[33]; /* "" when the kernel could not be made */
    long long cases;
    bool ok;
    bool met; /* a kernel of a matrix; a kernel that is not proven */
};

struct lines {
    char *path;
    struct line *items;
    size_t count, capacity;
};

struct check {
    const struct hardware_question *question;
    FILE *report;
    struct hardware_answer *answer;
    struct lines pending;
    bool broken;
};

static void *allocated(void *memory)
{
    if (memory == NULL) {
        abort(); /* a test program: nothing is left to save */
    }
    return memory;
}

static struct line *line_add(struct lines *lines, int number, const char *text, size_t length)
{
    if (lines->count == lines->capacity) {
        lines->capacity = 2 * lines->capacity + 64;
        lines->items = allocated(realloc(lines->items, lines->capacity * sizeof *lines->items));
    }
    struct line *line = &lines->items[lines->count++];
    *line = (struct line){.number = number, .text = allocated(strndup(text, length))};
    return line;
}

static void lines_deinit(struct lines *lines)
{
    for (size_t i = 0; i < lines->count; i++) {
        free(lines->items[i].text);
    }
    free(lines->items);
    free(lines->path);
}

static struct line *line_find(const struct lines *lines, const char *text)
{
    for (size_t i = 0; i < lines->count; i++) {
        if (strcmp(lines->items[i].text, text) == 0) {
            return &lines->items[i];
        }
    }
    return NULL;
}

static void fault(struct check *check, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void fault(struct check *check, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vfprintf(check->report, format, arguments);
    va_end(arguments);
    fputc('\n', check->report);
    check->answer->faults++;
}

/* ---------------------------------------------------------------------------------------------------------------
 * Reading
 * ------------------------------------------------------------------------------------------------------------- */

typedef void (*take_fn)(struct check *check, struct lines *lines, int number, const char *text);

/* A file that does not exist has no lines. */
static void file_read(struct check *check, struct lines *lines, take_fn take)
{
    FILE *file = fopen(lines->path, "r");
    if (file == NULL) {
        if (errno != ENOENT) {
            fprintf(check->report, "cannot read %s: %s\n", lines->path, strerror(errno));
            check->broken = true;
        }
        return;
    }
    char *text = NULL;
    size_t room = 0;
    ssize_t length;
    for (int number = 1; (length = getline(&text, &room, file)) >= 0; number++) {
        if (length > 0 && text[length - 1] == '\n') {
            text[length - 1] = 0;
        }
        take(check, lines, number, text);
    }
    free(text);
    fclose(file);
}

static void take_pending(struct check *check, struct lines *lines, int number, const char *text)
{
    text += strspn(text, " \t");
    if (*text == 0 || *text == '#') {
        return;
    }
    size_t length = strcspn(text, ":");
    const char *reason = text + length + strspn(text + length, ": \t");
    if (length == 0 || *reason == 0) {
        fault(check, "%s:%d: not of the form PATTERN: REASON", lines->path, number);
        return;
    }
    line_add(lines, number, text, length);
}

static void take_record(struct check *check, struct lines *lines, int number, const char *text)
{
    json_t *object = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
    const char *spec = json_string_value(json_object_get(object, "spec"));
    const json_t *source = json_object_get(object, "source");
    const json_t *cases = json_object_get(object, "cases");
    const json_t *ok = json_object_get(object, "ok");
    const char *hash = json_string_value(source);
    if (spec == NULL || !json_is_boolean(ok) || !json_is_integer(cases) ||
        !(json_is_null(source) || (hash != NULL && strlen(hash) == 32))) {
        fault(check, "%s:%d: no record of a kernel; such files are written by gdpa-jit verify --record alone",
              lines->path, number);
    } else if (line_find(lines, spec) != NULL) {
        fault(check, "%s:%d: %s: has a line already", lines->path, number, spec);
    } else {
        struct line *line = line_add(lines, number, spec, strlen(spec));
        snprintf(line->source, sizeof line->source, "%s", hash != NULL ? hash : "");
        line->cases = json_integer_value(cases);
        line->ok = json_is_true(ok);
    }
    json_decref(object);
}

/* ---------------------------------------------------------------------------------------------------------------
 * Kernels of today
 * ------------------------------------------------------------------------------------------------------------- */

/* Canonical text and source hash of a spec; false, with the reason in why, for one that has no kernel. */
static bool kernel_of_today(const char *words, struct sbuf *text, char hash[33], struct sbuf *why)
{
    gdpa_spec parsed = GDPA_SPEC_INIT;
    gdpa_spec spec;
    struct kernel_plan plan;
    struct sbuf source;
    sbuf_init(&source, TEXT_LIMIT);
    bool good = spec_parse(words, &parsed, why) == GDPA_OK && spec_normalise(&parsed, false, &spec, why) == GDPA_OK &&
                plan_make(&spec, &plan, NULL, why) == GDPA_OK && source_generate(&spec, &plan, &source, why) == GDPA_OK;
    if (good) {
        sbuf_reset(text);
        spec_print(&spec, text);
        source_hash(source.text, source.length, hash);
    }
    sbuf_deinit(&source);
    return good;
}

static int bit_count(unsigned long long bits)
{
    int count = 0;
    for (; bits != 0; bits &= bits - 1) {
        count++;
    }
    return count;
}

/* ---------------------------------------------------------------------------------------------------------------
 * Judging
 * ------------------------------------------------------------------------------------------------------------- */

static bool is_pending(struct check *check, const char *text)
{
    bool found = false;
    for (size_t i = 0; i < check->pending.count; i++) {
        struct line *line = &check->pending.items[i];
        if (fnmatch(line->text, text, 0) == 0) {
            line->met = found = true;
        }
    }
    return found;
}

/* Why a line proves nothing of a kernel; false when it proves it. line NULL: there is none. */
static bool unproven(const struct line *line, const char *hash, int cases, char *why, size_t capacity)
{
    if (line == NULL) {
        snprintf(why, capacity, "no record");
    } else if (!line->ok) {
        snprintf(why, capacity, "failed when it ran last (line %d)", line->number);
    } else if (strcmp(line->source, hash) != 0) {
        snprintf(why, capacity, "recorded with another source (line %d): %.8s, now %.8s", line->number, line->source,
                 hash);
    } else if (line->cases < cases) {
        snprintf(why, capacity, "ran %lld of %d cases (line %d)", line->cases, cases, line->number);
    } else {
        return false;
    }
    return true;
}

static void judge(struct check *check, const struct lines *lines, const char *text, const char *hash, int cases)
{
    struct line *line = line_find(lines, text);
    char why[160];
    check->answer->kernels++;
    if (line != NULL) {
        line->met = true;
    }
    if (!unproven(line, hash, cases, why, sizeof why)) {
        check->answer->proven++;
    } else if (is_pending(check, text)) {
        check->answer->pending++;
    } else {
        fault(check, "%s: %s: %s", lines->path, text, why);
    }
}

struct visit {
    struct check *check;
    const struct lines *lines;
    const char *matrix;
    size_t index;
};

static bool judge_matrix_spec(const char *words, void *user)
{
    struct visit *visit = user;
    struct sbuf text, why;
    char hash[33];
    sbuf_init(&text, WHY_LIMIT);
    sbuf_init(&why, WHY_LIMIT);
    int cases = bit_count(matrix_shapes(visit->matrix, visit->index++));
    if (kernel_of_today(words, &text, hash, &why)) {
        judge(visit->check, visit->lines, text.text, hash, cases);
    } else {
        fault(visit->check, "matrix %s: %s: %s", visit->matrix, words, why.text);
    }
    sbuf_deinit(&text);
    sbuf_deinit(&why);
    return true;
}

/* Everything that the matrices ask of one file for one architecture. */
static void judge_arch(struct check *check, const struct lines *lines, const char *arch)
{
    for (const char *const *matrix = check->question->matrices; *matrix != NULL; matrix++) {
        struct visit visit = {.check = check, .lines = lines, .matrix = *matrix};
        if (!matrix_specs(*matrix, arch, judge_matrix_spec, &visit)) {
            fprintf(check->report, "no matrix %s\n", *matrix);
            check->broken = true;
        }
    }
}

/* The architecture of a canonical text: its last word. "" when it has none. */
static const char *arch_of(const char *spec)
{
    const char *last = strrchr(spec, ' ');
    return last != NULL && strncmp(last, " arch=", 6) == 0 ? last + 6 : "";
}

/* Lines of kernels outside the matrices. */
static void judge_others(struct check *check, const struct lines *lines)
{
    for (size_t i = 0; i < lines->count; i++) {
        const struct line *line = &lines->items[i];
        struct sbuf text, reason;
        char hash[33] = "";
        char why[160];
        sbuf_init(&text, WHY_LIMIT);
        sbuf_init(&reason, WHY_LIMIT);
        if (!line->met && (!kernel_of_today(line->text, &text, hash, &reason) || strcmp(text.text, line->text) != 0)) {
            fault(check, "%s:%d: %s: of no kernel; remove the line", lines->path, line->number, line->text);
        } else if (!line->met && unproven(line, hash, 0, why, sizeof why) && !is_pending(check, line->text)) {
            fault(check, "%s: %s: %s; run it again or remove the line", lines->path, line->text, why);
        }
        sbuf_deinit(&text);
        sbuf_deinit(&reason);
    }
}

static bool archs_have(const char *const *archs, const char *arch)
{
    while (*archs != NULL && strcmp(*archs, arch) != 0) {
        archs++;
    }
    return *archs != NULL;
}

enum { ARCHS_MOST = 32 };

/* One file: complete for every architecture that it has lines of. Marks those of the question that it has. */
static void judge_file(struct check *check, const char *path, bool *seen)
{
    struct lines lines = {.path = allocated(strdup(path))};
    const char *archs[ARCHS_MOST + 1] = {NULL};
    size_t count = 0;
    file_read(check, &lines, take_record);
    for (size_t i = 0; i < lines.count; i++) {
        const char *arch = arch_of(lines.items[i].text);
        if (*arch != 0 && !archs_have(archs, arch) && count < ARCHS_MOST) {
            archs[count++] = arch;
        }
    }
    for (size_t i = 0; i < count; i++) {
        judge_arch(check, &lines, archs[i]);
    }
    judge_others(check, &lines);
    for (size_t i = 0; i < ARCHS_MOST && check->question->archs[i] != NULL; i++) {
        seen[i] = seen[i] || archs_have(archs, check->question->archs[i]);
    }
    lines_deinit(&lines);
}

static void judge_pending(struct check *check)
{
    for (size_t i = 0; i < check->pending.count; i++) {
        const struct line *line = &check->pending.items[i];
        if (!line->met) {
            fault(check, "%s:%d: %s: not needed; every kernel that it names is proven, or it names none",
                  check->pending.path, line->number, line->text);
        }
    }
}

static void judge_folder(struct check *check)
{
    const char *folder = check->question->folder;
    bool seen[ARCHS_MOST] = {false};
    glob_t files = {.gl_pathc = 0};
    struct sbuf pattern;
    sbuf_init(&pattern, WHY_LIMIT);
    sbuf_addf(&pattern, "%s/*.jsonl", folder);
    int status = glob(pattern.text, 0, NULL, &files);
    if (status != 0 && status != GLOB_NOMATCH) {
        fprintf(check->report, "cannot list %s\n", pattern.text);
        check->broken = true;
    }
    for (size_t i = 0; i < files.gl_pathc; i++) {
        judge_file(check, files.gl_pathv[i], seen);
    }
    globfree(&files);
    sbuf_deinit(&pattern);
    for (size_t i = 0; i < ARCHS_MOST && check->question->archs[i] != NULL; i++) {
        struct lines none = {.path = (char *)folder};
        if (!seen[i]) {
            judge_arch(check, &none, check->question->archs[i]);
        }
    }
}

bool hardware_check(const struct hardware_question *question, FILE *report, struct hardware_answer *answer)
{
    *answer = (struct hardware_answer){.kernels = 0};
    struct check check = {.question = question, .report = report, .answer = answer};
    struct sbuf path;
    sbuf_init(&path, WHY_LIMIT);
    sbuf_addf(&path, "%s/pending.txt", question->folder);
    check.pending.path = allocated(strdup(path.text));
    sbuf_deinit(&path);
    file_read(&check, &check.pending, take_pending);
    judge_folder(&check);
    judge_pending(&check);
    lines_deinit(&check.pending);
    return !check.broken;
}
