/*
 * Machine code of kernels: the tensor core instructions of the family, no local memory, products that run without a wait inside them and with
 * the activation spread under them, and no more instructions a score than tests/templates/instructions.txt says.
 *
 * Skipped without NVRTC or nvdisasm. `make golden-update` writes the table anew.
 */
#include "tests/support/kernel_build.h" /* before cmocka.h, which has a macro called fail */

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/support/parallel.h"
#include "tests/support/sass.h"

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))
#define TABLE_FILE "tests/templates/instructions.txt"

/* Kernels that are looked at, the most used ones. */
static const char *const specs[] = {
    "d=128 act=identity arch=90",
    "d=128 act=relu arch=90",
    "d=128 act=gelu arch=90",
    "d=128 act=fast_gelu arch=90",
    "d=128 act=fast_gelu_bf16 arch=90",
    "d=128 act=silu arch=90",
    "d=128 act=fast_silu causal arch=90",
    "d=128 act=silu layout_q=jagged layout_k=jagged causal arch=90",
    "d=128 act=gelu dtype=fp16 window_left=512 window_right=0 arch=90",
    "d=64 act=gelu arch=90",
    "d=96 act=fast_gelu arch=90",
    "d=192 dv=128 act=silu dtype=fp16 arch=90",
    "d=256 act=relu arch=90",
    "d=64 act=gelu family=portable arch=90",
    "d=128 act=relu arch=80",
    "d=128 act=silu causal arch=80",
    "d=128 act=fast_gelu layout_q=jagged layout_k=jagged arch=100",
    "d=256 act=silu arch=100",
    "d=64 act=relu arch=89",
};

/* And those whose second kernel is. */
static const char *const gradient_specs[] = {
    "bwd d=128 act=fast_gelu deterministic arch=90",
    "bwd d=128 act=gelu causal layout_q=jagged layout_k=jagged deterministic arch=90",
    "bwd d=64 act=fast_silu dtype=fp16 deterministic arch=90",
    "bwd d=96 act=silu window_left=512 deterministic arch=90",
};

enum { GRADIENT_COUNT = COUNT_OF(gradient_specs) };
enum { KERNEL_COUNT = COUNT_OF(specs), WHY_SIZE = 1 << 16, LINE_SIZE = 512 };

struct kernel {
    struct kernel_build build;
    struct sass sass;
};

/* Those of specs, then those of gradient_specs. */
static struct kernel kernels[KERNEL_COUNT + GRADIENT_COUNT];
static struct nvrtc *nvrtc;
static bool usable;

/* ---- set-up ---- */

static const char *spec_of(size_t number)
{
    return number < KERNEL_COUNT ? specs[number] : gradient_specs[number - KERNEL_COUNT];
}

static void compile_one(int64_t item, int thread, void *user)
{
    (void)thread, (void)user;
    struct sbuf why;
    sbuf_init(&why, WHY_SIZE);
    if (kernel_build_make(&kernels[item].build, nvrtc, &why) != GDPA_OK) {
        print_error("%s: %s\n", spec_of((size_t)item), why.text);
    }
    sbuf_deinit(&why);
}

static int make_all(void **state)
{
    (void)state;
    struct sbuf why;
    sbuf_init(&why, WHY_SIZE);
    nvrtc = kernel_build_nvrtc(&why);
    usable = nvrtc != NULL && sass_disassembler() != NULL;
    if (!usable) {
        print_message("skipped: %s\n",
                      nvrtc != NULL ? "there is no nvdisasm; scripts/setup.sh --tests fetches it" : why.text);
    } else {
        for (size_t i = 0; i < COUNT_OF(kernels); ++i) {
            assert_int_equal(kernel_build_init(&kernels[i].build, spec_of(i), &why), GDPA_OK);
        }
        parallel_for(COUNT_OF(kernels), 0, compile_one, NULL);
    }
    for (size_t i = 0; i < COUNT_OF(kernels) && usable; ++i) {
        assert_non_null(kernels[i].build.result.output.cubin);
        sass_read(kernels[i].build.result.output.cubin, kernels[i].build.result.output.cubin_size, &kernels[i].sass);
    }
    sbuf_deinit(&why);
    return 0;
}

static int free_all(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(kernels) && usable; ++i) {
        sass_free(&kernels[i].sass);
        kernel_build_deinit(&kernels[i].build);
    }
    nvrtc_free(nvrtc);
    return 0;
}

static void need_code(void)
{
    if (!usable) {
        skip();
    }
}

static bool is_sm90(const struct kernel *kernel)
{
    return kernel->build.plan.family == KERNEL_FAMILY_SM90;
}

/* ---- instructions of the whole kernel ---- */

static void kernels_use_the_tensor_cores_as_their_family_does(void **state)
{
    (void)state;
    need_code();
    for (size_t i = 0; i < KERNEL_COUNT; ++i) {
        const struct sass *sass = &kernels[i].sass;
        size_t warpgroup = sass_count(sass, 0, sass->count, "HGMMA"), warp = sass_count(sass, 0, sass->count, "HMMA");
        if ((warpgroup > 0) != is_sm90(&kernels[i]) || (warp > 0) == is_sm90(&kernels[i])) {
            fail_msg("%s has %zu HGMMA and %zu HMMA", specs[i], warpgroup, warp);
        }
    }
}

/* The smallest loop with a product in it: the one over tiles without a mask. */
static struct sass_loop main_loop(const struct kernel *kernel)
{
    const struct sass *sass = &kernel->sass;
    const char *product = is_sm90(kernel) ? "HGMMA" : "HMMA";
    struct sass_loop smallest = {0, SIZE_MAX};
    for (size_t i = 0; i < sass->loop_count; ++i) {
        const struct sass_loop *loop = &sass->loops[i];
        if (loop->end - loop->begin < smallest.end - smallest.begin &&
            sass_count(sass, loop->begin, loop->end, product) > 0) {
            smallest = *loop;
        }
    }
    assert_true(smallest.end != SIZE_MAX);
    return smallest;
}

/* The portable family has the registers of two blocks an SM, and reads a few addresses back where its output is wide. */
static void main_loops_stay_in_registers(void **state)
{
    (void)state;
    need_code();
    for (size_t i = 0; i < KERNEL_COUNT; ++i) {
        const struct sass *sass = &kernels[i].sass;
        struct sass_loop loop = main_loop(&kernels[i]);
        size_t stores = sass_count(sass, loop.begin, loop.end, "STL");
        size_t loads = sass_count(sass, loop.begin, loop.end, "LDL");
        size_t outside = sass_count(sass, 0, sass->count, "LDL STL") - stores - loads;
        if (stores > 0 || loads > (is_sm90(&kernels[i]) ? 0 : 4) || (is_sm90(&kernels[i]) && outside > 0)) {
            fail_msg("%s: %zu stores and %zu loads of local memory in the main loop, %zu outside of it", specs[i],
                     stores, loads, outside);
        }
    }
}

/* ---- products of warpgroups ---- */

/* The HGMMAs of one product: S = Q K^T, both from shared memory, or O += P V, P from registers. */
struct product {
    size_t first, last, steps; /* instructions */
    bool of_values;
};

/* "HGMMA.64x128x16.F32.BF16 R24, R88, gdesc[UR16].tnspB, R24": A is in registers. */
static bool takes_registers(const struct sass_instruction *instruction)
{
    const char *second = strchr(instruction->opcode, ',');
    return second != NULL && second[1] == ' ' && second[2] == 'R';
}

/* The next product from instruction `from` on: its HGMMAs stand in a row, other instructions between them. */
static bool next_product(const struct sass *sass, size_t from, struct product *product)
{
    *product = (struct product){.steps = 0};
    for (size_t i = from; i < sass->count; ++i) {
        const struct sass_instruction *instruction = &sass->instructions[i];
        if (!sass_is(instruction, "HGMMA")) {
            continue;
        }
        bool of_values = takes_registers(instruction);
        /* The first step of S = Q K^T adds to nothing: another one begins. */
        bool begins = !of_values && strstr(instruction->opcode, ", RZ") != NULL;
        if (product->steps > 0 && (of_values != product->of_values || begins)) {
            break;
        }
        product->first = product->steps == 0 ? i : product->first;
        product->of_values = of_values;
        product->last = i;
        ++product->steps;
    }
    return product->steps > 0;
}

static bool is_wait(const struct sass_instruction *instruction)
{
    return strncmp(instruction->opcode, "WARPGROUP.DEPBAR", strlen("WARPGROUP.DEPBAR")) == 0;
}

/* What is wrong with a product; "" when nothing is. */
static const char *product_fault(const struct kernel *kernel, const struct product *product)
{
    int32_t expected = product->of_values ? kernel->build.plan.block_n / 16 : (kernel->build.spec.head_dim + 15) / 16;
    bool half = product->of_values && (int32_t)product->steps * 2 == expected; /* of a tile that is half empty */
    if ((int32_t)product->steps != expected && !half) {
        return "not as many steps as the tile has";
    }
    for (size_t i = product->first; i < product->last; ++i) {
        if (is_wait(&kernel->sass.instructions[i])) {
            return "a wait inside";
        }
    }
    return "";
}

static void products_run_without_a_wait_inside_them(void **state)
{
    (void)state;
    need_code();
    for (size_t i = 0; i < KERNEL_COUNT; ++i) {
        struct product product = {.steps = 0};
        size_t of_keys = 0, of_values = 0;
        for (size_t from = 0; next_product(&kernels[i].sass, from, &product); from = product.last + 1) {
            const char *fault = product_fault(&kernels[i], &product);
            if (fault[0] != '\0') {
                fail_msg("%s: a product of %zu HGMMAs: %s", specs[i], product.steps, fault);
            }
            *(product.of_values ? &of_values : &of_keys) += 1;
        }
        assert_int_equal(of_keys, of_values);
        assert_true((of_keys > 0) == is_sm90(&kernels[i]));
    }
}

/* A loop with a product of 2 steps of keys, and one of 4 steps of values with a wait between its slices. */
static const char written_listing[] =
    "        /*0000*/                   MOV R1, c[0x0][0x28] ;\n"
    ".L_x_1:\n"
    "        /*0010*/                   HGMMA.64x64x16.F32.BF16 R88, gdesc[UR16], RZ, !UPT ;\n"
    "        /*0020*/                   HGMMA.64x64x16.F32.BF16 R88, gdesc[UR20], R88, gsb0 ;\n"
    "        /*0030*/                   WARPGROUP.DEPBAR.LE gsb0, 0x0 ;\n"
    "        /*0040*/                   MUFU.EX2 R0, R88 ;\n"
    "        /*0050*/                   HGMMA.64x64x16.F32.BF16 R24, R88, gdesc[UR16].tnspB, R24, UP0 ;\n"
    "        /*0060*/                   HGMMA.64x64x16.F32.BF16 R24, R92, gdesc[UR20].tnspB, R24, gsb0 ;\n"
    "        /*0070*/                   WARPGROUP.DEPBAR.LE gsb0, 0x0 ;\n"
    "        /*0080*/              @!P1 MUFU.EX2 R0, R88 ;\n"
    "        /*0090*/                   HGMMA.64x64x16.F32.BF16 R24, R96, gdesc[UR16].tnspB, R24 ;\n"
    "        /*00a0*/                   HGMMA.64x64x16.F32.BF16 R24, R100, gdesc[UR16].tnspB, R24, gsb0 ;\n"
    "        /*00b0*/                   WARPGROUP.DEPBAR.LE gsb0, 0x0 ;\n"
    "        /*00c0*/               @P0 BRA `(.L_x_1) ;\n"
    "        /*00d0*/                   EXIT ;\n";

static void waits_inside_products_are_noticed(void **state)
{
    (void)state;
    struct kernel kernel = {.build.plan = {.family = KERNEL_FAMILY_SM90, .block_n = 64}, .build.spec.head_dim = 32};
    struct product product;
    char *listing = strdup(written_listing);
    assert_non_null(listing);
    sass_parse(listing, &kernel.sass);
    struct sass_loop loop = main_loop(&kernel);
    assert_true(kernel.sass.count == 14 && loop.begin == 1 && loop.end == 12);
    assert_int_equal(sass_count(&kernel.sass, loop.begin, loop.end, "MUFU"), 2);
    assert_true(next_product(&kernel.sass, 0, &product) && !product.of_values && product.steps == 2);
    assert_string_equal(product_fault(&kernel, &product), "");
    kernel.build.spec.head_dim = 48;
    assert_string_equal(product_fault(&kernel, &product), "not as many steps as the tile has");
    assert_true(next_product(&kernel.sass, product.last + 1, &product) && product.of_values && product.steps == 4);
    assert_string_equal(product_fault(&kernel, &product), "a wait inside");
    assert_false(next_product(&kernel.sass, product.last + 1, &product));
    sass_free(&kernel.sass);
}

/* The part of the activation that runs under a product of values, in slices: all but the first slice, if the compiler leaves it there. */
static void activations_run_under_products(void **state)
{
    (void)state;
    need_code();
    for (size_t i = 0; i < KERNEL_COUNT; ++i) {
        const struct kernel *kernel = &kernels[i];
        struct product product = {.steps = 0}, keys = {.steps = 0};
        for (size_t from = 0; next_product(&kernel->sass, from, &product); from = product.last + 1) {
            if (!product.of_values) {
                keys = product;
                continue;
            }
            int32_t most =
                (int32_t)product.steps * 16 / kernel->build.plan.slice_n; /* half tiles have fewer than the plan */
            int32_t slices = most > 1 ? most : 1;
            /* MUFU is the activation's alone; where it has none, its packing is counted. */
            const char *words = sass_count(&kernel->sass, keys.last, product.last, "MUFU") > 0 ? "MUFU" : "F2FP";
            size_t all = sass_count(&kernel->sass, keys.last, product.last, words);
            size_t under = sass_count(&kernel->sass, product.first, product.last, words);
            if (all == 0 || (double)under < 0.4 * (double)all * (slices - 1) / slices) {
                fail_msg("%s: %zu of %zu %s of the activation run under the product of %d slices", specs[i], under, all,
                         words, (int)slices);
            }
        }
    }
}

/* ---- the second kernel of a deterministic backward ---- */

/* The instruction of the loop's n-th wait for products. */
static size_t find_wait(const struct sass *sass, const struct sass_loop *loop, size_t n)
{
    for (size_t i = loop->begin; i < loop->end; ++i) {
        if (is_wait(&sass->instructions[i]) && n-- == 0) {
            return i;
        }
    }
    fail_msg("the loop has too few waits");
    return 0;
}

/*
 * Its loop over plain key tiles, the smallest with products: S and dP, a wait for S, slopes of the first slice, a wait for dP, then
 * dQ with the slopes of the other slices under it, and the last wait.
 */
static void slopes_run_under_the_products_of_gradients(void **state)
{
    (void)state;
    need_code();
    for (size_t i = KERNEL_COUNT; i < COUNT_OF(kernels); ++i) {
        const struct sass *sass = &kernels[i].sass;
        const gdpa_spec *spec = &kernels[i].build.spec;
        const struct kernel_plan *plan = &kernels[i].build.plan;
        struct sass_loop loop = main_loop(&kernels[i]);
        int32_t steps = (spec->head_dim + 15) / 16 + (spec->head_dim_v + 15) / 16 + plan->dq_keys / 16;
        assert_int_equal(sass_count(sass, loop.begin, loop.end, "HGMMA"), steps);
        assert_int_equal(sass_count(sass, loop.begin, loop.end, "LDL STL"), 0);
        size_t slices = (size_t)(plan->dq_keys / plan->slice_n);
        size_t scores = find_wait(sass, &loop, 0), products = find_wait(sass, &loop, 1);
        size_t all = sass_count(sass, loop.begin, loop.end, "MUFU");
        size_t under_products = sass_count(sass, scores, products, "MUFU");
        size_t under_sums = sass_count(sass, products, find_wait(sass, &loop, 2), "MUFU");
        if (under_products * slices * 4 < all * 3 || under_sums * slices * 2 < all * (slices - 1)) {
            fail_msg("%s: of %zu MUFU %zu run under dP and %zu under dQ", spec_of(i), all, under_products, under_sums);
        }
    }
}

/* ---- the table of instructions ---- */

/* Instructions for one score. */
struct rates {
    double fp32, special, packing, other;
};

static struct rates measure(const struct kernel *kernel)
{
    static const char fp32[] = "FFMA FMUL FADD FMNMX FSEL FSETP FSET", special[] = "MUFU";
    static const char packing[] = "F2FP HFMA2 HMUL2 HADD2 HMNMX2", product[] = "HGMMA HMMA";
    const struct kernel_plan *plan = &kernel->build.plan;
    struct sass_loop loop = main_loop(kernel);
    int32_t threads = is_sm90(kernel) ? plan->threads - 128 : plan->threads;
    double scores = (double)plan->block_m * plan->block_n / threads;
    const struct sass *sass = &kernel->sass;
    double counted = 0;
    struct rates rates;
    counted += rates.fp32 = (double)sass_count(sass, loop.begin, loop.end, fp32);
    counted += rates.special = (double)sass_count(sass, loop.begin, loop.end, special);
    counted += rates.packing = (double)sass_count(sass, loop.begin, loop.end, packing);
    counted += (double)sass_count(sass, loop.begin, loop.end, product);
    rates.other = (double)(loop.end - loop.begin + 1) - counted;
    return (struct rates){rates.fp32 / scores, rates.special / scores, rates.packing / scores, rates.other / scores};
}

static const char table_head[] =
    "# Instructions of the main loop for one score, by kind: those of fp32, of the special function unit, packing and "
    "16-bit arithmetic, and all\n"
    "# others but the products. tests/templates/test_sass.c fails where code has more, or has come down and the table "
    "has not: by more than 0.05\n"
    "# and 5 %. Kernels with few scores a loop are counted with all of the loop's overhead.\n";

static void write_table(void)
{
    FILE *file = fopen(TEST_SOURCE_DIR "/" TABLE_FILE, "w");
    assert_non_null(file);
    fprintf(file, "%s# nvrtc %s\n#\n# fp32 special packing other  spec\n", table_head, nvrtc->version);
    for (size_t i = 0; i < KERNEL_COUNT; ++i) {
        struct rates rates = measure(&kernels[i]);
        fprintf(file, "%6.2f %7.2f %7.2f %5.2f  %s\n", rates.fp32, rates.special, rates.packing, rates.other,
                kernels[i].build.text.text);
    }
    assert_int_equal(fclose(file), 0);
    print_message("wrote " TABLE_FILE "\n");
}

static bool differs(double found, double expected)
{
    return fabs(found - expected) > 0.05 + 0.05 * expected;
}

/* The kernel of a line of the table, and what the line says; NULL for a comment. */
static const struct kernel *read_line(char *line, struct rates *expected)
{
    int start = 0;
    line[strcspn(line, "\n")] = '\0';
    if (line[0] == '#' || line[0] == '\0') {
        return NULL;
    }
    if (sscanf(line, "%lf %lf %lf %lf %n", &expected->fp32, &expected->special, &expected->packing, &expected->other,
               &start) != 4) {
        fail_msg(TABLE_FILE ": '%s'", line);
    }
    for (size_t i = 0; i < KERNEL_COUNT; ++i) {
        if (strcmp(kernels[i].build.text.text, line + start) == 0) {
            return &kernels[i];
        }
    }
    fail_msg(TABLE_FILE " names '%s', which is not looked at", line + start);
    return NULL;
}

static size_t compare_with_table(FILE *file)
{
    char line[LINE_SIZE];
    size_t lines = 0, failed = 0;
    while (fgets(line, sizeof(line), file) != NULL) {
        struct rates expected;
        const struct kernel *kernel = read_line(line, &expected);
        if (kernel == NULL) {
            continue;
        }
        struct rates found = measure(kernel);
        ++lines;
        if (differs(found.fp32, expected.fp32) || differs(found.special, expected.special) ||
            differs(found.packing, expected.packing) || differs(found.other, expected.other)) {
            print_error("%s: %.2f %.2f %.2f %.2f instructions a score; the table says %.2f %.2f %.2f %.2f\n",
                        kernel->build.text.text, found.fp32, found.special, found.packing, found.other, expected.fp32,
                        expected.special, expected.packing, expected.other);
            ++failed;
        }
    }
    assert_int_equal(lines, KERNEL_COUNT);
    return failed;
}

/* Another version of the compiler makes other code. */
static bool table_is_of_this_compiler(FILE *file)
{
    char line[LINE_SIZE], version[16] = "";
    while (version[0] == '\0' && fgets(line, sizeof(line), file) != NULL) {
        if (sscanf(line, "# nvrtc %15s", version) != 1) {
            version[0] = '\0';
        }
    }
    rewind(file);
    return strcmp(version, nvrtc->version) == 0;
}

static bool updating(void)
{
    const char *value = getenv("GDPA_GOLDEN_UPDATE");
    return value != NULL && strcmp(value, "1") == 0;
}

static void loops_have_as_many_instructions_a_score_as_the_table_says(void **state)
{
    (void)state;
    need_code();
    FILE *file = fopen(TEST_SOURCE_DIR "/" TABLE_FILE, "r");
    assert_non_null(file);
    bool comparable = table_is_of_this_compiler(file);
    size_t failed = comparable && !updating() ? compare_with_table(file) : 0;
    fclose(file);
    if (!comparable) {
        print_message("skipped: " TABLE_FILE " is of another NVRTC than %s\n", nvrtc->version);
        skip();
    }
    if (updating()) {
        write_table();
    }
    if (failed > 0) {
        fail_msg("%zu kernels; `make golden-update` writes " TABLE_FILE " anew, then read the diff", failed);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kernels_use_the_tensor_cores_as_their_family_does),
        cmocka_unit_test(main_loops_stay_in_registers),
        cmocka_unit_test(products_run_without_a_wait_inside_them),
        cmocka_unit_test(waits_inside_products_are_noticed),
        cmocka_unit_test(activations_run_under_products),
        cmocka_unit_test(slopes_run_under_the_products_of_gradients),
        cmocka_unit_test(loops_have_as_many_instructions_a_score_as_the_table_says),
    };
    return cmocka_run_group_tests(tests, make_all, free_all);
}
