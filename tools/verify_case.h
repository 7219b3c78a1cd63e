/*
 * One case of verify: a kernel's spec and a shape made concrete. Host images of every buffer with guards around them, and
 * the arguments that point into them.
 *
 *     | guard | payload: elements of sequences; everything else in it is NaN | guard |
 *
 * The guards and the rows outside sequences of floating point tensors are all ones, which is a NaN in every type: what is
 * read by mistake shows in the result. An output (o, or the gradients) is all ones everywhere before the launch.
 */
#ifndef GDPA_TOOLS_VERIFY_CASE_H
#define GDPA_TOOLS_VERIFY_CASE_H

#include "include/gdpajit.h"
#include "tools/shapes.h"

enum {
    CASE_BUFFERS = 12,
};

struct case_buffer {
    const char *name;     /* "q", "qkv", "cu_seqlens_k" */
    unsigned char *image; /* guard, payload, guard; the payload is aligned to 512 bytes */
    size_t guard, payload;
    unsigned char guard_byte;
    bool output;
    bool pooled;  /* the image is the pool's */
    void *device; /* set by whoever runs the case */
};

struct case_pool;
struct verify_case {
    const struct shape *shape;
    struct case_pool *pool;
    gdpa_spec spec;
    gdpa_args args; /* host pointers, into the images */
    struct case_buffer buffers[CASE_BUFFERS];
    int buffer_count;
};

/*
 * What one case after the other uses.
 *
 * Normal elements of both input types that the rows of tensors are cut from, at places that the seed chooses. Always the
 * same ones, so that a case depends on its seed alone; q, k, v and dout have a part each, so that no row meets itself.
 */
struct case_pool {
    uint16_t *elements[2]; /* bf16, fp16; NULL until they are needed */
    /* Memory of images, kept from case to case: a system takes longer to hand out gigabytes than a kernel to fill them. */
    struct case_memory {
        unsigned char *bytes;
        size_t room;
        bool taken;
    } images[CASE_BUFFERS];
};
void case_pool_deinit(struct case_pool *pool);

/* The same seed gives the same case. False, with the reason in why, when there is no memory. */
bool case_make(struct verify_case *made, const gdpa_spec *spec, const struct shape *shape, uint64_t seed,
               struct case_pool *pool, char *why, size_t capacity);
void case_free(struct verify_case *made);

/* The arguments with every pointer moved from its buffer's image to its buffer's device memory. */
gdpa_args case_device_args(const struct verify_case *made);

/* The buffer that a tensor of args lies in; NULL for a null pointer. */
struct case_buffer *case_buffer_of(struct verify_case *made, const void *pointer);

size_t case_buffer_bytes(const struct case_buffer *buffer);

#endif
