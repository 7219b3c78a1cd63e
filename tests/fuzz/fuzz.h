/*
 * What every fuzzer of this folder defines: it gets any bytes, and must return. A fault is what a sanitizer finds, or
 * FUZZ_EXPECT. Built with libFuzzer, or where there is none with standalone.c.
 */
#ifndef GDPA_TESTS_FUZZ_FUZZ_H
#define GDPA_TESTS_FUZZ_FUZZ_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define FUZZ_EXPECT(condition)                                                                                         \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            (void)fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition);                              \
            abort();                                                                                                   \
        }                                                                                                              \
    } while (0)

/* The bytes that are left; numbers are 0 when there are none. */
struct fuzz_input {
    const uint8_t *data;
    size_t size;
};

static inline uint8_t fuzz_byte(struct fuzz_input *input)
{
    if (input->size == 0) {
        return 0;
    }
    input->size--;
    return *input->data++;
}

static inline uint64_t fuzz_number(struct fuzz_input *input)
{
    uint64_t number = 0;
    for (int i = 0; i < 8; i++) {
        number = number << 8 | fuzz_byte(input);
    }
    return number;
}

/* Up to `most` bytes, taken off the input. */
static inline struct fuzz_input fuzz_bytes(struct fuzz_input *input, size_t most)
{
    struct fuzz_input taken = {input->data, input->size < most ? input->size : most};
    input->data += taken.size;
    input->size -= taken.size;
    return taken;
}

#endif
