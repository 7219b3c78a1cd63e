/*
 * The words of a spec; see vocabulary.h.
 */
#include "tools/vocabulary.h"

#include "tools/term.h"
#include "tools/tool.h"

#include <stdlib.h>
#include <string.h>

const struct spec_word spec_words[] = {
    {"pass", "", "fwd (default) or bwd", "CHOICE_PASS", 1, 2, offsetof(gdpa_spec, pass)},
#define OPTION(field, kind, aliases, lowest, highest, step, doc)                                                       \
    {#field, aliases, doc, #kind, lowest, highest, offsetof(gdpa_spec, field)},
#include "gen/options.def"
#undef OPTION
};
const size_t spec_word_count = sizeof spec_words / sizeof *spec_words;

/* Every value of every choice; table is what follows CHOICE_ in the kind of an option. */
static const struct {
    const char *table, *name, *aliases;
    int number;
} choice_values[] = {
#define PASS(suffix, number, name, aliases, doc) {"PASS", name, aliases, number},
#define LAYOUT(suffix, number, name, aliases, doc) {"LAYOUT", name, aliases, number},
#define ALIGN(suffix, number, name, aliases, doc) {"ALIGN", name, aliases, number},
#define SCHEDULE(suffix, number, name, aliases, doc) {"SCHEDULE", name, aliases, number},
#define FAMILY(suffix, number, name, aliases, doc) {"FAMILY", name, aliases, number},
#define FAMILY(suffix, number, name, aliases, doc) {"FAMILY", name, aliases, number},
#include "gen/choices.def"
#define DTYPE(suffix, number, name, aliases, bytes, is_input) {"DTYPE", name, aliases, number},
#include "gen/dtypes.def"
#undef DTYPE
#define ACTIVATION(suffix, number, name, aliases, file, kind, rel, abs, param, formula, derivative)                    \
    {"ACTIVATION", name, aliases, number},
#include "gen/activations.def"
#undef ACTIVATION
#define ARCH(number, target, aliases, smem_block, smem_sm, regs_sm, warps_sm, description)                             \
    {"ARCH", target, aliases, number},
#include "gen/archs.def"
#undef ARCH
};

static const struct arch_limits archs[] = {
#define ARCH(number, target, aliases, smem_block, smem_sm, regs_sm, warps_sm, description)                             \
    {number, target, aliases, description, smem_block, smem_sm, regs_sm, warps_sm},
#include "gen/archs.def"
#undef ARCH
};
enum { ARCH_COUNT = sizeof archs / sizeof *archs };

/* Whether a blank-separated list holds the word. */
static bool word_in(const char *words, const char *word, size_t length)
{
    for (const char *at = words; *at != 0;) {
        size_t here = strcspn(at, " ");
        if (here == length && strncmp(at, word, length) == 0) {
            return true;
        }
        at += here + (at[here] == ' ' ? 1 : 0);
    }
    return false;
}

const struct spec_word *spec_word_find(const char *name, size_t length)
{
    for (size_t i = 0; i < spec_word_count; i++) {
        if (word_in(spec_words[i].name, name, length) || word_in(spec_words[i].aliases, name, length)) {
            return &spec_words[i];
        }
    }
    return NULL;
}

const char *spec_word_value(const struct spec_word *word, size_t index, const char **aliases)
{
    static const char prefix[] = "CHOICE_";
    if (strncmp(word->kind, prefix, sizeof prefix - 1) != 0) {
        return NULL;
    }
    for (size_t i = 0; i < sizeof choice_values / sizeof *choice_values; i++) {
        bool legal = strcmp(choice_values[i].table, word->kind + sizeof prefix - 1) == 0 &&
                     choice_values[i].number >= word->lowest && choice_values[i].number <= word->highest;
        if (legal && index-- == 0) {
            if (aliases != NULL) {
                *aliases = choice_values[i].aliases;
            }
            return choice_values[i].name;
        }
    }
    return NULL;
}

static int raw_number(const struct spec_word *word, const gdpa_spec *spec)
{
    int32_t value;
    memcpy(&value, (const char *)spec + word->offset, sizeof value);
    return value;
}

int spec_word_number(const struct spec_word *word, const gdpa_spec *spec)
{
    int value = raw_number(word, spec);
    if (word->offset == offsetof(gdpa_spec, window_left)) {
        return (spec->flags & GDPA_SPEC_WINDOW_LEFT) != 0 ? value : -1;
    }
    if (word->offset == offsetof(gdpa_spec, window_right)) {
        if (spec->causal != 0) {
            return 0;
        }
        return (spec->flags & GDPA_SPEC_WINDOW_RIGHT) != 0 ? value : -1;
    }
    if (value != 0 || strcmp(word->kind, "BOOL") == 0) {
        return value;
    }
    if (word->offset == offsetof(gdpa_spec, head_dim_v)) {
        return spec->head_dim;
    }
    if (word->offset == offsetof(gdpa_spec, out_dtype)) {
        return spec->dtype != 0 ? spec->dtype : GDPA_DTYPE_BF16;
    }
    bool has_default = word->offset != offsetof(gdpa_spec, head_dim) &&
                       word->offset != offsetof(gdpa_spec, activation) && word->offset != offsetof(gdpa_spec, arch);
    return has_default ? 1 : 0; /* the default of every choice is its first value */
}

const struct arch_limits *arch_limits_find(int number)
{
    for (size_t i = 0; i < ARCH_COUNT; i++) {
        if (archs[i].number == number) {
            return &archs[i];
        }
    }
    return NULL;
}

static void add_arch(int number, int *numbers, size_t *count)
{
    for (size_t i = 0; i < *count; i++) {
        if (numbers[i] == number) {
            return;
        }
    }
    numbers[(*count)++] = number;
}

static bool add_arch_word(const char *word, int *numbers, size_t *count, char *why, size_t why_size)
{
    bool all = strcmp(word, "all") == 0;
    bool found = all;
    char known[256] = "";
    struct nearest nearest = NEAREST_INIT(word);
    for (size_t i = 0; i < ARCH_COUNT; i++) {
        if (all || strcmp(word, archs[i].target) == 0 || word_in(archs[i].aliases, word, strlen(word))) {
            add_arch(archs[i].number, numbers, count);
            found = true;
        }
        nearest_offer(&nearest, archs[i].target);
        size_t length = strlen(known);
        snprintf(known + length, sizeof known - length, "%s, ", archs[i].target);
    }
    if (!found) {
        char hint[96];
        snprintf(why, why_size, "unknown architecture %s%s; known are %sall", word,
                 nearest_hint(&nearest, hint, sizeof hint), known);
    }
    return found;
}

bool arch_list_parse(const char *text, int **numbers, size_t *count, char *why, size_t why_size)
{
    char *words = tool_strdup(text);
    char *rest = NULL;
    int *found = tool_alloc(ARCH_COUNT * sizeof *found);
    size_t found_count = 0;
    bool good = true;
    for (char *word = strtok_r(words, ", ", &rest); good && word != NULL; word = strtok_r(NULL, ", ", &rest)) {
        good = add_arch_word(word, found, &found_count, why, why_size);
    }
    if (good && found_count == 0) {
        snprintf(why, why_size, "no architecture in '%s'", text);
        good = false;
    }
    free(words);
    if (!good) {
        free(found);
        return false;
    }
    *numbers = found;
    *count = found_count;
    return true;
}
