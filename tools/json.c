/*
 * Machine output; see json.h.
 */
#include "tools/json.h"

#include "tools/tool.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static json_t *must(json_t *value)
{
    if (value == NULL) {
        fprintf(stderr, "gdpa-jit: out of memory, or a text that is not UTF-8, in JSON output\n");
        exit(EXIT_SOME_FAILED);
    }
    return value;
}

json_t *json_report(const char *type)
{
    json_t *object = must(json_object());
    json_set_integer(object, "schema", JSON_SCHEMA);
    json_set_text(object, "type", type);
    return object;
}

void json_set(json_t *object, const char *name, json_t *value)
{
    if (json_object_set_new(object, name, must(value)) != 0) {
        must(NULL);
    }
}

/* A text with bytes that are no UTF-8 (a path, say) as Latin-1, so that it can be printed at all. */
static json_t *text_value(const char *text)
{
    json_t *value = json_string(text);
    if (value != NULL) {
        return value;
    }
    char *wide = tool_alloc(2 * strlen(text) + 1);
    char *to = wide;
    for (const unsigned char *from = (const unsigned char *)text; *from != 0; from++) {
        if (*from < 0x80) {
            *to++ = (char)*from;
        } else {
            *to++ = (char)(0xc0 | (*from >> 6));
            *to++ = (char)(0x80 | (*from & 0x3f));
        }
    }
    *to = 0;
    value = json_string(wide);
    free(wide);
    return value;
}

void json_set_text(json_t *object, const char *name, const char *text)
{
    json_set(object, name, text == NULL ? json_null() : text_value(text));
}

void json_set_integer(json_t *object, const char *name, long long value)
{
    json_set(object, name, json_integer(value));
}

void json_set_real(json_t *object, const char *name, double value)
{
    json_set(object, name, isfinite(value) ? json_real(value) : json_null());
}

void json_set_bool(json_t *object, const char *name, int value)
{
    json_set(object, name, json_boolean(value));
}

void json_print(FILE *out, json_t *object)
{
    json_dumpf(object, out, JSON_COMPACT | JSON_REAL_PRECISION(9));
    fputc('\n', out);
    fflush(out);
    json_decref(object);
}
