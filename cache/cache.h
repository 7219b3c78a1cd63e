/*
 * The disk cache: one SQLite database of compiled kernels. Knows nothing of CUDA, specs or the generator: it stores
 * bytes under a key, and gives back only bytes that it has checked. See docs/cache.md.
 *
 * Every call is safe from any thread (one connection behind one mutex; this is not the hot path). A database that is
 * damaged, locked, full or read-only makes calls return CACHE_UNUSABLE or CACHE_MISS, never wrong bytes.
 */
#ifndef GDPA_CACHE_CACHE_H
#define GDPA_CACHE_CACHE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum cache_result {
    CACHE_OK = 0,
    CACHE_MISS,     /* no such entry, or one that failed its checks (it is then removed and counted) */
    CACHE_UNUSABLE, /* cannot read or write: cache_state() says why */
    CACHE_MEMORY
};

struct cache;

struct cache_key {
    uint8_t bytes[16];
};

/* One labelled part of the key material, in a fixed order chosen by the caller. */
struct cache_key_part {
    const char *label;
    const void *data;
    size_t size;
};

/*
 * Canonical key material (label, length, bytes of every part; parts larger than 1 KiB replaced by length and hash with a
 * second seed) and its XXH3-128. *material is malloced; compared byte by byte on every hit.
 */
int cache_key_make(const struct cache_key_part *parts, size_t count, struct cache_key *key, uint8_t **material,
                   size_t *material_size);
void cache_key_hex(const struct cache_key *key, char hex[33]);
bool cache_key_from_hex(const char *hex, struct cache_key *key);

enum cache_aux { CACHE_AUX_SOURCE = 0, CACHE_AUX_PTX, CACHE_AUX_LOG, CACHE_AUX_PLAN, CACHE_AUX_COUNT };

struct cache_bytes {
    const void *data; /* NULL: absent */
    size_t size;
};

/* An entry going in (borrowed pointers) or coming out (freed by cache_entry_deinit). */
struct cache_entry {
    struct cache_key key;
    struct cache_bytes material; /* key material */
    struct cache_bytes code;     /* the cubin */
    struct cache_bytes aux[CACHE_AUX_COUNT];
    const char *name, *spec, *target, *nvrtc, *source_hash;
    int32_t arch, registers, spill_bytes, stack_bytes, smem_static, smem_dynamic, threads;
    double generate_ms, compile_ms;
    uint64_t hits, sequence; /* out only */
    int64_t stored_bytes;    /* out only */
    void *owned;             /* out only: the memory behind the pointers */
};

/*
 * Key material taken apart again, for people who want to know why two keys differ. False at its end, and where it is
 * not as cache_key_make makes it. Pointers are into the material.
 */
struct cache_material_part {
    struct cache_bytes label, stored; /* stored: the data, or its hash */
    bool hashed;
    uint64_t size; /* of the data */
};
bool cache_material_first(const struct cache_bytes *material, size_t *at);
bool cache_material_next(const struct cache_bytes *material, size_t *at, struct cache_material_part *part);

struct cache_options {
    const char *dir; /* folder; made with 0700 when absent. The file name carries the schema number */
    bool read_only;
    bool shared;         /* members of the folder's group may write it, and so decide what runs here */
    int64_t limit_bytes; /* 0: no limit */
    /* Entries whose key material lacks this part are of other versions: the first to be evicted. No data: none are. */
    struct cache_key_part version;
    void (*log)(int level, const char *line, void *user); /* level as gdpa_log_level; may be NULL */
    void *log_user;
};

/* Whether it is, or would be made, on a file system that machines share, or a machine and its guests. */
bool cache_dir_is_network(const char *dir);

/* Never NULL but on lack of memory: a cache that cannot be opened is one whose calls return CACHE_UNUSABLE. */
struct cache *cache_open(const struct cache_options *options);
void cache_close(struct cache *cache);
const char *cache_path(const struct cache *cache);
bool cache_is_writable(const struct cache *cache); /* by its options: no pack, not read-only on purpose */
/* "read-write", "read-only", "read-only: <why>" or why it is unusable. Valid until cache_close. */
const char *cache_state(const struct cache *cache);

/* Checks key material (when given), sizes and hashes; aux parts are read only when with_aux. */
enum cache_result cache_get(struct cache *cache, const struct cache_key *key, const void *material,
                            size_t material_size, bool with_aux, struct cache_entry *out);
/* First writer wins: an entry that is there already stays. */
enum cache_result cache_put(struct cache *cache, const struct cache_entry *entry);
enum cache_result cache_remove(struct cache *cache, const struct cache_key *key, int64_t *removed); /* NULL key: all */
/* Unique prefix of a hex key or of a name -> key. CACHE_MISS when none or several match; *matches says how many. */
enum cache_result cache_find(struct cache *cache, const char *prefix, struct cache_key *key, int64_t *matches);
/* visit gets entries without code and aux (their sizes are filled in), most recently used first; non-zero stops. */
enum cache_result cache_list(struct cache *cache, int (*visit)(const struct cache_entry *entry, void *user),
                             void *user);
/* code_ok (may be NULL) checks the code of an entry beyond its hash. Bad entries are removed. */
enum cache_result cache_verify(struct cache *cache, bool (*code_ok)(const struct cache_entry *entry, void *user),
                               void *user, int64_t *good, int64_t *bad);
enum cache_result cache_totals(struct cache *cache, int64_t *entries, int64_t *bytes, int64_t *limit);

/* What lies in the folder: for people. */
struct cache_details {
    int64_t foreign_entries; /* of other versions */
    int64_t part_bytes;      /* of sources, PTX, logs and plans, as stored */
    int64_t file_bytes;      /* of the database, its log and what was set aside */
    int64_t set_aside;       /* damaged databases */
    bool network;            /* a file system that machines share */
    int locks;               /* 1: turns work here; 0: they do not; -1: not tried, nothing can be stored */
};
enum cache_result cache_describe(struct cache *cache, struct cache_details *details);

/*
 * What a store does in small steps, at once: removes rows that belong to no entry and databases that were set aside,
 * evicts when there is more than the limit (0: that of the options), gives free space back to the file system.
 */
struct cache_gc {
    int64_t entries, parts, set_aside; /* removed */
    int64_t bytes_before, bytes_after; /* file_bytes above */
};
enum cache_result cache_gc(struct cache *cache, int64_t limit_bytes, struct cache_gc *report);

uint64_t cache_evicted(const struct cache *cache); /* entries, by this handle */

/*
 * Packs: a database in one file that is never written again, for fleets and containers. Read without locks, by the calls
 * above (those that write return CACHE_UNUSABLE).
 *
 * Whoever can write a pack decides what runs on the GPU. So the file must belong to this user or to root, and nobody
 * else may write it; or its SHA-256 is given, and then what was hashed is what is used.
 */
#define CACHE_SHA256_HEX 65

struct cache_pack_options {
    const char *path;
    const char *sha256; /* 64 hex digits; NULL: by owner and rights */
    void (*log)(int level, const char *line, void *user);
    void *log_user;
};

/* Never NULL but on lack of memory: cache_state says why one cannot be used. */
struct cache *cache_pack_open(const struct cache_pack_options *options);

/*
 * A new pack, filled by cache_put and shown by cache_pack_publish, which replaces what has the name: readers keep what
 * they have open. NULL, with the reason, when it cannot be made; closed without publishing it leaves nothing.
 */
struct cache *cache_pack_create(const char *path, char *why, size_t why_size);
bool cache_pack_publish(struct cache *pack, char *why, size_t why_size);

/* Of a whole file, in lower case; false with the reason. */
bool cache_file_sha256(const char *path, char hex[CACHE_SHA256_HEX], char *why, size_t why_size);

uint64_t cache_bad_entries(const struct cache *cache);
void cache_entry_deinit(struct cache_entry *entry);

/*
 * One compile a key among all processes that share the folder: who has the turn compiles, the others wait and look again.
 * A lock of the kernel (one byte of a side file), gone with its holder however that dies. It saves work and nothing else:
 * entries are right without it.
 */
struct cache_turn {
    int fd; /* -1: none */
    struct cache_turn *next;
};

enum cache_turn_state {
    CACHE_TURN_MINE,
    CACHE_TURN_TAKEN, /* by another process, or another handle of this one */
    CACHE_TURN_NONE   /* there are no turns here: nothing can be stored, or no lock can be had */
};

void cache_turn_init(struct cache_turn *turn);
/* Never waits. The turn stays where it is in memory until cache_turn_end, which must follow in every case. */
enum cache_turn_state cache_turn_try(struct cache *cache, const struct cache_key *key, struct cache_turn *turn);
void cache_turn_end(struct cache_turn *turn);
/* The process that has the turn, after CACHE_TURN_TAKEN; 0 when it cannot be seen from here (container, other host). */
long cache_turn_holder(const struct cache_turn *turn, const struct cache_key *key);

#endif
