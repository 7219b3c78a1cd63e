/*
 * The tanh of a Hopper, for all 2^32 arguments. The manual promises a relative error of 2^-11; templates/activation/packed_pair/ builds silu
 * and gelu_tanh on what is asserted here, and tests/templates/host_activation.hpp has the same numbers. An H200 was off by 7.99e-6 at most
 * (relative: 1.12e-5), and never outside [-1, 1]; how that is spread over the arguments is printed.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/driver.h"
#include "runtime/nvrtc.h"
#include "tests/support/kernel_build.h"
#include "tools/gpu.h"

#include <cmocka.h> /* last: it has a macro `fail` */

enum {
    BLOCKS = 4096,
    THREADS = 256, /* with BLOCKS of them, each has 2^12 arguments */
    EXPONENTS = 256,
};

/* What the kernel finds; maxima of floats that are not negative, as their bits. */
struct findings {
    uint32_t error, relative, tail; /* |error|, over |tanh a|, times |a| */
    uint32_t outside;               /* results beyond -1 or 1, or NaN for a number, or a number for NaN */
    uint32_t by_exponent[EXPONENTS];
};

/* The wrapper is that of templates/ptx/math.cuh. Errors are rounded up. */
static const char source[] =
    "struct findings { unsigned error, relative, tail, outside, by_exponent[256]; };\n"
    "extern \"C\" __global__ void sweep(findings *found)\n"
    "{\n"
    "    const unsigned first = (blockIdx.x * blockDim.x + threadIdx.x) << 12;\n"
    "    for (unsigned i = 0; i < 1u << 12; ++i) {\n"
    "        const float a = __uint_as_float(first + i);\n"
    "        float t;\n"
    "        asm(\"tanh.approx.f32 %0, %1;\" : \"=f\"(t) : \"f\"(a));\n"
    "        if (a != a) {\n"
    "            if (t == t) atomicAdd(&found->outside, 1u);\n"
    "            continue;\n"
    "        }\n"
    "        if (!(t >= -1.0f && t <= 1.0f)) {\n"
    "            atomicAdd(&found->outside, 1u);\n"
    "            continue;\n"
    "        }\n"
    "        const double exact = tanh((double)a);\n"
    "        const double error = fabs((double)t - exact);\n"
    "        const double tail = isinf(a) ? error * 3e38 : error * fabs((double)a);\n"
    "        const unsigned bits = __float_as_uint(__double2float_ru(error));\n"
    "        unsigned *const exponent = &found->by_exponent[(first + i) >> 23 & 255];\n"
    "        if (bits > *(volatile unsigned *)exponent) atomicMax(exponent, bits);\n"
    "        if (bits > *(volatile unsigned *)&found->error) atomicMax(&found->error, bits);\n"
    "        const unsigned tail_bits = __float_as_uint(__double2float_ru(tail));\n"
    "        if (tail_bits > *(volatile unsigned *)&found->tail) atomicMax(&found->tail, tail_bits);\n"
    "        if (fabsf(a) >= 1.1754944e-38f) {\n"
    "            const unsigned relative = __float_as_uint(__double2float_ru(error / fabs(exact)));\n"
    "            if (relative > *(volatile unsigned *)&found->relative) atomicMax(&found->relative, relative);\n"
    "        }\n"
    "    }\n"
    "}\n";

static double number_of(uint32_t bits)
{
    float number;
    memcpy(&number, &bits, sizeof number);
    return (double)number;
}

/* Makes the code; fails the test with the compiler's log. */
static void compile(const char *target, struct nvrtc_output *output)
{
    struct sbuf why;
    sbuf_init(&why, 1 << 16);
    struct nvrtc *nvrtc = kernel_build_nvrtc(&why);
    if (nvrtc == NULL) {
        fail_msg("%s", why.text);
    }
    char arch[32];
    snprintf(arch, sizeof arch, "-arch=%s", target);
    const char *const options[] = {arch, "--std=c++17"};
    if (nvrtc_compile(nvrtc, source, "tanh.cu", options, 2, output, &why) != GDPA_OK) {
        fail_msg("%s\n%s", why.text, output->log != NULL ? output->log : "");
    }
    nvrtc_free(nvrtc);
    sbuf_deinit(&why);
}

/* Loads and launches it; "" or what went wrong. */
static const char *sweep(const struct driver *driver, struct gpu *gpu, const struct nvrtc_output *code,
                         struct findings *found)
{
    struct CUlib_st *library = NULL;
    struct CUkern_st *kernel = NULL;
    struct CUstream_st *stream = NULL;
    void *memory = NULL;
    const char *wrong = "";
    if (driver->library_load(&library, code->cubin, NULL, NULL, 0, NULL, NULL, 0) != CUDA_OK ||
        driver->library_kernel(&kernel, library, "sweep") != CUDA_OK) {
        wrong = "the kernel cannot be loaded";
    } else if (!gpu_alloc(gpu, sizeof *found, &memory) || !gpu_stream_create(gpu, &stream) ||
               !gpu_upload(gpu, memory, found, sizeof *found)) {
        wrong = gpu->why;
    } else {
        void *parameters[] = {&memory};
        struct launch_config config = {BLOCKS, 1, 1, THREADS, 1, 1, 0, stream, NULL, 0};
        if (driver->launch(&config, kernel, parameters, NULL) != CUDA_OK) {
            wrong = "the launch failed";
        } else if (!gpu_stream_wait(gpu, stream) || !gpu_download(gpu, found, memory, sizeof *found)) {
            wrong = gpu->why;
        }
    }
    if (stream != NULL) {
        gpu_stream_destroy(gpu, stream);
    }
    gpu_free(gpu, memory);
    if (library != NULL) {
        driver->library_unload(library);
    }
    return wrong;
}

static void the_sweep_compiles(void **state)
{
    (void)state;
    struct nvrtc_output code = {0};
    compile("sm_90a", &code);
    assert_true(code.cubin_size > 0);
    nvrtc_output_deinit(&code);
}

static void tanh_of_a_hopper_is_as_close_as_silu_and_gelu_need_it(void **state)
{
    (void)state;
    static struct gpu gpu;
    struct driver *driver = NULL;
    struct sbuf why;
    sbuf_init(&why, 1 << 12);
    if (!gpu_open(&gpu, NULL, 0)) {
        print_message("# no GPU: %s\n", gpu.why);
        skip();
    }
    if (gpu.capability != 90) {
        gpu_close(&gpu);
        skip();
    }
    if (driver_open(getenv("GDPAJIT_LIBCUDA"), &driver, &why) != GDPA_OK || driver_start(driver, &why) != GDPA_OK) {
        fail_msg("%s", why.text);
    }
    struct findings found = {0};
    struct nvrtc_output code = {0};
    compile("sm_90a", &code);
    const char *wrong = sweep(driver, &gpu, &code, &found);
    if (wrong[0] != 0) {
        fail_msg("%s", wrong);
    }
    for (int exponent = 100; exponent < 140; exponent++) {
        print_message("# |a| from 2^%d: error %.3g\n", exponent - 127, number_of(found.by_exponent[exponent]));
    }
    print_message("# worst error %.4g, relative %.4g, times |a| %.4g; %u outside\n", number_of(found.error),
                  number_of(found.relative), number_of(found.tail), found.outside);
    assert_int_equal(found.outside, 0);
    assert_true(number_of(found.error) <= 0x1p-16);
    /* What host_activation.hpp goes by: closer, and closer still far out, which only gelu_tanh in fp16 comes near to needing. */
    assert_true(number_of(found.error) <= 0x1.2p-17);
    assert_true(number_of(found.tail) <= 0x1.2p-15);
    nvrtc_output_deinit(&code);
    driver_free(driver);
    gpu_close(&gpu);
    sbuf_deinit(&why);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_sweep_compiles),
        cmocka_unit_test(tanh_of_a_hopper_is_as_close_as_silu_and_gelu_need_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
