/*
 * What gdpa_ctx_describe tells, as names and values.
 */
#ifndef GDPA_TOOLS_FACTS_H
#define GDPA_TOOLS_FACTS_H

#include <jansson.h>
#include <stddef.h>

struct fact {
    char *name, *value; /* a value of several lines has them separated by newlines, without their indentation */
};

struct facts {
    struct fact *rows;
    size_t count;
};

/* Reads "name: value" lines; lines that start with a blank belong to the value before. */
void facts_parse(const char *text, struct facts *facts);
void facts_deinit(struct facts *facts);

/* The value of a name; NULL when there is none. */
const char *facts_find(const struct facts *facts, const char *name);

/* {"name": "value", ...} */
json_t *facts_json(const struct facts *facts);

#endif
