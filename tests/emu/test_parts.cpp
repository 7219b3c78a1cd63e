/*
 * The parts of the emulator by themselves: number formats, tensor maps, guard pages, translation, vector clocks.
 */
#include "clocks.hpp"
#include "float_formats.hpp"
#include "global_memory.hpp"
#include "include/gdpajit.h"
#include "kernel.hpp"
#include "tensor_map.hpp"

#include <csetjmp>
#include <cstdarg>
#include <cstddef>
#include <cstdint>
#include <cstring>
extern "C" {
#include "tests/support/half.h"
#include <cmocka.h>
}

static bool same(double a, double b)
{
    return (std::isnan(a) && std::isnan(b)) || (a == b && std::signbit(a) == std::signbit(b));
}

static void every_16_bit_number_is_widened_as_the_reference_does(void **)
{
    for (uint32_t bits = 0; bits < 65536; ++bits) {
        const auto half = static_cast<uint16_t>(bits);
        assert_true(same(static_cast<double>(emu::bf16_to_float(half)), bf16_to_double(half)));
        assert_true(same(static_cast<double>(emu::fp16_to_float(half)), fp16_to_double(half)));
    }
}

/* Every number of the format, the middles between neighbours, and one step beside the middles. */
static void narrowing_rounds_to_nearest_even(void **)
{
    for (uint32_t bits = 0; bits < 65536; ++bits) {
        for (const uint32_t low : {0x0000u, 0x0001u, 0x7fffu, 0x8000u, 0x8001u, 0xffffu}) {
            const float value = emu::float_of(bits << 16 | low);
            if (std::isnan(value)) {
                assert_int_equal(emu::float_to_bf16(value), 0x7fff);
                assert_int_equal(emu::float_to_fp16(value), 0x7fff);
                continue;
            }
            assert_int_equal(emu::float_to_bf16(value), bf16_from_double(static_cast<double>(value)));
            assert_int_equal(emu::float_to_fp16(value), fp16_from_double(static_cast<double>(value)));
            assert_int_equal(emu::double_to_bf16(static_cast<double>(value)), emu::float_to_bf16(value));
        }
    }
    for (uint32_t bits = 0; bits < 0x7c00; ++bits) {
        const double here = fp16_to_double(static_cast<uint16_t>(bits));
        const double next = bits == 0x7bff ? 65536.0 : fp16_to_double(static_cast<uint16_t>(bits + 1));
        const double middle = (here + next) / 2;
        for (const double value : {here, middle, std::nextafter(middle, 0.0), std::nextafter(middle, 1e9)}) {
            assert_int_equal(emu::double_to_fp16(value), fp16_from_double(value));
            assert_int_equal(emu::double_to_fp16(-value), fp16_from_double(-value));
        }
    }
}

static void e4m3_has_the_values_of_its_table(void **)
{
    const struct {
        uint8_t bits;
        float value;
    } rows[] = {{0x00, 0.0f}, {0x01, 0x1p-9f}, {0x07, 0x1.cp-7f}, {0x08, 0x1p-6f}, {0x38, 1.0f},   {0x3c, 1.5f},
                {0x40, 2.0f}, {0x7e, 448.0f},  {0xfe, -448.0f},   {0xb8, -1.0f},   {0x77, 240.0f}, {0x78, 256.0f}};
    for (const auto &row : rows) {
        assert_true(emu::e4m3_to_float(row.bits) == row.value);
    }
    assert_true(std::isnan(emu::e4m3_to_float(0x7f)) && std::isnan(emu::e4m3_to_float(0xff)));
}

/* What lies far below the last place decides a tie all the same. */
static void a_fused_product_is_rounded_once(void **)
{
    const double tie = 1.0 + 0x1p-8;
    assert_int_equal(emu::double_to_bf16(emu::fused_round_to_odd(tie, 1.0, 0.0)), 0x3f80);
    assert_int_equal(emu::double_to_bf16(emu::fused_round_to_odd(tie, 1.0, 0x1p-130)), 0x3f81);
    assert_int_equal(emu::double_to_bf16(emu::fused_round_to_odd(tie, 1.0, -0x1p-130)), 0x3f80);
    const double upper_tie = 1.0 + 3 * 0x1p-8;
    assert_int_equal(emu::double_to_bf16(emu::fused_round_to_odd(upper_tie, 1.0, 0.0)), 0x3f82);
    assert_int_equal(emu::double_to_bf16(emu::fused_round_to_odd(upper_tie, 1.0, -0x1p-130)), 0x3f81);
}

static void a_tensor_map_obeys_the_rules_of_the_driver(void **)
{
    alignas(64) unsigned char map[128];
    alignas(16) static unsigned char memory[64];
    const struct {
        const char *part; // of the refusal
        uint32_t rank;
        size_t shift;
        uint64_t sizes[2], stride;
        uint32_t box[2];
        emu::Swizzle swizzle;
    } rows[] = {
        {"", 2, 0, {64, 8}, 128, {64, 8}, emu::Swizzle::Bytes128},
        {"rank 0", 0, 0, {64, 8}, 128, {64, 8}, emu::Swizzle::None},
        {"rank 6", 6, 0, {64, 8}, 128, {64, 8}, emu::Swizzle::None},
        {"is not a multiple of 16", 2, 8, {64, 8}, 128, {64, 8}, emu::Swizzle::None},
        {"size 0 of dimension 1", 2, 0, {64, 0}, 128, {64, 8}, emu::Swizzle::None},
        {"stride 120 of dimension 1", 2, 0, {64, 8}, 120, {64, 8}, emu::Swizzle::None},
        {"box size 257 of dimension 1", 2, 0, {64, 8}, 128, {64, 257}, emu::Swizzle::None},
        {"box size 0 of dimension 0", 2, 0, {64, 8}, 128, {0, 8}, emu::Swizzle::None},
        {"12 bytes of the box", 2, 0, {64, 8}, 128, {6, 8}, emu::Swizzle::None},
        {"128 bytes of the box", 2, 0, {64, 8}, 128, {64, 8}, emu::Swizzle::Bytes64},
    };
    for (const auto &row : rows) {
        emu::TensorMapRequest request;
        request.rank = row.rank;
        request.base = memory + row.shift;
        request.sizes = row.sizes;
        request.strides = &row.stride;
        request.box = row.box;
        request.swizzle = row.swizzle;
        const std::string refusal = emu::tensor_map_encode(map, request);
        if (row.part[0] == '\0' ? !refusal.empty() : refusal.find(row.part) == std::string::npos) {
            fail_msg("expected \"%s\", got \"%s\"", row.part, refusal.c_str());
        }
    }
}

static void an_access_outside_a_tensor_is_refused_and_located(void **)
{
    emu::GlobalMemory memory;
    emu::GlobalBuffer &a = memory.add("a", 100, 4, emu::Placement::AtEnd);
    emu::GlobalBuffer &b = memory.add("b", 64, 4, emu::Placement::AtStart);
    const auto at = [](const emu::GlobalBuffer &buffer, size_t offset) {
        return reinterpret_cast<uintptr_t>(buffer.data()) + offset;
    };
    assert_true(memory.allows(at(a, 0), 100, true));
    assert_false(memory.allows(at(a, 96), 8, false));
    assert_non_null(strstr(memory.refusal(at(a, 96), 8, false).c_str(), "3 bytes behind the end of a"));
    assert_non_null(strstr(memory.refusal(at(b, 0) - 2, 2, false).c_str(), "2 bytes before the start of b"));
    b.make_read_only();
    assert_true(memory.allows(at(b, 60), 4, false));
    assert_non_null(strstr(memory.refusal(at(b, 60), 4, true).c_str(), "which is an input"));
    std::vector<bool> rows(100, true);
    rows[50] = false;
    a.allow_writes(rows);
    assert_true(memory.allows(at(a, 51), 4, true));
    assert_false(memory.allows(at(a, 48), 4, true));
    assert_true(memory.allows(at(a, 48), 4, false));
}

static void knowledge_passes_on_by_joining(void **)
{
    emu::Clock writer(2), reader(2);
    writer.set_seen(0, 3);
    assert_true(reader.seen(0) < 3);
    reader.join(writer);
    assert_int_equal(reader.seen(0), 3);
    assert_int_equal(reader.fenced(0), 0);
    reader.fence();
    assert_int_equal(reader.fenced(0), 3);
    emu::Clock other(2);
    other.set_seen(0, 2);
    other.meet(reader);
    assert_int_equal(other.seen(0), 2);
    assert_int_equal(other.fenced(0), 0);
}

/* Wrappers with asm give way to their host bodies; their plain neighbours and all other code stay, on their lines. */
static void translation_replaces_wrappers_only(void **)
{
    const std::string source =
        "/* head */\n"
        "// ---- templates/types.cuh\n"
        "using uint32_t = unsigned int;\n"
        "// ---- templates/ptx/wgmma_n64.cuh\n"
        "__device__ inline void product()\n{\n    asm volatile(\"wgmma ... .f32.f16.f16 {\");\n}\n"
        "\n"
        "__device__ inline int plain()\n{\n    return 1;\n}\n"
        "// ---- templates/kernel.cuh (continued)\n"
        "extern \"C\" __global__ __launch_bounds__(128) void entry(int a)\n{\n}\n";
    const std::string text = emu::kernel_translate(source, "x.cu");
    for (const char *part :
         {"#include \"tests/emu/kernel_prelude.hpp\"", "#define EMU_WGMMA_TYPE Fp16",
          "#include \"tests/emu/ptx/wgmma.hpp\"", "#line 9 \"x.cu\"\n\n__device__ inline int plain()",
          "#line 14 \"x.cu\"", "EMU_EXPORT(entry)"}) {
        if (text.find(part) == std::string::npos) {
            fail_msg("\"%s\" is not in the translation:\n%s", part, text.c_str());
        }
    }
    assert_true(text.find("asm volatile") == std::string::npos);
    assert_true(text.find("using uint32_t") == std::string::npos);
    assert_string_equal(emu::kernel_translate("int x;\n", "x.cu").c_str(), "");
}

int main(void)
{
    const CMUnitTest tests[] = {
        cmocka_unit_test(every_16_bit_number_is_widened_as_the_reference_does),
        cmocka_unit_test(narrowing_rounds_to_nearest_even),
        cmocka_unit_test(e4m3_has_the_values_of_its_table),
        cmocka_unit_test(a_fused_product_is_rounded_once),
        cmocka_unit_test(a_tensor_map_obeys_the_rules_of_the_driver),
        cmocka_unit_test(an_access_outside_a_tensor_is_refused_and_located),
        cmocka_unit_test(knowledge_passes_on_by_joining),
        cmocka_unit_test(translation_replaces_wrappers_only),
    };
    return cmocka_run_group_tests_name("parts of the emulator", tests, nullptr, nullptr);
}
