/*
 * The size limit. A pass runs after a commit that left more than the limit in use: sources, PTX, logs and plans go first
 * (a kernel runs without them), then whole entries, the least recently used ones first, down to 80 % of the limit. A
 * pass takes small transactions and stops after its share of time; the next put goes on. Readers are never in danger:
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
                        struct batch *batch)
{
    int error;
    sqlite3_stmt *statement = cache_database_statement(database, query, &error);
    if (!statement) {
        return error;
    }
    batch->count = 0;
    (void)sqlite3_bind_int64(statement, 1, parameter);
    while (batch->count < 8 && (error = sqlite3_step(statement)) == SQLITE_ROW) {
        batch->ids[batch->count++] = sqlite3_column_int64(statement, 0);
        batch->last_sequence = sqlite3_column_int64(statement, 1);
    }
    (void)sqlite3_reset(statement);
    return error == SQLITE_ROW || error == SQLITE_DONE ? SQLITE_OK : error;
}

struct pass {
    struct cache_database *database;
    int64_t keep_id; /* what was just stored: to throw it away at once would be of no use */
    int64_t target;
    int64_t deadline;
    int64_t aux_from; /* entries used before this have no parts left */
    bool aux_gone;
};

/* One transaction. *freed: whether there was anything to evict. */
static int evict_batch(struct pass *pass, bool *freed)
{
    struct batch batch = {.count = 0};
    int error = cache_database_begin_write(pass->database, 0);
    if (error != SQLITE_OK) {
        return error;
    }
    if (!pass->aux_gone) {
        error = select_batch(pass->database, CACHE_SQL_OLDEST_WITH_AUX, pass->aux_from, &batch);
        pass->aux_gone = error == SQLITE_OK && batch.count == 0;
        pass->aux_from = batch.count > 0 ? batch.last_sequence : pass->aux_from;
    }
    bool whole = pass->aux_gone;
    if (error == SQLITE_OK && whole) {
        error = select_batch(pass->database, CACHE_SQL_OLDEST, pass->keep_id, &batch);
    }
    int64_t used = pass->target + 1;
    for (int i = 0; error == SQLITE_OK && i < batch.count && used > pass->target; i++) {
        error = whole ? cache_database_delete(pass->database, batch.ids[i])
                      : cache_database_do(pass->database, CACHE_SQL_DELETE_AUX, "i", batch.ids[i]);
        if (error == SQLITE_OK) {
            error = cache_used_bytes(pass->database, &used);
        }
    }
    *freed = batch.count > 0;
    return cache_database_end(pass->database, error);
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

void cache_evict(struct cache *cache, int64_t keep_id)
{
    int64_t total = 0, unused = 0, page_size = 0;
    int error = cache->limit > 0 ? pages(&cache->database, &total, &unused, &page_size) : SQLITE_OK;
    if (error == SQLITE_OK && total * page_size <= cache->limit && !cache->evicting) {
        return;
    }
    struct pass pass = {.database = &cache->database,
                        .keep_id = keep_id,
                        .target = cache->limit / 5 * 4,
                        .deadline = now_ms() + BUDGET_MS};
    int64_t used = (total - unused) * page_size;
    if (error == SQLITE_OK && (cache->evicting || used > cache->limit)) {
        bool finished = false;
        error = evict_to_target(&pass, used, &finished);
        cache->evicting = !finished;
    }
    if (error == SQLITE_OK) {
        error = shorten(&pass, cache->limit);
    }
    if (error != SQLITE_OK && (error & 0xff) != SQLITE_BUSY) {
        (void)cache_failed(cache, error, true, "make room");
    }
}
