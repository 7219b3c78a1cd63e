/*
 * Why a kernel is not found: what it is looked for by, the entry that comes nearest, and the first part of the two keys
 * that differs.
 */
#include "runtime/kernel_job.h"

#include <stdlib.h>
#include <string.h>

#define VALUE_SHOWN 100

/* The entry with the most equal parts; of equally near ones the one used last, which comes first. */
struct nearest {
    const struct kernel_identity *identity;
    struct cache_key key;
    char name[256];
    struct sbuf spec;
    int score; /* -1: none yet */
};

static bool parts_equal(const struct cache_material_part *a, const struct cache_material_part *b)
{
    return a->hashed == b->hashed && a->size == b->size && a->stored.size == b->stored.size &&
           memcmp(a->stored.data, b->stored.data, a->stored.size) == 0;
}

static bool label_is(const struct cache_material_part *part, const char *label)
{
    return part->label.size == strlen(label) && memcmp(part->label.data, label, part->label.size) == 0;
}

/* The part of another material with the same label. */
static bool part_find(const struct cache_bytes *material, const struct cache_material_part *wanted,
                      struct cache_material_part *part)
{
    size_t at = 0;
    bool more = cache_material_first(material, &at);
    while (more && (more = cache_material_next(material, &at, part))) {
        if (part->label.size == wanted->label.size &&
            memcmp(part->label.data, wanted->label.data, part->label.size) == 0) {
            return true;
        }
    }
    return false;
}

static int parts_in_common(const struct cache_bytes *ours, const struct cache_bytes *theirs)
{
    struct cache_material_part part, other;
    size_t at = 0;
    int count = 0;
    bool more = cache_material_first(ours, &at);
    while (more && (more = cache_material_next(ours, &at, &part))) {
        /* The source says most: it is all of the spec and of the generator. */
        count += !part_find(theirs, &part, &other) || !parts_equal(&part, &other) ? 0
                 : label_is(&part, "source")                                      ? 4
                                                                                  : 1;
    }
    return count;
}

/* Without a compiler there is no material of our own: the name and the spec must do. */
static int entry_score(const struct kernel_identity *identity, const struct cache_entry *entry)
{
    int score = identity->material.data != NULL ? parts_in_common(&identity->material, &entry->material) : 0;
    score += strcmp(entry->name, identity->name.text) == 0 ? 2 : 0;
    return score + (strcmp(entry->spec, identity->spec_text.text) == 0 ? 8 : 0);
}

static int entry_look(const struct cache_entry *entry, void *user)
{
    struct nearest *nearest = user;
    const int score = entry_score(nearest->identity, entry);
    if (score > nearest->score) {
        nearest->score = score;
        nearest->key = entry->key;
        size_t length = strlen(entry->name);
        length = length < sizeof nearest->name ? length : sizeof nearest->name - 1;
        memcpy(nearest->name, entry->name, length);
        nearest->name[length] = '\0';
        sbuf_reset(&nearest->spec);
        sbuf_addstr(&nearest->spec, entry->spec);
    }
    return 0;
}

/* ---------------------------------------------------------------------------------------------------------------
 * Text
 * ------------------------------------------------------------------------------------------------------------- */

static void value_print(const struct cache_material_part *part, struct sbuf *text)
{
    const unsigned char *bytes = part->stored.data;
    if (part->hashed) {
        sbuf_addf(text, "%llu bytes, hash ", (unsigned long long)part->size);
        for (size_t i = 0; i < 8 && i < part->stored.size; i++) {
            sbuf_addf(text, "%02x", bytes[i]);
        }
        return;
    }
    for (size_t i = 0; i < part->stored.size && i < VALUE_SHOWN; i++) {
        sbuf_addf(text, "%c", bytes[i] == '\n' ? ' ' : bytes[i] < 32 ? '?' : bytes[i]);
    }
    sbuf_addstr(text, part->stored.size > VALUE_SHOWN ? "..." : "");
}

static void line_print(const char *line, struct sbuf *text)
{
    size_t length = strcspn(line, "\n");
    sbuf_add(text, line, length < VALUE_SHOWN ? length : VALUE_SHOWN);
    sbuf_addstr(text, length < VALUE_SHOWN ? "\n" : "...\n");
}

/* Where two sources part; the stored one may have been evicted. */
static void sources_print(struct cache *cache, const struct nearest *nearest, struct sbuf *text)
{
    struct cache_entry entry;
    if (cache_get(cache, &nearest->key, NULL, 0, true, &entry) != CACHE_OK) {
        return;
    }
    const struct cache_bytes *source = &entry.aux[CACHE_AUX_SOURCE];
    if (source->data == NULL) {
        sbuf_addstr(text, "different.source: the entry was stored without it\n");
        cache_entry_deinit(&entry);
        return;
    }
    const char *ours = nearest->identity->source.text;
    char *theirs = strndup(source->data, source->size);
    size_t line = 1, at = 0, begin = 0;
    while (theirs != NULL && ours[at] != '\0' && ours[at] == theirs[at]) {
        if (ours[at++] == '\n') {
            line++;
            begin = at;
        }
    }
    if (theirs != NULL) {
        sbuf_addf(text, "different.line: %zu\ndifferent.here: ", line);
        line_print(ours + begin, text);
        sbuf_addstr(text, "different.there: ");
        line_print(theirs + begin, text);
    }
    free(theirs);
    cache_entry_deinit(&entry);
}

/* One line a part; the first that differs is the answer. */
static void parts_print(struct cache *cache, const struct nearest *nearest, const struct cache_bytes *theirs,
                        struct sbuf *text)
{
    const struct cache_bytes *ours = &nearest->identity->material;
    struct cache_material_part part, other;
    size_t at = 0;
    bool first = true, more = cache_material_first(ours, &at);
    while (more && (more = cache_material_next(ours, &at, &part))) {
        const bool there = part_find(theirs, &part, &other);
        if (there && parts_equal(&part, &other)) {
            continue;
        }
        sbuf_addf(text, "%s: %.*s: here ", first ? "different" : "different.also", (int)part.label.size,
                  (const char *)part.label.data);
        value_print(&part, text);
        sbuf_addstr(text, "; there ");
        if (there) {
            value_print(&other, text);
        } else {
            sbuf_addstr(text, "none");
        }
        sbuf_addstr(text, "\n");
        if (label_is(&part, "source")) {
            sources_print(cache, nearest, text);
        }
        first = false;
    }
}

static void nearest_print(struct cache *cache, const struct nearest *nearest, struct sbuf *text)
{
    char hex[33];
    struct cache_entry entry;
    cache_key_hex(&nearest->key, hex);
    sbuf_addf(text, "nearest: %s\nnearest.key: %s\nnearest.spec: %s\n", nearest->name, hex, nearest->spec.text);
    if (nearest->identity->material.data == NULL) {
        return;
    }
    if (cache_get(cache, &nearest->key, NULL, 0, false, &entry) == CACHE_OK) {
        parts_print(cache, nearest, &entry.material, text);
        cache_entry_deinit(&entry);
    }
}

static void search_print(gdpa_ctx *ctx, const struct kernel_identity *identity, struct sbuf *text)
{
    struct cache *cache = context_cache(ctx);
    struct nearest nearest = {.identity = identity, .score = -1};
    sbuf_init(&nearest.spec, 4096);
    if (cache == NULL) {
        sbuf_addstr(text, "nearest: none: ");
        sbuf_add_line(text, context_cache_absence(ctx));
        sbuf_addstr(text, "\n");
    } else if (cache_list(cache, entry_look, &nearest) != CACHE_OK) {
        sbuf_addstr(text, "nearest: none: ");
        sbuf_add_line(text, cache_path(cache));
        sbuf_addstr(text, " cannot be read: ");
        sbuf_add_line(text, cache_state(cache));
        sbuf_addstr(text, "\n");
    } else if (nearest.score < 0) {
        sbuf_addstr(text, "nearest: none: ");
        sbuf_add_line(text, cache_path(cache));
        sbuf_addstr(text, " is empty\n");
    } else {
        nearest_print(cache, &nearest, text);
    }
    sbuf_deinit(&nearest.spec);
}

static void why_print(gdpa_ctx *ctx, const struct kernel_identity *identity, struct sbuf *text)
{
    char hex[33] = "unknown";
    if (identity->material.data != NULL) {
        cache_key_hex(&identity->key, hex);
    }
    sbuf_addf(text, "spec: %s\nname: %s\nkey: %s\n", identity->spec_text.text, identity->name.text, hex);
    if (identity->material.data == NULL) {
        sbuf_addstr(text, "key.missing: ");
        for (const char *byte = identity->no_key.text; *byte != '\0'; byte++) {
            sbuf_add(text, byte, 1);
            sbuf_addstr(text, *byte == '\n' ? "    " : ""); /* more of the same value */
        }
        sbuf_addstr(text, "\n");
    }
    sbuf_addstr(text, "found: ");
    sbuf_add_line(text, identity->found_in != NULL ? cache_path(identity->found_in) : "no");
    sbuf_addstr(text, "\n");
    if (identity->found_in == NULL) {
        search_print(ctx, identity, text);
    }
}

gdpa_status gdpa_cache_why(gdpa_ctx *ctx, const gdpa_spec *spec, char *text, size_t capacity, size_t *length)
{
    FAIL_IF(ctx == NULL || spec == NULL, GDPA_E_ARGUMENT, "%s is NULL", ctx == NULL ? "ctx" : "spec");
    gdpa_spec complete;
    struct kernel_identity identity;
    struct sbuf answer, why;
    TRY(kernel_spec_complete(ctx, spec, NULL, &complete));
    sbuf_init(&answer, (size_t)1 << 18);
    sbuf_init(&why, WHY_LIMIT);
    gdpa_status status = kernel_identify(ctx, &complete, &identity, &why);
    if (status == GDPA_OK) {
        why_print(ctx, &identity, &answer);
        status = answer.overflow ? error_set(GDPA_E_MEMORY, "no memory for the text")
                                 : bytes_give("text", answer.text, answer.length, true, text, capacity, length);
    } else {
        error_set_why(status, &why);
    }
    kernel_identity_deinit(&identity);
    sbuf_deinit(&why);
    sbuf_deinit(&answer);
    return status;
}
