/*
 * The parts of the cubin format that tell a whole file of the right target from anything else. See elf.h.
 *
 * A cubin is ELF64, little endian, machine 190. Up to CUDA 12 (ABI version 7) the low byte of e_flags is the compute
 * capability and bit 11 says that the target has the suffix `a`; from CUDA 13 on (ABI version 8) the capability is in
 * bits 8 to 15, and the suffix only in the text of the note .note.nv.tkinfo ("-arch sm_90a "). The program headers
 * end the file, so that any truncation shows.
 */
#include "runtime/elf.h"

#include <elf.h>
#include <stdio.h>
#include <string.h>

enum { MACHINE_CUDA = 190, ABI_OLD = 7, ABI_NEW = 8, FLAG_ACCELERATED = 0x800 };

struct cubin {
    const unsigned char *bytes;
    size_t size;
    Elf64_Ehdr header;
};

static bool range_is_inside(const struct cubin *cubin, uint64_t offset, uint64_t size)
{
    return offset <= cubin->size && size <= cubin->size - offset;
}

static Elf64_Shdr section_at(const struct cubin *cubin, unsigned index)
{
    Elf64_Shdr section;
    memcpy(&section, cubin->bytes + cubin->header.e_shoff + (uint64_t)index * sizeof section, sizeof section);
    return section;
}

/* The text at an offset of a string section, or "" when it does not end inside it. */
static const char *string_at(const struct cubin *cubin, const Elf64_Shdr *strings, uint64_t offset)
{
    if (strings->sh_type != SHT_STRTAB || offset >= strings->sh_size) {
        return ""; /* bounds_check has looked at sections of that type */
    }
    const char *text = (const char *)cubin->bytes + strings->sh_offset + offset;
    return memchr(text, '\0', (size_t)(strings->sh_size - offset)) == NULL ? "" : text;
}

static gdpa_status header_check(struct cubin *cubin, struct sbuf *why)
{
    if (cubin->size < sizeof cubin->header || memcmp(cubin->bytes, ELFMAG, SELFMAG) != 0) {
        return fail(why, GDPA_E_CACHE, "not an ELF file (%zu bytes)", cubin->size);
    }
    memcpy(&cubin->header, cubin->bytes, sizeof cubin->header);
    const Elf64_Ehdr *header = &cubin->header;
    if (header->e_ident[EI_CLASS] != ELFCLASS64 || header->e_ident[EI_DATA] != ELFDATA2LSB ||
        header->e_machine != MACHINE_CUDA) {
        return fail(why, GDPA_E_CACHE, "not a cubin: ELF class %d, byte order %d, machine %d (expected %d, %d, %d)",
                    header->e_ident[EI_CLASS], header->e_ident[EI_DATA], header->e_machine, ELFCLASS64, ELFDATA2LSB,
                    MACHINE_CUDA);
    }
    if (header->e_shentsize != sizeof(Elf64_Shdr) || header->e_shnum == 0 || header->e_shstrndx >= header->e_shnum ||
        !range_is_inside(cubin, header->e_shoff, (uint64_t)header->e_shnum * sizeof(Elf64_Shdr))) {
        return fail(why, GDPA_E_CACHE, "the section table does not lie inside the %zu bytes of the file", cubin->size);
    }
    return GDPA_OK;
}

/* Everything inside the file, and the file no longer than what is in it. */
static gdpa_status bounds_check(const struct cubin *cubin, struct sbuf *why)
{
    const Elf64_Ehdr *header = &cubin->header;
    uint64_t end = header->e_shoff + (uint64_t)header->e_shnum * sizeof(Elf64_Shdr);
    const uint64_t segments = (uint64_t)header->e_phnum * header->e_phentsize;
    if (!range_is_inside(cubin, header->e_phoff, segments)) {
        return fail(why, GDPA_E_CACHE, "the program headers do not lie inside the %zu bytes of the file: truncated",
                    cubin->size);
    }
    if (header->e_phoff + segments > end) {
        end = header->e_phoff + segments;
    }
    for (unsigned i = 0; i < header->e_shnum; i++) {
        const Elf64_Shdr section = section_at(cubin, i);
        if (section.sh_type == SHT_NOBITS || section.sh_type == SHT_NULL) {
            continue;
        }
        if (!range_is_inside(cubin, section.sh_offset, section.sh_size)) {
            return fail(why, GDPA_E_CACHE, "section %u does not lie inside the %zu bytes of the file: truncated", i,
                        cubin->size);
        }
        if (section.sh_offset + section.sh_size > end) {
            end = section.sh_offset + section.sh_size;
        }
    }
    if (end != cubin->size) {
        return fail(why, GDPA_E_CACHE, "the file has %zu bytes, but its tables end at %llu", cubin->size,
                    (unsigned long long)end);
    }
    return GDPA_OK;
}

/* Whether the note says "-arch TARGET" and nothing longer. */
static bool note_names_target(const unsigned char *note, size_t size, const char *target)
{
    char wanted[64];
    const size_t length = (size_t)snprintf(wanted, sizeof wanted, "-arch %s", target);
    for (size_t at = 0; length < sizeof wanted && at + length < size; at++) {
        if (memcmp(note + at, wanted, length) == 0 && (note[at + length] == ' ' || note[at + length] == '\0')) {
            return true;
        }
    }
    return false;
}

static gdpa_status target_check(const struct cubin *cubin, const struct cubin_expectation *expected, struct sbuf *why)
{
    const Elf64_Ehdr *header = &cubin->header;
    const int abi = header->e_ident[EI_ABIVERSION];
    const int arch = (int)((abi >= ABI_NEW ? header->e_flags >> 8 : header->e_flags) & 0xff);
    if (arch != expected->arch) {
        return fail(why, GDPA_E_CACHE, "code for compute capability %d.%d, expected %d.%d", arch / 10, arch % 10,
                    expected->arch / 10, expected->arch % 10);
    }
    const bool wants_suffix = expected->target[strlen(expected->target) - 1] == 'a';
    if (abi == ABI_OLD && ((header->e_flags & FLAG_ACCELERATED) != 0) != wants_suffix) {
        return fail(why, GDPA_E_CACHE, "code %s the suffix a, expected target %s", wants_suffix ? "without" : "with",
                    expected->target);
    }
    const Elf64_Shdr names = section_at(cubin, header->e_shstrndx);
    for (unsigned i = 0; i < header->e_shnum; i++) {
        const Elf64_Shdr section = section_at(cubin, i);
        if (section.sh_type != SHT_NOTE || strcmp(string_at(cubin, &names, section.sh_name), ".note.nv.tkinfo") != 0) {
            continue;
        }
        if (note_names_target(cubin->bytes + section.sh_offset, (size_t)section.sh_size, expected->target)) {
            return GDPA_OK;
        }
        return fail(why, GDPA_E_CACHE, "its tool note does not name the target %s", expected->target);
    }
    if (abi >= ABI_NEW) {
        return fail(why, GDPA_E_CACHE, "it has no tool note, which must name the target %s", expected->target);
    }
    return GDPA_OK;
}

static gdpa_status entry_check(const struct cubin *cubin, const char *entry, struct sbuf *why)
{
    for (unsigned i = 0; i < cubin->header.e_shnum; i++) {
        const Elf64_Shdr table = section_at(cubin, i);
        if (table.sh_type != SHT_SYMTAB || table.sh_link >= cubin->header.e_shnum) {
            continue;
        }
        const Elf64_Shdr strings = section_at(cubin, table.sh_link);
        for (uint64_t at = 0; at + sizeof(Elf64_Sym) <= table.sh_size; at += sizeof(Elf64_Sym)) {
            Elf64_Sym symbol;
            memcpy(&symbol, cubin->bytes + table.sh_offset + at, sizeof symbol);
            if (ELF64_ST_TYPE(symbol.st_info) == STT_FUNC && ELF64_ST_BIND(symbol.st_info) == STB_GLOBAL &&
                strcmp(string_at(cubin, &strings, symbol.st_name), entry) == 0) {
                return GDPA_OK;
            }
        }
    }
    return fail(why, GDPA_E_CACHE, "it has no kernel %s", entry);
}

gdpa_status cubin_check(const void *code, size_t size, const struct cubin_expectation *expected, struct sbuf *why)
{
    struct cubin cubin = {.bytes = code, .size = size};
    TRY(header_check(&cubin, why));
    TRY(bounds_check(&cubin, why));
    TRY(target_check(&cubin, expected, why));
    return expected->entry == NULL ? GDPA_OK : entry_check(&cubin, expected->entry, why);
}
