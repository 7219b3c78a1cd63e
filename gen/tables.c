/*
 * The .def tables as arrays, and look-ups in them. The tables are small: every search is a walk.
 */
#include "gen/tables.h"

#include <string.h>

enum activation_kind { ACTIVATION_KIND_EXACT, ACTIVATION_KIND_APPROX };

static const struct activation_row activation_rows[] = {
#define ACTIVATION(SUFFIX, number_, name_, aliases_, file_, kind_, rel_, abs_, param_, formula_, derivative_)          \
    {.suffix = #SUFFIX,                                                                                                \
     .name = name_,                                                                                                    \
     .aliases = aliases_,                                                                                              \
     .file = file_,                                                                                                    \
     .formula = formula_,                                                                                              \
     .derivative = derivative_,                                                                                        \
     .number = number_,                                                                                                \
     .exact = ACTIVATION_KIND_##kind_ == ACTIVATION_KIND_EXACT,                                                        \
     .rel = rel_,                                                                                                      \
     .abs = abs_,                                                                                                      \
     .param_default = param_},
#include "gen/activations.def"
#undef ACTIVATION
};

static const struct dtype_row dtype_rows[] = {
#define DTYPE(SUFFIX, number, name, aliases, bytes, is_input) {#SUFFIX, name, aliases, number, bytes, is_input},
#include "gen/dtypes.def"
#undef DTYPE
};

static const struct arch_row arch_rows[] = {
#define ARCH(number, target, aliases, smem_block, smem_sm, regs_sm, warps_sm, description)                             \
    {target, aliases, description, number, smem_block, smem_sm, regs_sm, warps_sm},
#include "gen/archs.def"
#undef ARCH
};

const struct option_row option_rows[OPTION_COUNT] = {
#define OPTION(field, kind_, aliases_, lowest_, highest_, step_, doc_)                                                 \
    {.id = OPTION_ID_##field,                                                                                          \
     .name = #field,                                                                                                   \
     .aliases = aliases_,                                                                                              \
     .doc = doc_,                                                                                                      \
     .kind = OPTION_KIND_##kind_,                                                                                      \
     .lowest = lowest_,                                                                                                \
     .highest = highest_,                                                                                              \
     .step = step_,                                                                                                    \
     .offset = offsetof(gdpa_spec, field)},
#include "gen/options.def"
#undef OPTION
};

static const struct choice activation_choices[] = {
#define ACTIVATION(SUFFIX, number, name, aliases, file, kind, rel, abs, param, formula, derivative)                    \
    {number, name, aliases, formula},
#include "gen/activations.def"
#undef ACTIVATION
};

static const struct choice dtype_choices[] = {
#define DTYPE(SUFFIX, number, name, aliases, bytes, is_input)                                                          \
    {number, name, aliases, (is_input) ? "inputs, and results" : "results alone: o, or dq, dk and dv"},
#include "gen/dtypes.def"
#undef DTYPE
};

static const struct choice arch_choices[] = {
#define ARCH(number, target, aliases, smem_block, smem_sm, regs_sm, warps_sm, description)                             \
    {number, target, aliases, description},
#include "gen/archs.def"
#undef ARCH
};

static const struct choice pass_choices[] = {
#define PASS(SUFFIX, number, name, aliases, doc) {number, name, aliases, doc},
#include "gen/choices.def"
};

static const struct choice layout_choices[] = {
#define LAYOUT(SUFFIX, number, name, aliases, doc) {number, name, aliases, doc},
#include "gen/choices.def"
};

static const struct choice align_choices[] = {
#define ALIGN(SUFFIX, number, name, aliases, doc) {number, name, aliases, doc},
#include "gen/choices.def"
};

static const struct choice schedule_choices[] = {
#define SCHEDULE(SUFFIX, number, name, aliases, doc) {number, name, aliases, doc},
#include "gen/choices.def"
};

static const struct choice family_choices[] = {
#define FAMILY(SUFFIX, number, name, aliases, doc) {number, name, aliases, doc},
#include "gen/choices.def"
};

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

const struct activation_row *activation_find(int number)
{
    for (size_t i = 0; i < COUNT_OF(activation_rows); ++i) {
        if (activation_rows[i].number == number) {
            return &activation_rows[i];
        }
    }
    return NULL;
}

const struct dtype_row *dtype_find(int number)
{
    for (size_t i = 0; i < COUNT_OF(dtype_rows); ++i) {
        if (dtype_rows[i].number == number) {
            return &dtype_rows[i];
        }
    }
    return NULL;
}

const struct arch_row *arch_find(int number)
{
    for (size_t i = 0; i < COUNT_OF(arch_rows); ++i) {
        if (arch_rows[i].number == number) {
            return &arch_rows[i];
        }
    }
    return NULL;
}

/* Every option is an int32_t. */
int32_t option_get(const struct option_row *row, const gdpa_spec *spec)
{
    const void *field = (const unsigned char *)spec + row->offset;
    return *(const int32_t *)field;
}

void option_set(const struct option_row *row, gdpa_spec *spec, int32_t value)
{
    void *field = (unsigned char *)spec + row->offset;
    *(int32_t *)field = value;
}

const struct option_row *option_find(const char *word, size_t length)
{
    for (size_t i = 0; i < OPTION_COUNT; ++i) {
        const struct option_row *row = &option_rows[i];
        if (word_list_has(row->name, word, length) || word_list_has(row->aliases, word, length)) {
            return row;
        }
    }
    return NULL;
}

struct choice_table choice_table(enum option_kind kind)
{
    switch (kind) {
    case OPTION_KIND_INT:
    case OPTION_KIND_BOOL:
        break;
    case OPTION_KIND_CHOICE_PASS:
        return (struct choice_table){pass_choices, COUNT_OF(pass_choices)};
    case OPTION_KIND_CHOICE_DTYPE:
        return (struct choice_table){dtype_choices, COUNT_OF(dtype_choices)};
    case OPTION_KIND_CHOICE_ACTIVATION:
        return (struct choice_table){activation_choices, COUNT_OF(activation_choices)};
    case OPTION_KIND_CHOICE_ALIGN:
        return (struct choice_table){align_choices, COUNT_OF(align_choices)};
    case OPTION_KIND_CHOICE_LAYOUT:
        return (struct choice_table){layout_choices, COUNT_OF(layout_choices)};
    case OPTION_KIND_CHOICE_SCHEDULE:
        return (struct choice_table){schedule_choices, COUNT_OF(schedule_choices)};
    case OPTION_KIND_CHOICE_FAMILY:
        return (struct choice_table){family_choices, COUNT_OF(family_choices)};
    case OPTION_KIND_CHOICE_ARCH:
        return (struct choice_table){arch_choices, COUNT_OF(arch_choices)};
    }
    return (struct choice_table){NULL, 0};
}

const struct choice *choice_by_number(enum option_kind kind, int32_t number)
{
    struct choice_table table = choice_table(kind);
    for (size_t i = 0; i < table.count; ++i) {
        if (table.rows[i].number == number) {
            return &table.rows[i];
        }
    }
    return NULL;
}

const struct choice *choice_by_word(enum option_kind kind, const char *word, size_t length)
{
    struct choice_table table = choice_table(kind);
    for (size_t i = 0; i < table.count; ++i) {
        const struct choice *row = &table.rows[i];
        if (word_list_has(row->name, word, length) || word_list_has(row->aliases, word, length)) {
            return row;
        }
    }
    return NULL;
}

bool word_list_has(const char *list, const char *word, size_t length)
{
    while (*list != '\0') {
        size_t here = strcspn(list, " ");
        if (here == length && length > 0 && memcmp(list, word, length) == 0) {
            return true;
        }
        list += here;
        list += strspn(list, " ");
    }
    return false;
}
