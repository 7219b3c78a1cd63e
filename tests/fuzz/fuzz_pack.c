/*
 * Packs that were damaged or forged, and lists of packs: opening, listing and reading neither crash nor give out an entry
 * that is not as it was stored.
 *
 *     byte 0: 0: the rest is a whole file; 1: the rest is a list of packs; else: changes to a good pack, of 5 bytes each
 *     (place, and the byte that is put there), the last one cutting its end
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* memfd_create */
#endif
#include "tests/fuzz/fuzz.h"

#include "cache/cache.h"
#include "runtime/packs.h"

#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { ENTRIES = 3, PACK_MAX = 1 << 20 };

static uint8_t good[PACK_MAX];
static size_t good_size;

static void code_fill(uint8_t code[6000], int number)
{
    for (int i = 0; i < 6000; i++) {
        code[i] = (uint8_t)(i * 7 + number);
    }
}

static void entry_put(struct cache *pack, int number)
{
    static uint8_t code[6000];
    char name[32];
    uint8_t *material = NULL;
    size_t material_size = 0;
    const struct cache_key_part part = {"number", &number, sizeof number};
    struct cache_entry entry;
    memset(&entry, 0, sizeof entry);
    FUZZ_EXPECT(cache_key_make(&part, 1, &entry.key, &material, &material_size) == CACHE_OK);
    code_fill(code, number);
    (void)snprintf(name, sizeof name, "kernel_%d", number);
    entry.material = (struct cache_bytes){material, material_size};
    entry.code = (struct cache_bytes){code, sizeof code};
    entry.aux[CACHE_AUX_SOURCE] = (struct cache_bytes){"source", 6};
    entry.name = name;
    entry.spec = entry.target = entry.nvrtc = entry.source_hash = "x";
    entry.threads = number;
    FUZZ_EXPECT(cache_put(pack, &entry) == CACHE_OK);
    free(material);
}

/* A good pack, once. */
static void good_make(void)
{
    char path[] = "/tmp/gdpa-fuzz-pack-XXXXXX", why[1024];
    FUZZ_EXPECT(mkstemp(path) >= 0);
    struct cache *pack = cache_pack_create(path, why, sizeof why);
    FUZZ_EXPECT(pack != NULL);
    for (int i = 0; i < ENTRIES; i++) {
        entry_put(pack, i);
    }
    FUZZ_EXPECT(cache_pack_publish(pack, why, sizeof why));
    cache_close(pack);
    FILE *file = fopen(path, "rb");
    FUZZ_EXPECT(file != NULL);
    good_size = fread(good, 1, sizeof good, file);
    (void)fclose(file);
    (void)unlink(path);
    FUZZ_EXPECT(good_size > 0 && good_size < sizeof good);
}

/* What comes out is what went in, or nothing. */
static int entry_check(const struct cache_entry *listed, void *user)
{
    static uint8_t code[6000];
    struct cache_entry entry;
    struct cache *pack = user;
    if (cache_get(pack, &listed->key, NULL, 0, true, &entry) != CACHE_OK) {
        return 0;
    }
    FUZZ_EXPECT(entry.threads >= 0 && entry.threads < ENTRIES && entry.code.size == sizeof code);
    code_fill(code, entry.threads);
    FUZZ_EXPECT(memcmp(entry.code.data, code, sizeof code) == 0);
    FUZZ_EXPECT(entry.aux[CACHE_AUX_SOURCE].data == NULL || memcmp(entry.aux[CACHE_AUX_SOURCE].data, "source", 6) == 0);
    cache_entry_deinit(&entry);
    return 0;
}

static void file_take(const uint8_t *bytes, size_t size, bool forged)
{
    char path[64];
    const int file = memfd_create("pack", MFD_CLOEXEC);
    FUZZ_EXPECT(file >= 0 && write(file, bytes, size) == (ssize_t)size);
    FUZZ_EXPECT(fchmod(file, 0600) == 0);
    (void)snprintf(path, sizeof path, "/proc/self/fd/%d", file);
    /* By its path it would be resolved to a name that cannot be opened: the bytes are used, as those of a hashed one. */
    char hex[CACHE_SHA256_HEX], why[1024];
    FUZZ_EXPECT(cache_file_sha256(path, hex, why, sizeof why));
    const struct cache_pack_options options = {.path = path, .sha256 = hex};
    struct cache *pack = cache_pack_open(&options);
    FUZZ_EXPECT(pack != NULL);
    if (!forged) {
        (void)cache_list(pack, entry_check, pack);
    }
    int64_t entries = 0, count = 0, limit = 0;
    struct cache_key key;
    (void)cache_totals(pack, &entries, &count, &limit);
    (void)cache_find(pack, "kernel", &key, &count);
    FUZZ_EXPECT(cache_remove(pack, NULL, NULL) == CACHE_UNUSABLE);
    cache_close(pack);
    (void)close(file);
}

static void changes_take(struct fuzz_input *input)
{
    static uint8_t bytes[PACK_MAX];
    size_t size = good_size;
    memcpy(bytes, good, good_size);
    while (input->size > 5) {
        size_t place = 0;
        for (int i = 0; i < 4; i++) {
            place = place << 8 | fuzz_byte(input);
        }
        bytes[place % good_size] = fuzz_byte(input);
    }
    if (input->size == 5) {
        size = (size_t)(fuzz_number(input) % good_size);
    }
    file_take(bytes, size, false);
}

/* Names, colons, hashes; the files are not there. */
static void list_take(const struct fuzz_input *input)
{
    struct packs packs;
    struct sbuf why;
    char *names = malloc(input->size + 1);
    FUZZ_EXPECT(names != NULL);
    for (size_t i = 0; i < input->size; i++) {
        names[i] = (char)(input->data[i] == '/' ? '_' : input->data[i]); /* nothing outside of this folder */
    }
    names[input->size] = '\0';
    sbuf_init(&why, 1 << 16);
    if (packs_open(names, NULL, NULL, NULL, &packs, &why) != GDPA_OK) {
        FUZZ_EXPECT(why.length > 0);
    }
    FUZZ_EXPECT(packs.count >= 0);
    packs_close(&packs);
    sbuf_deinit(&why);
    free(names);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_input input = {data, size};
    if (good_size == 0) {
        good_make();
    }
    switch (fuzz_byte(&input) % 4) {
    case 0:
        file_take(input.data, input.size, true);
        break;
    case 1:
        list_take(&input);
        break;
    default:
        changes_take(&input);
    }
    return 0;
}
