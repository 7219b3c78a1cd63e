/*
 * Large images between host and device; see verify_copy.h.
 */
#include "tools/verify_copy.h"

#include <pthread.h>
#include <string.h>

#include "tests/support/parallel.h"

/* A piece is one thread's: what is smaller than that is not worth a second thread. */
static const size_t piece_bytes = (size_t)1 << 20;

/* Work on some bytes, cut into pieces. expected NULL: every byte is `value`. */
struct bytes_job {
    unsigned char *to;
    const unsigned char *from, *expected;
    unsigned char value;
    size_t bytes;
    struct difference difference;
    pthread_mutex_t lock; /* of the difference */
};

static void for_pieces(struct bytes_job *job, int threads, void (*work)(int64_t piece, int thread, void *user))
{
    parallel_for((int64_t)((job->bytes + piece_bytes - 1) / piece_bytes), threads, work, job);
}

static size_t piece_size(const struct bytes_job *job, size_t at)
{
    return job->bytes - at < piece_bytes ? job->bytes - at : piece_bytes;
}

static void piece_fill(int64_t piece, int thread, void *user)
{
    (void)thread;
    struct bytes_job *job = user;
    size_t at = (size_t)piece * piece_bytes;
    memset(job->to + at, job->value, piece_size(job, at));
}

static void piece_copy(int64_t piece, int thread, void *user)
{
    (void)thread;
    struct bytes_job *job = user;
    size_t at = (size_t)piece * piece_bytes;
    memcpy(job->to + at, job->from + at, piece_size(job, at));
}

static bool byte_expected(const struct bytes_job *job, size_t at)
{
    return job->from[at] == (job->expected != NULL ? job->expected[at] : job->value);
}

/* Bytes that are all the same are equal to themselves moved by one. */
static bool piece_expected(const struct bytes_job *job, size_t at, size_t bytes)
{
    const unsigned char *found = job->from + at;
    if (job->expected != NULL) {
        return memcmp(found, job->expected + at, bytes) == 0;
    }
    return found[0] == job->value && memcmp(found, found + 1, bytes - 1) == 0;
}

static void piece_compare(int64_t piece, int thread, void *user)
{
    (void)thread;
    struct bytes_job *job = user;
    size_t first = (size_t)piece * piece_bytes;
    size_t last = first + piece_size(job, first) - 1;
    if (piece_expected(job, first, last + 1 - first)) {
        return;
    }
    while (byte_expected(job, first)) {
        first++;
    }
    while (byte_expected(job, last)) {
        last--;
    }
    pthread_mutex_lock(&job->lock);
    struct difference *difference = &job->difference;
    difference->first = difference->any && difference->first < first ? difference->first : first;
    difference->last = difference->any && difference->last > last ? difference->last : last;
    difference->any = true;
    pthread_mutex_unlock(&job->lock);
}

static struct difference compare_run(struct bytes_job *job, int threads)
{
    pthread_mutex_init(&job->lock, NULL);
    for_pieces(job, threads, piece_compare);
    pthread_mutex_destroy(&job->lock);
    return job->difference;
}

void bytes_fill(void *memory, unsigned char value, size_t bytes, int threads)
{
    struct bytes_job job = {.to = memory, .value = value, .bytes = bytes};
    for_pieces(&job, threads, piece_fill);
}

struct difference bytes_differ(const void *found, const void *expected, size_t bytes, int threads)
{
    struct bytes_job job = {.from = found, .expected = expected, .bytes = bytes};
    return compare_run(&job, threads);
}

struct difference bytes_differ_from(const void *found, unsigned char value, size_t bytes, int threads)
{
    struct bytes_job job = {.from = found, .value = value, .bytes = bytes};
    return compare_run(&job, threads);
}

static void bytes_copy(void *to, const void *from, size_t bytes, int threads)
{
    struct bytes_job job = {.to = to, .from = from, .bytes = bytes};
    for_pieces(&job, threads, piece_copy);
}

bool image_upload(const struct verify_device *device, void *memory, const void *image, size_t bytes, int threads)
{
    size_t room = 0;
    unsigned char *staging = device->staging(device->self, &room);
    for (size_t at = 0; staging != NULL && at < bytes; at += room) {
        size_t some = bytes - at < room ? bytes - at : room;
        bytes_copy(staging, (const unsigned char *)image + at, some, threads);
        if (!device->upload(device->self, (unsigned char *)memory + at, staging, some)) {
            return false;
        }
    }
    return staging != NULL;
}

bool image_download(const struct verify_device *device, void *image, const void *memory, size_t bytes, int threads)
{
    size_t room = 0;
    unsigned char *staging = device->staging(device->self, &room);
    for (size_t at = 0; staging != NULL && at < bytes; at += room) {
        size_t some = bytes - at < room ? bytes - at : room;
        if (!device->download(device->self, staging, (const unsigned char *)memory + at, some)) {
            return false;
        }
        bytes_copy((unsigned char *)image + at, staging, some, threads);
    }
    return staging != NULL;
}

bool image_differs(const struct verify_device *device, const void *memory, const void *image, size_t bytes, int threads,
                   struct difference *difference)
{
    size_t room = 0;
    const unsigned char *expected = image;
    unsigned char *staging = device->staging(device->self, &room);
    struct difference all = {.any = false};
    for (size_t at = 0; staging != NULL && at < bytes; at += room) {
        size_t some = bytes - at < room ? bytes - at : room;
        if (!device->download(device->self, staging, (const unsigned char *)memory + at, some)) {
            return false;
        }
        struct difference one = bytes_differ(staging, expected + at, some, threads);
        if (one.any) {
            all.first = all.any ? all.first : at + one.first;
            all.last = at + one.last;
            all.any = true;
        }
    }
    *difference = all;
    return staging != NULL;
}
