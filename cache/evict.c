/*
 * The size limit. A pass runs after a commit that left more than the limit in use: sources, PTX, logs and plans go first
 * (a kernel runs without them), then entries of other versions (nobody may ask for them again), then the others; of each
 * the least recently used ones first, down to 80 % of the limit. A pass takes small transactions and stops after its share of time; the next put goes on. Readers are never in danger:
 * they have their own copy of what they read.
 */
#include "cache/internal.h"

#include <time.h>

#define BUDGET_MS 20
#define VACUUM_STEP "PRAGMA incremental_vacuum(64)"

static int64_t now_ms(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static int pages(struct cache_database *database, int64_t *total, int64_t *unused, int64_t *page_size)
{
    int error = cache_database_number(database, CACHE_SQL_PAGE_COUNT, total);
    if (error == SQLITE_OK) {
        error = cache_database_number(database, CACHE_SQL_FREE_PAGES, unused);
    }
    if (error == SQLITE_OK) {
        error = cache_database_number(database, CACHE_SQL_PAGE_SIZE, page_size);
    }
    return error;
}

/* What the file would need without its free pages: exact, never out of step, and no scan. */
int cache_used_bytes(struct cache_database *database, int64_t *bytes)
{
    int64_t total, unused, page_size;
    int error = pages(database, &total, &unused, &page_size);
    if (error == SQLITE_OK) {
        *bytes = (total - unused) * page_size;
    }
    return error;
}

struct batch {
    int64_t ids[8];
    int64_t last_sequence;
    int count;
};

static int select_batch(struct cache_database *database, enum cache_statement query, int64_t parameter,
                        const struct cache_bytes *version, struct batch *batch)
{
    int error;
    sqlite3_stmt *statement = cache_database_statement(database, query, &error);
    if (!statement) {
        return error;
    }
    batch->count = 0;
    (void)sqlite3_bind_int64(statement, 1, parameter);
    if (version) {
        (void)sqlite3_bind_blob64(statement, 2, version->data, version->size, SQLITE_STATIC);
    }
    while (batch->count < 8 && (error = sqlite3_step(statement)) == SQLITE_ROW) {
        batch->ids[batch->count++] = sqlite3_column_int64(statement, 0);
        batch->last_sequence = sqlite3_column_int64(statement, 1);
    }
    (void)sqlite3_reset(statement);
    (void)sqlite3_clear_bindings(statement);
    return error == SQLITE_ROW || error == SQLITE_DONE ? SQLITE_OK : error;
}

enum stage { PARTS, FOREIGN, OLDEST };

struct pass {
    struct cache_database *database;
    const struct cache_bytes *version;
    int64_t keep_id; /* what was just stored: to throw it away at once would be of no use */
    int64_t target;
    int64_t deadline;
    struct cache_eviction *progress;
    uint64_t entries; /* removed */
};

/* The next victims of this stage, or of a later one when this has none. */
static int find_victims(struct pass *pass, struct batch *batch)
{
    struct cache_eviction *progress = pass->progress;
    int error = SQLITE_OK;
    while (error == SQLITE_OK && batch->count == 0) {
        if (progress->stage == OLDEST) {
            return select_batch(pass->database, CACHE_SQL_OLDEST, pass->keep_id, NULL, batch);
        }
        if (progress->stage == PARTS) {
            error = select_batch(pass->database, CACHE_SQL_OLDEST_WITH_AUX, progress->from, NULL, batch);
        } else if (pass->version->data) {
            error = select_batch(pass->database, CACHE_SQL_OLDEST_FOREIGN, progress->from, pass->version, batch);
        }
        if (batch->count > 0) {
            progress->from = batch->last_sequence;
        } else if (error == SQLITE_OK) {
            *progress = (struct cache_eviction){.stage = progress->stage + 1};
        }
    }
    return error;
}

/* One transaction. *freed: whether there was anything to evict. */
static int evict_batch(struct pass *pass, bool *freed)
{
    struct batch batch = {.count = 0};
    int error = cache_database_begin_write(pass->database, 0);
    if (error != SQLITE_OK) {
        return error;
    }
    error = find_victims(pass, &batch);
    bool whole = pass->progress->stage != PARTS;
    int64_t used = pass->target + 1;
    int removed = 0;
    while (error == SQLITE_OK && removed < batch.count && used > pass->target) {
        int64_t id = batch.ids[removed++];
        error = whole ? cache_database_delete(pass->database, id)
                      : cache_database_do(pass->database, CACHE_SQL_DELETE_AUX, "i", id);
        if (error == SQLITE_OK) {
            error = cache_used_bytes(pass->database, &used);
        }
    }
    *freed = batch.count > 0;
    error = cache_database_end(pass->database, error);
    if (error == SQLITE_OK && whole) {
        pass->entries += (uint64_t)removed;
    }
    return error;
}

/* Free pages are used again; the file is only made shorter when it is itself above the limit. */
static int shorten(struct pass *pass, int64_t limit)
{
    for (;;) {
        int64_t total, unused, page_size;
        int error = pages(pass->database, &total, &unused, &page_size);
        if (error != SQLITE_OK || unused == 0 || total * page_size <= limit || now_ms() >= pass->deadline) {
            return error;
        }
        error = sqlite3_exec(pass->database->handle, VACUUM_STEP, NULL, NULL, NULL);
        if (error != SQLITE_OK) {
            return error;
        }
    }
}

static int evict_to_target(struct pass *pass, int64_t used, bool *finished)
{
    int error = SQLITE_OK;
    bool freed = true;
    while (error == SQLITE_OK && freed && used > pass->target && now_ms() < pass->deadline) {
        error = evict_batch(pass, &freed);
        if (error == SQLITE_OK) {
            error = cache_used_bytes(pass->database, &used);
        }
    }
    *finished = !freed || used <= pass->target;
    return error;
}

static int run_pass(struct cache *cache, struct pass *pass, int64_t limit)
{
    int64_t total = 0, unused = 0, page_size = 0;
    int error = pages(&cache->database, &total, &unused, &page_size);
    if (error != SQLITE_OK || (total * page_size <= limit && !cache->evicting)) {
        return error;
    }
    int64_t used = (total - unused) * page_size;
    if (cache->evicting || used > limit) {
        bool finished = false;
        error = evict_to_target(pass, used, &finished);
        cache->evicting = !finished;
        if (finished) {
            cache->eviction = (struct cache_eviction){.stage = PARTS};
        }
        atomic_fetch_add(&cache->evicted, pass->entries);
    }
    return error == SQLITE_OK ? shorten(pass, limit) : error;
}

static struct pass make_pass(struct cache *cache, int64_t limit, int64_t deadline)
{
    return (struct pass){.database = &cache->database,
                         .version = &cache->version,
                         .target = limit / 5 * 4,
                         .deadline = deadline,
                         .progress = &cache->eviction};
}

void cache_evict(struct cache *cache, int64_t keep_id)
{
    if (cache->limit == 0) {
        return;
    }
    struct pass pass = make_pass(cache, cache->limit, now_ms() + BUDGET_MS);
    pass.keep_id = keep_id;
    int error = run_pass(cache, &pass, cache->limit);
    if (error != SQLITE_OK && (error & 0xff) != SQLITE_BUSY) {
        (void)cache_failed(cache, error, true, "make room");
    }
}

int cache_evict_fully(struct cache *cache, int64_t limit)
{
    struct pass pass = make_pass(cache, limit, INT64_MAX);
    cache->eviction = (struct cache_eviction){.stage = PARTS};
    return run_pass(cache, &pass, limit);
}

/*
 * A delete writes as well. The log may hold room that a checkpoint frees; then the parts of a few entries go, whose pages
 * the next store fills again.
 */
bool cache_make_room(struct cache *cache)
{
    sqlite3 *handle = cache->database.handle;
    struct cache_eviction progress = {.stage = PARTS};
    struct pass pass = make_pass(cache, 0, INT64_MAX);
    pass.target = -1; /* the whole batch */
    pass.progress = &progress;
    struct batch batch = {.count = 0};
    (void)sqlite3_wal_checkpoint_v2(handle, "main", SQLITE_CHECKPOINT_TRUNCATE, NULL, NULL);
    int error = select_batch(&cache->database, CACHE_SQL_OLDEST_WITH_AUX, 0, NULL, &batch);
    bool freed = false;
    if (error == SQLITE_OK && batch.count > 0) {
        error = evict_batch(&pass, &freed);
    }
    return error == SQLITE_OK && freed;
}
