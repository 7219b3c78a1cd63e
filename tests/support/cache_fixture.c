/*
 * The fixture of tests/cache; see the header.
 */
#define _GNU_SOURCE /* nftw */
#include "tests/support/cache_fixture.h"

#include <dirent.h>
#include <ftw.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

#define OTHER_USER 65534

/* ---- Folder and log ----------------------------------------------------------------------------------------------- */

static int setup_below(const char *parent, void **state)
{
    struct fixture *fixture = calloc(1, sizeof *fixture);
    assert_non_null(fixture);
    (void)snprintf(fixture->base, sizeof fixture->base, "%s/gdpa-cache-test-XXXXXX", parent);
    assert_non_null(mkdtemp(fixture->base));
    assert_int_equal(chmod(fixture->base, 0755), 0);
    (void)snprintf(fixture->dir, sizeof fixture->dir, "%s/cache", fixture->base);
    (void)snprintf(fixture->file, sizeof fixture->file, "%s/%s", fixture->dir, CACHE_FILE_NAME);
    *state = fixture;
    return 0;
}

int fixture_setup(void **state)
{
    /* Not TMPDIR: another user must be able to reach it. */
    return setup_below("/tmp", state);
}

int fixture_setup_in_memory(void **state)
{
    struct statvfs status;
    bool roomy = access("/dev/shm", W_OK) == 0 && statvfs("/dev/shm", &status) == 0 &&
                 (uint64_t)status.f_bavail * status.f_frsize > (UINT64_C(32) << 20);
    return setup_below(roomy ? "/dev/shm" : "/tmp", state);
}

static int make_removable(const char *path, const struct stat *status, int type, struct FTW *level)
{
    (void)level;
    return type == FTW_D && (status->st_mode & 0700) != 0700 ? chmod(path, 0700) : 0;
}

static int remove_one(const char *path, const struct stat *status, int type, struct FTW *level)
{
    (void)status;
    (void)type;
    (void)level;
    return remove(path);
}

int fixture_teardown(void **state)
{
    struct fixture *fixture = *state;
    (void)nftw(fixture->base, make_removable, 16, FTW_PHYS);
    (void)nftw(fixture->base, remove_one, 16, FTW_PHYS | FTW_DEPTH);
    free(fixture);
    return 0;
}

void fixture_forget_folder(struct fixture *fixture)
{
    (void)nftw(fixture->dir, remove_one, 16, FTW_PHYS | FTW_DEPTH);
}

void fixture_log(int level, const char *line, void *user)
{
    struct fixture *fixture = user;
    size_t used = strlen(fixture->log);
    (void)snprintf(fixture->log + used, sizeof fixture->log - used, "%s\n", line);
    fixture->lines++;
    fixture->warnings += level <= CACHE_LOG_WARN;
}

void fixture_forget_log(struct fixture *fixture)
{
    fixture->log[0] = '\0';
    fixture->lines = 0;
    fixture->warnings = 0;
}

void assert_logged(const struct fixture *fixture, const char *part)
{
    if (!strstr(fixture->log, part)) {
        fail_msg("no \"%s\" in the log:\n%s", part, fixture->log);
    }
}

struct cache_options fixture_options(struct fixture *fixture)
{
    return (struct cache_options){.dir = fixture->dir, .log = fixture_log, .log_user = fixture};
}

struct cache *fixture_open(struct fixture *fixture)
{
    struct cache_options options = fixture_options(fixture);
    cache_aside_forget();
    struct cache *cache = cache_open(&options);
    assert_non_null(cache);
    return cache;
}

/* ---- Samples --------------------------------------------------------------------------------------------------------- */

uint64_t random_next(uint64_t *random)
{
    /* splitmix64 */
    uint64_t mixed = (*random += UINT64_C(0x9e3779b97f4a7c15));
    mixed = (mixed ^ (mixed >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    mixed = (mixed ^ (mixed >> 27)) * UINT64_C(0x94d049bb133111eb);
    return mixed ^ (mixed >> 31);
}

static char *sample_text(unsigned number, size_t size)
{
    static const char *const words[] = {"load ", "multiply ", "mask ", "activate ", "accumulate ", "store\n"};
    char *text = malloc(size);
    assert_non_null(text);
    uint64_t random = number;
    for (size_t used = 0; used < size;) {
        for (const char *word = words[random_next(&random) % COUNT_OF(words)]; *word && used < size; word++) {
            text[used++] = *word;
        }
    }
    return text;
}

void sample_init(struct sample *sample, unsigned number, size_t code_size)
{
    memset(sample, 0, sizeof *sample);
    uint64_t random = number;
    sample->code = malloc(code_size + 8);
    assert_non_null(sample->code);
    for (size_t i = 0; i < code_size; i += 8) {
        uint64_t next = random_next(&random);
        memcpy(sample->code + i, &next, sizeof next);
    }
    sample->text = sample_text(number, 5000);
    (void)snprintf(sample->name, sizeof sample->name, "gdpa_fwd_sm90_d128_bf16_relu_%08x", number);
    const struct cache_key_part parts[] = {{"number", &number, sizeof number}, {"source", sample->text, 5000}};
    uint8_t *material;
    struct cache_entry *entry = &sample->entry;
    assert_int_equal(cache_key_make(parts, 2, &entry->key, &material, &sample->material.size), CACHE_OK);
    sample->material.data = material;
    entry->material = sample->material;
    entry->code = (struct cache_bytes){sample->code, code_size};
    entry->aux[CACHE_AUX_SOURCE] = (struct cache_bytes){sample->text, 5000};
    entry->aux[CACHE_AUX_PTX] = (struct cache_bytes){sample->text + 1000, 3000};
    entry->aux[CACHE_AUX_PLAN] = (struct cache_bytes){sample->text, number % 50};
    entry->name = sample->name;
    entry->spec = "pass=fwd head_dim=128 dtype=bf16 activation=relu";
    entry->target = "sm_90a";
    entry->nvrtc = "13.0";
    entry->source_hash = "0123456789abcdef0123456789abcdef";
    entry->arch = 90;
    entry->registers = (int32_t)(number % 256);
    entry->spill_bytes = (int32_t)(number % 3);
    entry->stack_bytes = 16;
    entry->smem_static = 1024;
    entry->smem_dynamic = (int32_t)number * 8;
    entry->threads = 384;
    entry->generate_ms = 0.25;
    entry->compile_ms = 123.5 + number;
}

void sample_deinit(struct sample *sample)
{
    free((void *)(uintptr_t)sample->material.data);
    free(sample->text);
    free(sample->code);
}

static bool bytes_equal(const struct cache_bytes *a, const struct cache_bytes *b)
{
    return (a->data == NULL) == (b->data == NULL) && a->size == b->size &&
           (a->data == NULL || memcmp(a->data, b->data, a->size) == 0);
}

bool sample_equals(const struct sample *sample, const struct cache_entry *entry, bool with_aux)
{
    const struct cache_entry *a = &sample->entry;
    bool equal = memcmp(&a->key, &entry->key, sizeof a->key) == 0 && bytes_equal(&a->material, &entry->material) &&
                 bytes_equal(&a->code, &entry->code) && strcmp(a->name, entry->name) == 0 &&
                 strcmp(a->spec, entry->spec) == 0 && strcmp(a->target, entry->target) == 0 &&
                 strcmp(a->nvrtc, entry->nvrtc) == 0 && strcmp(a->source_hash, entry->source_hash) == 0 &&
                 a->arch == entry->arch && a->registers == entry->registers && a->spill_bytes == entry->spill_bytes &&
                 a->stack_bytes == entry->stack_bytes && a->smem_static == entry->smem_static &&
                 a->smem_dynamic == entry->smem_dynamic && a->threads == entry->threads &&
                 a->generate_ms == entry->generate_ms && a->compile_ms == entry->compile_ms;
    for (int i = 0; with_aux && equal && i < CACHE_AUX_COUNT; i++) {
        /* A part may have been evicted, but never be another one. */
        equal = !entry->aux[i].data || bytes_equal(&a->aux[i], &entry->aux[i]);
    }
    return equal;
}

enum cache_result sample_put(struct cache *cache, unsigned number, size_t code_size)
{
    struct sample sample;
    sample_init(&sample, number, code_size);
    enum cache_result result = cache_put(cache, &sample.entry);
    sample_deinit(&sample);
    return result;
}

enum cache_result sample_get(struct cache *cache, unsigned number, size_t code_size, bool *wrong)
{
    struct sample sample;
    struct cache_entry entry;
    sample_init(&sample, number, code_size);
    enum cache_result result =
        cache_get(cache, &sample.entry.key, sample.material.data, sample.material.size, true, &entry);
    if (result == CACHE_OK) {
        bool equal = sample_equals(&sample, &entry, true);
        if (wrong) {
            *wrong = *wrong || !equal;
        } else {
            assert_true(equal);
        }
        cache_entry_deinit(&entry);
    }
    sample_deinit(&sample);
    return result;
}

/* ---- Behind the cache's back --------------------------------------------------------------------------------------- */

static int run_sql(const struct fixture *fixture, const char *sql, int64_t *number)
{
    sqlite3 *handle = NULL;
    int error = sqlite3_open_v2(fixture->file, &handle, SQLITE_OPEN_READWRITE, NULL);
    (void)sqlite3_busy_timeout(handle, 10000);
    const char *rest = sql;
    *number = 0;
    while (error == SQLITE_OK && rest && *rest) {
        sqlite3_stmt *statement = NULL;
        error = sqlite3_prepare_v2(handle, rest, -1, &statement, &rest);
        int step = error == SQLITE_OK && statement ? sqlite3_step(statement) : SQLITE_DONE;
        if (step == SQLITE_ROW) {
            *number = sqlite3_column_int64(statement, 0);
        } else if (error == SQLITE_OK && step != SQLITE_DONE) {
            error = step;
        }
        (void)sqlite3_finalize(statement);
    }
    (void)sqlite3_close(handle);
    return error;
}

int64_t fixture_sql(const struct fixture *fixture, const char *sql)
{
    int64_t number;
    int error = run_sql(fixture, sql, &number);
    if (error != SQLITE_OK) {
        fail_msg("%s: SQLite error %d", sql, error);
    }
    return number;
}

int fixture_sql_error(const struct fixture *fixture, const char *sql)
{
    int64_t number;
    return run_sql(fixture, sql, &number);
}

unsigned char *file_read(const char *path, size_t *size)
{
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    assert_int_equal(fseek(file, 0, SEEK_END), 0);
    long length = ftell(file);
    assert_true(length >= 0);
    rewind(file);
    unsigned char *bytes = malloc((size_t)length + 1);
    assert_non_null(bytes);
    assert_int_equal(fread(bytes, 1, (size_t)length, file), (size_t)length);
    (void)fclose(file);
    *size = (size_t)length;
    return bytes;
}

void file_write(const char *path, const void *bytes, size_t size)
{
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, size, file), size);
    assert_int_equal(fclose(file), 0);
}

int count_names(const char *dir, const char *prefix)
{
    DIR *entries = opendir(dir);
    assert_non_null(entries);
    int count = 0;
    for (const struct dirent *entry = readdir(entries); entry; entry = readdir(entries)) {
        count += strncmp(entry->d_name, prefix, strlen(prefix)) == 0;
    }
    (void)closedir(entries);
    return count;
}

/* ---- Children -------------------------------------------------------------------------------------------------------- */

int in_child(int (*run)(struct fixture *fixture), struct fixture *fixture, bool drop)
{
    (void)fflush(NULL);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        if (drop && geteuid() == 0 && (setgid(OTHER_USER) != 0 || setuid(OTHER_USER) != 0)) {
            _exit(255);
        }
        int line = run(fixture);
        if (line != 0) {
            (void)fprintf(stderr, "# the child failed in line %d; its log:\n%s", line, fixture->log);
        }
        _exit(line != 0);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

unsigned number_from_environment(const char *name, unsigned otherwise)
{
    const char *text = getenv(name);
    char *end;
    unsigned long number = text ? strtoul(text, &end, 10) : 0;
    return text && end != text && *end == '\0' && number > 0 && number < 100000000 ? (unsigned)number : otherwise;
}
