/*
 * Names and values; see facts.h.
 */
#include "tools/facts.h"

#include "tools/json.h"
#include "tools/tool.h"

#include <stdlib.h>
#include <string.h>

static void append_line(struct fact *fact, const char *line, size_t length)
{
    char *longer = tool_format("%s\n%.*s", fact->value, (int)length, line);
    free(fact->value);
    fact->value = longer;
}

static void add_fact(struct facts *facts, const char *line, size_t length)
{
    size_t name_length = 0;
    while (name_length < length && line[name_length] != ':') {
        name_length++;
    }
    size_t value_at = name_length;
    while (value_at < length && (line[value_at] == ':' || line[value_at] == ' ')) {
        value_at++;
    }
    facts->rows = tool_realloc(facts->rows, (facts->count + 1) * sizeof *facts->rows);
    struct fact *fact = &facts->rows[facts->count++];
    fact->name = tool_format("%.*s", (int)name_length, line);
    fact->value = tool_format("%.*s", (int)(length - value_at), line + value_at);
}

void facts_parse(const char *text, struct facts *facts)
{
    facts->rows = NULL;
    facts->count = 0;
    while (*text != 0) {
        size_t length = strcspn(text, "\n");
        size_t indentation = strspn(text, " \t");
        if (indentation > 0 && indentation < length && facts->count > 0) {
            append_line(&facts->rows[facts->count - 1], text + indentation, length - indentation);
        } else if (indentation < length) {
            add_fact(facts, text + indentation, length - indentation);
        }
        text += length + (text[length] == '\n' ? 1 : 0);
    }
}

void facts_deinit(struct facts *facts)
{
    for (size_t i = 0; i < facts->count; i++) {
        free(facts->rows[i].name);
        free(facts->rows[i].value);
    }
    free(facts->rows);
    facts->rows = NULL;
    facts->count = 0;
}

const char *facts_find(const struct facts *facts, const char *name)
{
    for (size_t i = 0; i < facts->count; i++) {
        if (strcmp(facts->rows[i].name, name) == 0) {
            return facts->rows[i].value;
        }
    }
    return NULL;
}

json_t *facts_json(const struct facts *facts)
{
    json_t *object = json_object();
    for (size_t i = 0; i < facts->count; i++) {
        json_set_text(object, facts->rows[i].name, facts->rows[i].value);
    }
    return object;
}
