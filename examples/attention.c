/*
 * On a GPU: one call of gdpa_forward on memory and a stream that this program owns.
 *
 *     cc attention.c $(pkg-config --cflags --libs gdpajit) -ldl -o attention
 *     ./attention
 *
 * All keys are equal, so every score is the same number s, and with identity as the activation every output is
 * seqlen * s * v: easy to check by hand. The few driver functions it needs are loaded by name, so that it builds without
 * CUDA; a program with cuda.h or the CUDA runtime at hand uses those instead.
 */
#include <gdpajit.h>

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BATCH = 2, SEQLEN = 128, HEADS = 4, HEAD_DIM = 64, COUNT = BATCH * SEQLEN * HEADS * HEAD_DIM };

typedef unsigned long long device_pointer;
typedef struct CUctx_st *device_context;

struct driver {
    int (*init)(unsigned flags);
    int (*retain)(device_context *context, int device);
    int (*set_current)(device_context context);
    int (*alloc)(device_pointer *pointer, size_t bytes);
    int (*release)(device_pointer pointer);
    int (*upload)(device_pointer to, const void *from, size_t bytes);
    int (*download)(void *to, device_pointer from, size_t bytes);
    int (*stream_create)(struct CUstream_st **stream, unsigned flags);
    int (*stream_synchronize)(struct CUstream_st *stream);
};

static int driver_load(struct driver *driver)
{
    void *library = dlopen("libcuda.so.1", RTLD_NOW);
    if (library == NULL) {
        return 0;
    }
    struct {
        const char *name;
        void *slot;
    } functions[] = {
        {"cuInit", &driver->init},
        {"cuDevicePrimaryCtxRetain", &driver->retain},
        {"cuCtxSetCurrent", &driver->set_current},
        {"cuMemAlloc_v2", &driver->alloc},
        {"cuMemFree_v2", &driver->release},
        {"cuMemcpyHtoD_v2", &driver->upload},
        {"cuMemcpyDtoH_v2", &driver->download},
        {"cuStreamCreate", &driver->stream_create},
        {"cuStreamSynchronize", &driver->stream_synchronize},
    };
    for (size_t i = 0; i < sizeof(functions) / sizeof(functions[0]); i++) {
        void *function = dlsym(library, functions[i].name);
        if (function == NULL) {
            return 0;
        }
        memcpy(functions[i].slot, &function, sizeof(function)); /* a function pointer cannot be assigned from void * */
    }
    device_context context = NULL;
    return driver->init(0) == 0 && driver->retain(&context, 0) == 0 && driver->set_current(context) == 0;
}

/* bf16 is the upper half of a float; the values here need no rounding. */
static uint16_t bf16_from_float(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof(bits));
    return (uint16_t)(bits >> 16);
}

static device_pointer upload_filled(const struct driver *driver, float value)
{
    static uint16_t host[COUNT];
    device_pointer pointer = 0;
    for (size_t i = 0; i < COUNT; i++) {
        host[i] = bf16_from_float(value);
    }
    if (driver->alloc(&pointer, sizeof(host)) != 0 || driver->upload(pointer, host, sizeof(host)) != 0) {
        fprintf(stderr, "no device memory\n");
        exit(1);
    }
    return pointer;
}

static void *pointer_of(device_pointer pointer)
{
    return (void *)(uintptr_t)pointer;
}

int main(void)
{
    struct driver driver;
    struct CUstream_st *stream = NULL;
    if (!driver_load(&driver) || driver.stream_create(&stream, 1) != 0) {
        fprintf(stderr, "this program needs a GPU with its driver\n");
        return 3;
    }
    device_pointer q = upload_filled(&driver, 0.5F);
    device_pointer k = upload_filled(&driver, 0.25F);
    device_pointer v = upload_filled(&driver, 2.0F);
    device_pointer o = 0;
    static float result[COUNT];
    if (driver.alloc(&o, sizeof(result)) != 0) {
        fprintf(stderr, "no device memory\n");
        return 1;
    }

    gdpa_spec spec = GDPA_SPEC_INIT;
    spec.head_dim = HEAD_DIM;
    spec.activation = GDPA_ACTIVATION_IDENTITY;
    spec.out_dtype = GDPA_DTYPE_FP32;

    gdpa_args args = GDPA_ARGS_INIT;
    args.q.data = pointer_of(q);
    args.k.data = pointer_of(k);
    args.v.data = pointer_of(v);
    args.o.data = pointer_of(o);
    args.batch = BATCH;
    args.heads_q = args.heads_k = HEADS;
    args.seqlen_q = args.seqlen_k = SEQLEN;
    args.flags = GDPA_ARGS_SCALE;
    args.scale = 1.0F / HEAD_DIM;

    gdpa_ctx *ctx = NULL;
    gdpa_status status = gdpa_ctx_create(NULL, &ctx);
    if (status == GDPA_OK) {
        status = gdpa_forward(ctx, &spec, &args, stream);
    }
    if (status != GDPA_OK) {
        fprintf(stderr, "%s\n", gdpa_last_error());
        return 1;
    }
    if (driver.stream_synchronize(stream) != 0 || driver.download(result, o, sizeof(result)) != 0) {
        fprintf(stderr, "the kernel failed\n");
        return 1;
    }

    /* scale * sum over D of 0.5 * 0.25 = 0.125; times 2.0, summed over 128 keys: 32. */
    float worst = 0.0F;
    for (size_t i = 0; i < COUNT; i++) {
        const float error = result[i] > 32.0F ? result[i] - 32.0F : 32.0F - result[i];
        worst = error > worst ? error : worst;
    }
    printf("o[0] = %g, expected 32, largest difference %g\n", (double)result[0], (double)worst);
    driver.release(q);
    driver.release(k);
    driver.release(v);
    driver.release(o);
    gdpa_ctx_destroy(ctx);
    return worst == 0.0F ? 0 : 1;
}
