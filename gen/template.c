/*
 * See template.h.
 */
#include "gen/template.h"

#include <string.h>

#include "gen/suggest.h"

static const char *const option_names[TEMPLATE_OPTION_COUNT] = {
#define TEMPLATE_OPTION(name, value, doc) #name,
#include "gen/template_options.def"
#undef TEMPLATE_OPTION
};

/* A part of a line. */
struct span {
    const char *text;
    size_t length;
};

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r';
}

static struct span trim(struct span span)
{
    while (span.length > 0 && is_blank(span.text[0])) {
        ++span.text;
        --span.length;
    }
    while (span.length > 0 && is_blank(span.text[span.length - 1])) {
        --span.length;
    }
    return span;
}

/* Takes `prefix` off the front of the span when it is there. */
static bool take(struct span *span, const char *prefix)
{
    size_t length = strlen(prefix);
    if (span->length < length || memcmp(span->text, prefix, length) != 0) {
        return false;
    }
    span->text += length;
    span->length -= length;
    return true;
}

static bool is_word_character(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

/* The identifier at the front of a span, of length 0 when there is none. */
static struct span word_of(struct span span)
{
    size_t length = 0;
    while (length < span.length && is_word_character(span.text[length])) {
        ++length;
    }
    return (struct span){span.text, length};
}

static bool span_is(struct span span, const char *text)
{
    return span.length == strlen(text) && memcmp(span.text, text, span.length) == 0;
}

const struct template_file *template_find(const struct template_set *set, const char *path, size_t length)
{
    for (size_t i = 0; i < set->count; ++i) {
        if (strlen(set->files[i].path) == length && memcmp(set->files[i].path, path, length) == 0) {
            return &set->files[i];
        }
    }
    return NULL;
}

void template_open(struct template_reader *reader, const struct template_file *file, const bool *values)
{
    *reader = (struct template_reader){.file = file, .values = values};
}

static enum template_line_kind error(const struct template_reader *reader, int line, struct sbuf *why,
                                     const char *message)
{
    sbuf_reset(why);
    sbuf_addf(why, "templates/%s:%d: %s", reader->file->path, line, message);
    return TEMPLATE_ERROR;
}

/* ---- passages ---- */

static enum template_line_kind unknown_option(const struct template_reader *reader, struct span name, struct sbuf *why)
{
    struct suggestion suggestion;
    suggest_start(&suggestion, name.text, name.length);
    error(reader, reader->line, why, "no template option is called ");
    sbuf_add_quoted(why, name.text, name.length);
    for (size_t i = 0; i < TEMPLATE_OPTION_COUNT; ++i) {
        suggest_offer(&suggestion, option_names[i]);
    }
    if (suggestion.nearest != NULL) {
        sbuf_addf(why, "; did you mean '%s'?", suggestion.nearest);
    }
    sbuf_addstr(why, " (they are listed in gen/template_options.def)");
    return TEMPLATE_ERROR;
}

static enum template_line_kind open_passage(struct template_reader *reader, struct span rest, struct sbuf *why)
{
    rest = trim(rest);
    bool negated = take(&rest, "!");
    struct span name = word_of(rest);
    if (name.length == 0 || name.length != rest.length) {
        return error(reader, reader->line, why, "//@if takes one option name or !name and nothing else");
    }
    if (reader->depth == TEMPLATE_DEEPEST) {
        return error(reader, reader->line, why, "passages may be nested two deep, no deeper");
    }
    for (int i = 0; i < TEMPLATE_OPTION_COUNT; ++i) {
        if (span_is(name, option_names[i])) {
            reader->passages[reader->depth].line = reader->line;
            reader->passages[reader->depth].option = (enum template_option)i;
            reader->passages[reader->depth].negated = negated;
            reader->passages[reader->depth].has_else = false;
            ++reader->depth;
            return TEMPLATE_DIRECTIVE;
        }
    }
    return unknown_option(reader, name, why);
}

/* A line that starts with "//@". */
static enum template_line_kind directive(struct template_reader *reader, struct span rest, struct sbuf *why)
{
    struct span name = word_of(rest);
    struct span arguments = {rest.text + name.length, rest.length - name.length};
    if (span_is(name, "if")) {
        return open_passage(reader, arguments, why);
    }
    bool is_else = span_is(name, "else");
    if (!is_else && !span_is(name, "endif")) {
        return error(reader, reader->line, why, "the directives are //@if, //@else and //@endif");
    }
    if (arguments.length > 0) {
        return error(reader, reader->line, why, "//@else and //@endif take nothing after them");
    }
    if (reader->depth == 0) {
        return error(reader, reader->line, why, "there is no open //@if");
    }
    if (!is_else) {
        --reader->depth;
    } else if (reader->passages[reader->depth - 1].has_else) {
        return error(reader, reader->line, why, "the passage has an //@else already");
    } else {
        reader->passages[reader->depth - 1].has_else = true;
        reader->passages[reader->depth - 1].negated = !reader->passages[reader->depth - 1].negated;
    }
    return TEMPLATE_DIRECTIVE;
}

bool template_is_active(const struct template_reader *reader)
{
    for (int i = 0; i < reader->depth; ++i) {
        if (reader->values[reader->passages[i].option] == reader->passages[i].negated) {
            return false;
        }
    }
    return true;
}

bool template_is_inside(const struct template_reader *reader, enum template_option option)
{
    for (int i = 0; i < reader->depth; ++i) {
        if (reader->passages[i].option == option && !reader->passages[i].negated) {
            return true;
        }
    }
    return false;
}

/* ---- preprocessor lines ---- */

/* Follows block comments, so that a guard is looked for in code alone. Returns whether the line has code in it. */
static bool has_code(struct template_reader *reader, struct span line)
{
    bool code = false;
    for (size_t i = 0; i < line.length; ++i) {
        bool pair = i + 1 < line.length;
        if (reader->in_comment) {
            if (pair && line.text[i] == '*' && line.text[i + 1] == '/') {
                reader->in_comment = false;
                ++i;
            }
        } else if (pair && line.text[i] == '/' && line.text[i + 1] == '*') {
            reader->in_comment = true;
            ++i;
        } else if (pair && line.text[i] == '/' && line.text[i + 1] == '/') {
            break;
        } else if (!is_blank(line.text[i])) {
            code = true;
        }
    }
    return code;
}

/* "#ifndef NAME" as the first code of a file, with "#define NAME" in the next line. */
static bool begins_guard(const struct template_reader *reader, struct span name)
{
    const struct template_file *file = reader->file;
    const char *end = memchr(file->text + reader->offset, '\n', file->length - reader->offset);
    struct span next = {file->text + reader->offset, 0};
    next.length = (size_t)((end != NULL ? end : file->text + file->length) - next.text);
    next = trim(next);
    if (!take(&next, "#")) {
        return false;
    }
    next = trim(next);
    if (!take(&next, "define") || next.length == 0 || !is_blank(next.text[0])) {
        return false;
    }
    next = trim(next);
    return next.length == name.length && memcmp(next.text, name.text, name.length) == 0;
}

static enum template_line_kind include(struct template_reader *reader, struct span rest, struct template_line *line,
                                       struct sbuf *why)
{
    rest = trim(rest);
    bool quoted = rest.length > 0 && rest.text[0] == '"';
    char last = quoted ? '"' : '>';
    const char *end = rest.length > 1 ? memchr(rest.text + 1, last, rest.length - 1) : NULL;
    if ((!quoted && (rest.length == 0 || rest.text[0] != '<')) || end == NULL || end == rest.text + 1) {
        return error(reader, reader->line, why, "#include takes \"file\", relative to templates/, or <file>");
    }
    line->file = rest.text + 1;
    line->file_length = (size_t)(end - line->file);
    return quoted ? TEMPLATE_INCLUDE : TEMPLATE_INCLUDE_SYSTEM;
}

/* A line that starts with '#'. `first` says that no code came before it. */
static enum template_line_kind preprocessor(struct template_reader *reader, struct span rest, bool first,
                                            struct template_line *line, struct sbuf *why)
{
    rest = trim(rest);
    struct span name = word_of(rest);
    struct span arguments = trim((struct span){rest.text + name.length, rest.length - name.length});
    if (reader->guard_begins) {
        reader->guard_begins = false;
        return TEMPLATE_GUARD;
    }
    if (span_is(name, "include")) {
        return include(reader, arguments, line, why);
    }
    if (span_is(name, "pragma") && span_is(arguments, "once")) {
        return TEMPLATE_GUARD;
    }
    if (span_is(name, "ifndef") && first && begins_guard(reader, arguments)) {
        reader->guard_begins = true;
        reader->guard_open = true;
        return TEMPLATE_GUARD;
    }
    if (span_is(name, "if") || span_is(name, "ifdef") || span_is(name, "ifndef")) {
        ++reader->conditions;
    } else if (span_is(name, "endif")) {
        if (reader->conditions > 0) {
            --reader->conditions;
        } else if (reader->guard_open) {
            reader->guard_open = false;
            return TEMPLATE_GUARD;
        } else {
            return error(reader, reader->line, why, "there is no open #if");
        }
    }
    return TEMPLATE_TEXT;
}

/* ---- lines ---- */

static enum template_line_kind at_end(const struct template_reader *reader, struct sbuf *why)
{
    if (reader->depth > 0) {
        return error(reader, reader->passages[reader->depth - 1].line, why, "the //@if has no //@endif");
    }
    if (reader->guard_open || reader->conditions > 0) {
        return error(reader, reader->line, why, "the file ends inside an #if");
    }
    if (reader->in_comment) {
        return error(reader, reader->line, why, "the file ends inside a comment");
    }
    return TEMPLATE_END;
}

enum template_line_kind template_next(struct template_reader *reader, struct template_line *line, struct sbuf *why)
{
    const struct template_file *file = reader->file;
    if (reader->offset >= file->length) {
        return at_end(reader, why);
    }
    const char *start = file->text + reader->offset;
    const char *end = memchr(start, '\n', file->length - reader->offset);
    size_t length = end != NULL ? (size_t)(end - start) : file->length - reader->offset;
    *line = (struct template_line){.text = start, .length = length};
    reader->offset += length + 1;
    ++reader->line;

    struct span content = trim((struct span){start, length});
    if (!reader->in_comment && take(&content, "//@")) {
        return directive(reader, content, why);
    }
    for (size_t i = 0; i + 3 <= length; ++i) {
        if (memcmp(start + i, "//@", 3) == 0) {
            return error(reader, reader->line, why, "a directive must have a line of its own");
        }
    }
    bool first = !reader->code_seen;
    bool was_comment = reader->in_comment;
    line->has_code = has_code(reader, (struct span){start, length});
    reader->code_seen |= line->has_code;
    if (!was_comment && take(&content, "#")) {
        return preprocessor(reader, content, first, line, why);
    }
    return TEMPLATE_TEXT;
}
