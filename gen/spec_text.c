/*
 * The text form of a spec: "fwd head_dim=128 dtype=bf16 activation=silu causal".
 *
 *     text  = [pass] { option }         separated by white space
 *     option = name "=" value | name    the second for on/off options alone
 */
#include <string.h>

#include "gen/fail.h"
#include "gen/suggest.h"
#include "gen/tables.h"

/* A part of the text. */
struct word {
    const char *text;
    size_t length;
};

static bool word_is(struct word word, const char *text)
{
    return word.length == strlen(text) && memcmp(word.text, text, word.length) == 0;
}

/* ---- printing ---- */

/* Whether the canonical text names the option: it always shows what most readers look for, else what is no default. */
static bool is_shown(const gdpa_spec *spec, const struct option_row *row)
{
    int32_t value = option_get(row, spec);
    switch (row->id) {
    case OPTION_ID_head_dim:
    case OPTION_ID_dtype:
    case OPTION_ID_activation:
        return true;
    case OPTION_ID_head_dim_v:
        return value != spec->head_dim;
    case OPTION_ID_out_dtype:
        return value != spec->dtype;
    case OPTION_ID_window_left:
        return (spec->flags & GDPA_SPEC_WINDOW_LEFT) != 0;
    case OPTION_ID_window_right:
        return (spec->flags & GDPA_SPEC_WINDOW_RIGHT) != 0;
    case OPTION_ID_align:
        return value != GDPA_ALIGN_BOTTOM_RIGHT;
    case OPTION_ID_layout_q:
    case OPTION_ID_layout_k:
        return value != GDPA_LAYOUT_DENSE;
    case OPTION_ID_schedule:
        return value != GDPA_SCHEDULE_AUTO;
    case OPTION_ID_family:
        return value != GDPA_FAMILY_AUTO;
    case OPTION_ID_causal:
    case OPTION_ID_deterministic:
    case OPTION_ID_unaligned:
    case OPTION_ID_arch:
        return value != 0;
    case OPTION_COUNT:
        break;
    }
    return false;
}

void spec_print(const gdpa_spec *normalised, struct sbuf *text)
{
    sbuf_addstr(text, choice_by_number(OPTION_KIND_CHOICE_PASS, normalised->pass)->name);
    for (size_t i = 0; i < OPTION_COUNT; ++i) {
        const struct option_row *row = &option_rows[i];
        if (!is_shown(normalised, row)) {
            continue;
        }
        int32_t value = option_get(row, normalised);
        if (row->kind == OPTION_KIND_BOOL) {
            sbuf_addf(text, " %s", row->name);
        } else if (row->kind == OPTION_KIND_INT) {
            sbuf_addf(text, " %s=%d", row->name, (int)value);
        } else {
            sbuf_addf(text, " %s=%s", row->name, choice_by_number(row->kind, value)->name);
        }
    }
}

/* ---- messages ---- */

static void add_suggestion(struct sbuf *why, const struct suggestion *suggestion)
{
    if (suggestion->nearest != NULL) {
        sbuf_addf(why, "; did you mean '%s'?", suggestion->nearest);
    }
}

/* A word that is the value of a choice gets the option that it belongs to: "silu" is "activation=silu". */
static const struct option_row *option_with_value(const char *word, size_t length)
{
    for (size_t i = 0; i < OPTION_COUNT; ++i) {
        if (choice_by_word(option_rows[i].kind, word, length) != NULL) {
            return &option_rows[i];
        }
    }
    return NULL;
}

/* Other names of a pass, by how they begin; `pass` itself is of either. NULL: none. */
static const char *pass_meant(const char *word, size_t length)
{
    static const struct {
        const char *start, *pass;
    } names[] = {{"forw", "fwd"}, {"fw", "fwd"},    {"back", "bwd"},         {"bw", "bwd"},
                 {"grad", "bwd"}, {"train", "bwd"}, {"pass", "fwd' or 'bwd"}};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; ++i) {
        const size_t start = strlen(names[i].start);
        if (length >= start && strncmp(word, names[i].start, start) == 0) {
            return names[i].pass;
        }
    }
    return NULL;
}

gdpa_status option_unknown(const char *word, size_t length, gdpa_status status, struct sbuf *why)
{
    fail(why, status, "no option is called ");
    sbuf_add_quoted(why, word, length);
    const struct option_row *owner = option_with_value(word, length);
    const char *pass = pass_meant(word, length);
    if (pass != NULL) {
        sbuf_addf(why, "; the pass is the first word of a spec and has no name: did you mean '%s'?", pass);
    } else if (owner != NULL) {
        sbuf_addf(why, "; did you mean '%s=%.*s'?", owner->name, (int)length, word);
    } else {
        struct suggestion suggestion;
        suggest_start(&suggestion, word, length);
        for (size_t i = 0; i < OPTION_COUNT; ++i) {
            suggest_offer(&suggestion, option_rows[i].name);
        }
        add_suggestion(why, &suggestion);
    }
    sbuf_addstr(why, " (options: ");
    for (size_t i = 0; i < OPTION_COUNT; ++i) {
        sbuf_addf(why, "%s%s", i > 0 ? ", " : "", option_rows[i].name);
    }
    sbuf_addstr(why, ")");
    return status;
}

static gdpa_status unknown_choice(const struct option_row *row, struct word value, struct sbuf *why)
{
    struct suggestion suggestion;
    suggest_start(&suggestion, value.text, value.length);
    struct choice_table table = choice_table(row->kind);
    fail(why, GDPA_E_ARGUMENT, "%s is ", row->name);
    sbuf_add_quoted(why, value.text, value.length);
    sbuf_addstr(why, "; legal are ");
    const char *separator = "";
    for (size_t i = 0; i < table.count; ++i) {
        if (table.rows[i].number <= row->highest) {
            sbuf_addf(why, "%s%s", separator, table.rows[i].name);
            suggest_offer(&suggestion, table.rows[i].name);
            separator = ", ";
        }
    }
    add_suggestion(why, &suggestion);
    return GDPA_E_ARGUMENT;
}

/* ---- parsing ---- */

static gdpa_status parse_int(const struct option_row *row, struct word value, int32_t *number, struct sbuf *why)
{
    bool negative = value.length > 0 && value.text[0] == '-';
    size_t start = negative ? 1 : 0;
    int64_t result = 0;
    bool legal = value.length > start;
    for (size_t i = start; legal && i < value.length; ++i) {
        legal = value.text[i] >= '0' && value.text[i] <= '9';
        result = result * 10 + (value.text[i] - '0');
        legal = legal && result <= (int64_t)INT32_MAX + 1; /* no overflow of int64_t, however many digits follow */
    }
    result = negative ? -result : result;
    if (!legal || result > INT32_MAX || result < INT32_MIN) {
        fail(why, GDPA_E_ARGUMENT, "%s is ", row->name);
        sbuf_add_quoted(why, value.text, value.length);
        sbuf_addf(why, "; legal are whole numbers from %d to %d", (int)row->lowest, (int)row->highest);
        return GDPA_E_ARGUMENT;
    }
    *number = (int32_t)result;
    return GDPA_OK;
}

static gdpa_status parse_bool(const struct option_row *row, struct word value, int32_t *number, struct sbuf *why)
{
    static const struct {
        const char *word;
        int32_t value;
    } words[] = {{"1", 1}, {"0", 0}, {"true", 1}, {"false", 0}, {"on", 1}, {"off", 0}, {"yes", 1}, {"no", 0}};
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); ++i) {
        if (word_is(value, words[i].word)) {
            *number = words[i].value;
            return GDPA_OK;
        }
    }
    fail(why, GDPA_E_ARGUMENT, "%s is ", row->name);
    sbuf_add_quoted(why, value.text, value.length);
    sbuf_addstr(why, "; legal are no value at all, 1, true, on, yes, and 0, false, off, no");
    return GDPA_E_ARGUMENT;
}

static gdpa_status parse_value(const struct option_row *row, struct word value, int32_t *number, struct sbuf *why)
{
    if (row->kind == OPTION_KIND_BOOL) {
        return parse_bool(row, value, number, why);
    }
    if (row->kind == OPTION_KIND_INT) {
        TRY(parse_int(row, value, number, why));
    } else {
        const struct choice *choice = choice_by_word(row->kind, value.text, value.length);
        if (choice == NULL) {
            return unknown_choice(row, value, why);
        }
        *number = choice->number;
    }
    return option_check(row, *number, why);
}

/* One "name=value" or "name"; `seen` says which options the text already gave. */
static gdpa_status parse_option(struct word word, bool seen[OPTION_COUNT], gdpa_spec *spec, struct sbuf *why)
{
    const char *equals = memchr(word.text, '=', word.length);
    struct word name = {word.text, equals != NULL ? (size_t)(equals - word.text) : word.length};
    const struct option_row *row = option_find(name.text, name.length);
    if (row == NULL) {
        if (choice_by_word(OPTION_KIND_CHOICE_PASS, word.text, word.length) != NULL) {
            fail(why, GDPA_E_ARGUMENT, "the pass ");
            sbuf_add_quoted(why, word.text, word.length);
            sbuf_addstr(why, " must be the first word, and the only one of its kind");
            return GDPA_E_ARGUMENT;
        }
        return option_unknown(name.text, name.length, GDPA_E_ARGUMENT, why);
    }
    if (seen[row->id]) {
        return fail(why, GDPA_E_ARGUMENT, "%s is given twice", row->name);
    }
    seen[row->id] = true;
    int32_t value = 1;
    if (equals != NULL) {
        struct word text = {equals + 1, word.length - name.length - 1};
        TRY(parse_value(row, text, &value, why));
    } else if (row->kind != OPTION_KIND_BOOL) {
        return fail(why, GDPA_E_ARGUMENT, "%s stands without a value; write %s=VALUE", row->name, row->name);
    }
    option_set(row, spec, value);
    if (row->id == OPTION_ID_window_left) {
        spec->flags |= GDPA_SPEC_WINDOW_LEFT;
    } else if (row->id == OPTION_ID_window_right) {
        spec->flags |= GDPA_SPEC_WINDOW_RIGHT;
    }
    return GDPA_OK;
}

/* isspace without the locale. */
static bool is_space(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

/* The next word of the text, of length 0 at its end. */
static struct word next_word(const char **cursor)
{
    while (is_space(**cursor)) {
        ++*cursor;
    }
    struct word word = {*cursor, 0};
    while (**cursor != '\0' && !is_space(**cursor)) {
        ++*cursor;
        ++word.length;
    }
    return word;
}

gdpa_status spec_parse(const char *text, gdpa_spec *out, struct sbuf *why)
{
    if (text == NULL) {
        return fail(why, GDPA_E_ARGUMENT, "the text of the spec is NULL");
    }
    gdpa_spec spec = GDPA_SPEC_INIT;
    bool seen[OPTION_COUNT] = {false};
    struct word word = next_word(&text);
    const struct choice *pass = choice_by_word(OPTION_KIND_CHOICE_PASS, word.text, word.length);
    if (pass != NULL) {
        spec.pass = pass->number;
        word = next_word(&text);
    }
    for (; word.length > 0; word = next_word(&text)) {
        TRY(parse_option(word, seen, &spec, why));
    }
    *out = spec;
    return GDPA_OK;
}
