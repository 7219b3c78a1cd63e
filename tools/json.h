/*
 * Machine output. Every object that gdpa-jit prints starts with "schema" (a number that changes when a field is renamed or
 * removed, not when one is added) and "type". One object a line.
 */
#ifndef GDPA_TOOLS_JSON_H
#define GDPA_TOOLS_JSON_H

#include <jansson.h>
#include <stdio.h>

#define JSON_SCHEMA 1

/* {"schema":1,"type":type}, to be filled in with the json_set_ calls and given to json_print. */
json_t *json_report(const char *type);

/* NULL texts and numbers that are not finite become null. */
void json_set_text(json_t *object, const char *name, const char *text);
void json_set_integer(json_t *object, const char *name, long long value);
void json_set_real(json_t *object, const char *name, double value);
void json_set_bool(json_t *object, const char *name, int value);
void json_set(json_t *object, const char *name, json_t *value); /* takes the reference */

/* Prints one line, flushes it and drops the reference. */
void json_print(FILE *out, json_t *object);

#endif
