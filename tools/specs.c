/*
 * Lists of specs; see specs.h.
 */
#include "tools/specs.h"

#include "tools/term.h"
#include "tools/tool.h"
#include "tools/vocabulary.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { WORDS_LIMIT = 64, COMBINATIONS_LIMIT = 1000000 };

void spec_list_init(struct spec_list *list)
{
    memset(list, 0, sizeof *list);
}

void spec_list_deinit(struct spec_list *list)
{
    for (size_t i = 0; i < list->count; i++) {
        free(list->texts[i]);
    }
    free(list->specs);
    free(list->texts);
    free(list->slots);
    memset(list, 0, sizeof *list);
}

/* ---------------------------------------------------------------------------------------------------------------
 * One spec into the list, once
 * ------------------------------------------------------------------------------------------------------------- */

static size_t text_hash(const char *text)
{
    size_t hash = 5381;
    for (; *text != 0; text++) {
        hash = hash * 33 ^ (unsigned char)*text;
    }
    return hash;
}

/* The slot of a text, or the free one where it belongs. */
static size_t *slot_of(const struct spec_list *list, const char *text)
{
    size_t at = text_hash(text) & (list->slot_count - 1);
    while (list->slots[at] != 0 && strcmp(list->texts[list->slots[at] - 1], text) != 0) {
        at = (at + 1) & (list->slot_count - 1);
    }
    return &list->slots[at];
}

static void grow(struct spec_list *list)
{
    list->capacity = list->capacity == 0 ? 64 : 2 * list->capacity;
    list->specs = tool_realloc(list->specs, list->capacity * sizeof *list->specs);
    list->texts = tool_realloc(list->texts, list->capacity * sizeof *list->texts);
    list->slot_count = 2 * list->capacity;
    list->slots = tool_realloc(list->slots, list->slot_count * sizeof *list->slots);
    memset(list->slots, 0, list->slot_count * sizeof *list->slots);
    for (size_t i = 0; i < list->count; i++) {
        *slot_of(list, list->texts[i]) = i + 1;
    }
}

static bool refuse(struct spec_list *list, const char *text, const char *origin, const struct spec_rules *rules,
                   char *why, size_t why_size)
{
    const char *reason = gdpa_last_error();
    if (!rules->keep_going) {
        snprintf(why, why_size, "%s%s%s: %s", origin, *origin != 0 ? ": " : "", text, reason);
        return false;
    }
    list->refused++;
    if (rules->refused != NULL) {
        rules->refused(origin, text, reason, rules->user);
    }
    return true;
}

static bool keep(struct spec_list *list, const gdpa_spec *spec, const char *text, const char *origin,
                 const struct spec_rules *rules, char *why, size_t why_size)
{
    char *canonical = NULL;
    if (gdpa_spec_check(spec) != GDPA_OK || tool_spec_text(spec, &canonical) != GDPA_OK) {
        return refuse(list, text, origin, rules, why, why_size);
    }
    if (list->count == list->capacity) {
        grow(list);
    }
    size_t *slot = slot_of(list, canonical);
    if (*slot != 0) {
        free(canonical);
        return true;
    }
    list->specs[list->count] = *spec;
    list->texts[list->count] = canonical;
    *slot = ++list->count;
    return true;
}

static bool add_one(struct spec_list *list, const char *text, const char *origin, const struct spec_rules *rules,
                    char *why, size_t why_size)
{
    gdpa_spec spec = GDPA_SPEC_INIT;
    if (gdpa_spec_parse(text, &spec) != GDPA_OK) {
        return refuse(list, text, origin, rules, why, why_size);
    }
    if (spec.arch != 0 || rules->arch_count == 0) {
        return keep(list, &spec, text, origin, rules, why, why_size);
    }
    for (size_t i = 0; i < rules->arch_count; i++) {
        spec.arch = rules->archs[i];
        if (!keep(list, &spec, text, origin, rules, why, why_size)) {
            return false;
        }
    }
    return true;
}

/* ---------------------------------------------------------------------------------------------------------------
 * Products: "head_dim=64,128 causal=0,1"
 * ------------------------------------------------------------------------------------------------------------- */

/* One word: "name=" (or nothing) and the values behind it. */
struct factor {
    const char *name;
    int name_length;
    const char *values;
    size_t count; /* of values */
    size_t index; /* the one in turn */
};

static size_t count_values(const char *values)
{
    size_t count = 1;
    for (; *values != 0; values++) {
        count += *values == ',' ? 1U : 0U;
    }
    return count;
}

/* Splits text (which is changed) into words and those into names and values. */
static bool split_factors(char *text, struct factor *factors, size_t *count, char *why, size_t why_size)
{
    *count = 0;
    char *rest = NULL;
    for (char *word = strtok_r(text, " \t\r\n", &rest); word != NULL; word = strtok_r(NULL, " \t\r\n", &rest)) {
        if (*count == WORDS_LIMIT) {
            snprintf(why, why_size, "more than %d words in one spec", WORDS_LIMIT);
            return false;
        }
        struct factor *factor = &factors[(*count)++];
        const char *equals = strchr(word, '=');
        factor->name = word;
        factor->name_length = equals == NULL ? 0 : (int)(equals - word) + 1;
        factor->values = word + factor->name_length;
        factor->count = count_values(factor->values);
        factor->index = 0;
    }
    return true;
}

static void write_combination(const struct factor *factors, size_t count, char *out)
{
    for (size_t i = 0; i < count; i++) {
        const char *value = factors[i].values;
        for (size_t skip = factors[i].index; skip > 0; skip--) {
            value += strcspn(value, ",") + 1;
        }
        out += sprintf(out, "%s%.*s%.*s", i == 0 ? "" : " ", factors[i].name_length, factors[i].name,
                       (int)strcspn(value, ","), value);
    }
    *out = 0;
}

/* The next combination, the last word turning fastest; false after the last. */
static bool next_combination(struct factor *factors, size_t count)
{
    for (size_t i = count; i-- > 0;) {
        if (++factors[i].index < factors[i].count) {
            return true;
        }
        factors[i].index = 0;
    }
    return false;
}

/* Every value of an option, separated by commas, malloced; "" for an option whose values are no list. */
static char *all_values(const struct spec_word *option)
{
    char *values = tool_strdup(strcmp(option->kind, "BOOL") == 0 ? "0,1" : "");
    const char *value = NULL;
    for (size_t i = 0; (value = spec_word_value(option, i, NULL)) != NULL; i++) {
        char *longer = tool_format("%s%s%s", values, i == 0 ? "" : ",", value);
        free(values);
        values = longer;
    }
    return values;
}

/* The text with `name=all` written out; malloced. */
static char *expand_all(const char *text)
{
    char *expanded = tool_strdup("");
    char *words = tool_strdup(text);
    char *rest = NULL;
    for (char *word = strtok_r(words, " \t\r\n", &rest); word != NULL; word = strtok_r(NULL, " \t\r\n", &rest)) {
        const char *equals = strchr(word, '=');
        const struct spec_word *option = NULL;
        if (equals != NULL && strcmp(equals, "=all") == 0) {
            option = spec_word_find(word, (size_t)(equals - word));
        }
        char *values = option != NULL ? all_values(option) : NULL;
        char *longer = NULL;
        if (values == NULL || *values == 0) {
            longer = tool_format("%s %s", expanded, word);
        } else {
            longer = tool_format("%s %.*s%s", expanded, (int)(equals - word) + 1, word, values);
        }
        free(values);
        free(expanded);
        expanded = longer;
    }
    free(words);
    return expanded;
}

bool spec_list_add(struct spec_list *list, const char *text, const char *origin, const struct spec_rules *rules,
                   char *why, size_t why_size)
{
    struct factor factors[WORDS_LIMIT];
    size_t count = 0;
    char *words = expand_all(text);
    char *one = tool_alloc(strlen(words) + 2);
    bool good = split_factors(words, factors, &count, why, why_size);
    double combinations = 1;
    for (size_t i = 0; good && i < count; i++) {
        combinations *= (double)factors[i].count;
    }
    if (good && combinations > COMBINATIONS_LIMIT) {
        snprintf(why, why_size, "%.0f combinations in one spec; at most %d are taken", combinations,
                 COMBINATIONS_LIMIT);
        good = false;
    }
    if (good && count > 0) {
        do {
            write_combination(factors, count, one);
            good = add_one(list, one, origin, rules, why, why_size);
        } while (good && next_combination(factors, count));
    }
    free(one);
    free(words);
    return good;
}

/* ---------------------------------------------------------------------------------------------------------------
 * Sources of texts: words, files, presets
 * ------------------------------------------------------------------------------------------------------------- */

static bool has_blank(const char *word)
{
    return strpbrk(word, " \t\n") != NULL;
}

/* fwd, bwd or both: the word that begins a spec. */
static bool is_pass(const char *word)
{
    return strcmp(word, "fwd") == 0 || strcmp(word, "bwd") == 0 || strcmp(word, "fwd,bwd") == 0 ||
           strcmp(word, "bwd,fwd") == 0;
}

bool spec_list_add_words(struct spec_list *list, const char *const *words, size_t count, const struct spec_rules *rules,
                         char *why, size_t why_size)
{
    size_t bytes = 1;
    for (size_t i = 0; i < count; i++) {
        bytes += strlen(words[i]) + 1;
    }
    char *joined = tool_alloc(bytes);
    bool good = true;
    for (size_t i = 0; good && i < count;) {
        char *end = joined + sprintf(joined, "%s", words[i]);
        bool whole = has_blank(words[i++]);
        while (!whole && i < count && !has_blank(words[i]) && !is_pass(words[i])) {
            end += sprintf(end, " %s", words[i++]);
        }
        good = spec_list_add(list, joined, "", rules, why, why_size);
    }
    free(joined);
    return good;
}

static bool add_stream(struct spec_list *list, FILE *file, const char *name, const struct spec_rules *rules, char *why,
                       size_t why_size)
{
    char *line = NULL;
    size_t capacity = 0;
    bool good = true;
    for (long number = 1; good && getline(&line, &capacity, file) >= 0; number++) {
        char *origin = tool_format("%s:%ld", name, number);
        line[strcspn(line, "#\r\n")] = 0;
        good = spec_list_add(list, line, origin, rules, why, why_size);
        free(origin);
    }
    if (good && ferror(file)) {
        snprintf(why, why_size, "cannot read %s: %s", name, strerror(errno));
        good = false;
    }
    free(line);
    return good;
}

bool spec_list_add_file(struct spec_list *list, const char *path, const struct spec_rules *rules, char *why,
                        size_t why_size)
{
    if (strcmp(path, "-") == 0) {
        return add_stream(list, stdin, "stdin", rules, why, why_size);
    }
    FILE *file = fopen(path, "r");
    if (file == NULL) {
        snprintf(why, why_size, "cannot open %s: %s", path, strerror(errno));
        return false;
    }
    bool good = add_stream(list, file, path, rules, why, why_size);
    fclose(file);
    return good;
}

bool spec_list_add_trace(struct spec_list *list, const char *path, const struct spec_rules *rules, char *why,
                         size_t why_size)
{
    FILE *file = fopen(path, "r");
    if (file == NULL) {
        snprintf(why, why_size, "cannot open %s: %s", path, strerror(errno));
        return false;
    }
    char *line = NULL;
    size_t capacity = 0;
    ssize_t length = 0;
    bool good = true;
    size_t taken = 0;
    while (good && (length = getline(&line, &capacity, file)) > 0) {
        gdpa_spec spec = GDPA_SPEC_INIT;
        const bool whole = line[length - 1] == '\n';
        line[strcspn(line, "\n")] = '\0';
        if (whole && gdpa_spec_parse(line, &spec) == GDPA_OK && gdpa_spec_check(&spec) == GDPA_OK) {
            good = spec_list_add(list, line, path, rules, why, why_size);
            taken++;
        } else {
            list->left_out++;
        }
    }
    if (good && ferror(file)) {
        snprintf(why, why_size, "cannot read %s: %s", path, strerror(errno));
        good = false;
    } else if (good && taken == 0) {
        snprintf(why, why_size, "%s has no whole line with a spec: is it what GDPAJIT_TRACE wrote?", path);
        good = false;
    }
    free(line);
    fclose(file);
    return good;
}

const struct preset_row presets[] = {
    {"minimal", "the smallest useful set: head_dim 128, relu and silu", "fwd head_dim=128 activation=relu,silu\n"},
    {"default", "dense, common head dims, both types, causal and full",
     "fwd head_dim=64,128 dtype=all activation=relu,gelu,gelu_tanh,fast_gelu,silu causal=0,1\n"},
    {"activations", "every activation at head_dim 128, dense and jagged",
     "fwd head_dim=128 activation=all\n"
     "fwd head_dim=128 activation=all layout_q=jagged layout_k=jagged\n"},
    {"gdpa", "recommendation models: jagged queries, jagged or dense keys",
     "fwd head_dim=64,128 activation=relu,gelu_tanh,fast_gelu,silu,fast_silu layout_q=jagged layout_k=jagged,dense\n"},
    {"hstu", "sequential transducers: jagged causal silu",
     "fwd head_dim=32,64,128,256 activation=silu,fast_silu causal=1 layout_q=jagged layout_k=jagged\n"},
    {NULL, NULL, NULL},
};

bool spec_list_add_preset(struct spec_list *list, const char *name, const struct spec_rules *rules, char *why,
                          size_t why_size)
{
    struct nearest nearest = NEAREST_INIT(name);
    for (const struct preset_row *preset = presets; preset->name != NULL; preset++) {
        nearest_offer(&nearest, preset->name);
        if (strcmp(preset->name, name) != 0) {
            continue;
        }
        char *texts = tool_strdup(preset->texts);
        char *rest = NULL;
        bool good = true;
        for (char *line = strtok_r(texts, "\n", &rest); good && line != NULL; line = strtok_r(NULL, "\n", &rest)) {
            good = spec_list_add(list, line, name, rules, why, why_size);
        }
        free(texts);
        return good;
    }
    char hint[96];
    int length =
        snprintf(why, why_size, "no preset %s%s; presets are", name, nearest_hint(&nearest, hint, sizeof hint));
    for (const struct preset_row *preset = presets; preset->name != NULL; preset++) {
        if (length >= 0 && (size_t)length < why_size) {
            length +=
                snprintf(why + length, why_size - (size_t)length, "%s %s", preset == presets ? "" : ",", preset->name);
        }
    }
    return false;
}

bool spec_from_words(const char *const *words, size_t count, gdpa_spec *spec, char *why, size_t why_size)
{
    size_t bytes = 1;
    for (size_t i = 0; i < count; i++) {
        bytes += strlen(words[i]) + 1;
    }
    char *joined = tool_alloc(bytes);
    char *end = joined;
    *end = 0;
    for (size_t i = 0; i < count; i++) {
        end += sprintf(end, "%s%s", i == 0 ? "" : " ", words[i]);
    }
    gdpa_status status = gdpa_spec_parse(joined, spec);
    if (status != GDPA_OK) {
        snprintf(why, why_size, "%s", gdpa_last_error());
    }
    free(joined);
    return status == GDPA_OK;
}

bool spec_arch_default(const char *command, const char *arch, gdpa_spec *spec, char *why, size_t why_size)
{
    int *numbers = NULL;
    size_t count = 0;
    if (arch != NULL && !arch_list_parse(arch, &numbers, &count, why, why_size)) {
        return false;
    }
    if (count > 1) {
        snprintf(why, why_size, "%s takes one architecture, and --arch %s is %zu", command, arch, count);
    } else if (count == 1 && spec->arch == 0) {
        spec->arch = numbers[0];
    }
    free(numbers);
    return count <= 1;
}
