#!/usr/bin/env python3
"""Writes templates/ptx/wgmma_n*.cuh and wgmma_e4m3_n*.cuh: one file for each width of wgmma.

The instruction has one operand for each accumulator register, so its text is long and regular, and a slip in it is hard to
see. Run from the root of the tree; the files are committed.
"""

WIDTHS = (32, 64, 80, 96, 112, 128, 160, 176, 192, 256)
E4M3_WIDTHS = (64, 128, 256)


def operand_lines(count, first=0, per_line=8):
    names = [f"%{first + i}" for i in range(count)]
    rows = [", ".join(names[i : i + per_line]) for i in range(0, count, per_line)]
    return [f'"{row}{"," if i + 1 < len(rows) else ""} "' for i, row in enumerate(rows)]


def accumulator_lines(count, per_line=6):
    names = [f'"+f"(d[{i}])' for i in range(count)]
    return [", ".join(names[i : i + per_line]) for i in range(0, count, per_line)]


def function(width, a_in_registers):
    registers = width // 2
    form = "rs" if a_in_registers else "ss"
    a_count = 4 if a_in_registers else 1
    a_text = "{%d, %d, %d, %d}" % tuple(registers + i for i in range(4)) if a_in_registers else f"{registers}"
    a_operand = a_text.replace("{", "{%").replace(", ", ", %") if a_in_registers else f"%{registers}"
    b = registers + a_count
    predicate = b + 1
    transposes = f"%{predicate + 1}" if a_in_registers else f"%{predicate + 1}, %{predicate + 2}"
    lines = []
    if a_in_registers:
        lines.append("template <int kTransB>")
        lines.append(
            f"__device__ inline void wgmma_m64k16_rs(float (&d)[{registers}], const uint32_t (&a)[4], uint64_t b, bool accumulate)"
        )
    else:
        lines.append("template <int kTransA, int kTransB>")
        lines.append(
            f"__device__ inline void wgmma_m64k16_ss(float (&d)[{registers}], uint64_t a, uint64_t b, bool accumulate)"
        )
    lines.append("{")
    lines.append(f'    asm volatile("{{ .reg .pred p; setp.ne.b32 p, %{predicate}, 0; "')
    for condition, name in (("//@if bf16", "bf16.bf16"), ("//@else", "f16.f16")):
        lines.append(f"    {condition}")
        lines.append(f'                 "wgmma.mma_async.sync.aligned.m64n{width}k16.f32.{name} {{"')
    lines.append("    //@endif")
    lines += [f"                 {text}" for text in operand_lines(registers)]
    lines.append(f'                 "}}, {a_operand}, %{b}, p, 1, 1, {transposes}; }}"')
    rows = accumulator_lines(registers)
    for i, row in enumerate(rows):
        lines.append(f"                 {': ' if i == 0 else '  '}{row}{',' if i + 1 < len(rows) else ''}")
    a_inputs = ", ".join(f'"r"(a[{i}])' for i in range(4)) if a_in_registers else '"l"(a)'
    trans_inputs = '"n"(kTransB)' if a_in_registers else '"n"(kTransA), "n"(kTransB)'
    lines.append(f'                 : {a_inputs}, "l"(b), "r"(static_cast<int>(accumulate)), {trans_inputs});')
    lines.append("}")
    del form
    return "\n".join(lines)


def function_e4m3(width, a_in_registers):
    registers = width // 2
    if a_in_registers:
        signature = f"rs(float (&d)[{registers}], const uint32_t (&a)[4], uint64_t b, bool accumulate)"
        a_operand = "{%s}" % ", ".join(f"%{registers + i}" for i in range(4))
        a_inputs = ", ".join(f'"r"(a[{i}])' for i in range(4))
    else:
        signature = f"ss(float (&d)[{registers}], uint64_t a, uint64_t b, bool accumulate)"
        a_operand = f"%{registers}"
        a_inputs = '"l"(a)'
    b = registers + (4 if a_in_registers else 1)
    lines = [f"__device__ inline void wgmma_m64k32_e4m3_{signature}", "{"]
    lines.append(f'    asm volatile("{{ .reg .pred p; setp.ne.b32 p, %{b + 1}, 0; "')
    lines.append(f'                 "wgmma.mma_async.sync.aligned.m64n{width}k32.f32.e4m3.e4m3 {{"')
    lines += [f"                 {text}" for text in operand_lines(registers)]
    lines.append(f'                 "}}, {a_operand}, %{b}, p, 1, 1; }}"')
    rows = accumulator_lines(registers)
    for i, row in enumerate(rows):
        lines.append(f"                 {': ' if i == 0 else '  '}{row}{',' if i + 1 < len(rows) else ''}")
    lines.append(f'                 : {a_inputs}, "l"(b), "r"(static_cast<int>(accumulate)));')
    lines.append("}")
    return "\n".join(lines)


def write_e4m3():
    for width in E4M3_WIDTHS:
        text = f"""/*
 * Products of a warpgroup in fp8, m64n{width}k32: D (+)= A B. Rules are in ptx/wgmma.cuh; both matrices have K as their faster dimension, and
 * a[i] of A in registers holds four elements from column 4 (t % 4) + 16 (i / 2) on. Written by scripts/make-wgmma.py.
 */
#ifndef GDPA_PTX_WGMMA_E4M3_N{width}_CUH
#define GDPA_PTX_WGMMA_E4M3_N{width}_CUH

#include "ptx/wgmma.cuh"

// clang-format off
{function_e4m3(width, False)}

{function_e4m3(width, True)}
// clang-format on

#endif
"""
        with open(f"templates/ptx/wgmma_e4m3_n{width}.cuh", "w", encoding="utf-8") as file:
            file.write(text)


def main():
    for width in WIDTHS:
        text = f"""/*
 * Products of a warpgroup, m64n{width}k16: D (+)= A B. Fragments and rules are in ptx/wgmma.cuh. Written by scripts/make-wgmma.py.
 */
#ifndef GDPA_PTX_WGMMA_N{width}_CUH
#define GDPA_PTX_WGMMA_N{width}_CUH

#include "ptx/wgmma.cuh"

// clang-format off
{function(width, False)}

{function(width, True)}
// clang-format on

#endif
"""
        with open(f"templates/ptx/wgmma_n{width}.cuh", "w", encoding="utf-8") as file:
            file.write(text)
    write_e4m3()


if __name__ == "__main__":
    main()
