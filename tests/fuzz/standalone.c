/*
 * A driver for fuzzers where the compiler has no libFuzzer: random bytes, and mutations of earlier inputs, without looking
 * at coverage. It takes the two options of libFuzzer that the Makefile gives, and files to run once.
 */
#include "tests/fuzz/fuzz.h"

#include <string.h>
#include <sys/stat.h>
#include <time.h>

#define LARGEST ((size_t)8192)
#define KEPT 64

static uint64_t state = 1;

static uint64_t next(void)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state;
}

static uint8_t kept[KEPT][LARGEST];
static size_t kept_size[KEPT];

static size_t make_input(uint8_t *bytes)
{
    size_t from = next() % KEPT, size = kept_size[from];
    memcpy(bytes, kept[from], size);
    if (size == 0 || next() % 4 == 0) {
        size = next() % (next() % 8 == 0 ? LARGEST : 256);
        for (size_t i = 0; i < size; i++) {
            bytes[i] = (uint8_t)next();
        }
    }
    for (uint64_t changes = next() % 8; changes > 0 && size > 0; changes--) {
        bytes[next() % size] = (uint8_t)next();
    }
    size_t to = next() % KEPT;
    memcpy(kept[to], bytes, size);
    kept_size[to] = size;
    return size;
}

static int run_file(const char *path)
{
    static uint8_t bytes[1 << 20];
    FILE *file = fopen(path, "rb");
    if (!file) {
        (void)fprintf(stderr, "cannot open %s\n", path);
        return 1;
    }
    size_t size = fread(bytes, 1, sizeof bytes, file);
    (void)fclose(file);
    return LLVMFuzzerTestOneInput(bytes, size);
}

int main(int count, char **words)
{
    long seconds = 60;
    unsigned long runs = 0;
    static uint8_t bytes[LARGEST];
    for (int i = 1; i < count; i++) {
        struct stat status;
        if (strncmp(words[i], "-max_total_time=", 16) == 0) {
            seconds = strtol(words[i] + 16, NULL, 10);
        } else if (words[i][0] != '-' && stat(words[i], &status) == 0 && S_ISREG(status.st_mode)) {
            return run_file(words[i]);
        }
    }
    const time_t end = time(NULL) + seconds;
    for (; runs % 256 != 0 || time(NULL) < end; runs++) {
        (void)LLVMFuzzerTestOneInput(bytes, make_input(bytes));
    }
    (void)printf("%lu runs in %ld s, without coverage\n", runs, seconds);
    return 0;
}
