/*
 * Cubins as the assembler lays them out, with no code in them: for the fake NVRTC and for the tests of the checks.
 *
 * Header only, because the fakes are shared objects made of one file each.
 */
#ifndef GDPA_TESTS_SUPPORT_CUBIN_MAKER_H
#define GDPA_TESTS_SUPPORT_CUBIN_MAKER_H

#include <elf.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct cubin_recipe {
    const char *entry;  /* symbol of the kernel */
    const char *target; /* "sm_90a": in the flags and, from ABI version 8 on, in the tool note */
    int abi;            /* 7: CUDA 12, 8: CUDA 13 */
    size_t text_size;   /* bytes of "code" */
    uint8_t fill;       /* what they are */
    bool without_note;  /* ABI version 8 without its tool note */
};

enum cubin_section { CUBIN_NULL, CUBIN_NAMES, CUBIN_STRINGS, CUBIN_SYMBOLS, CUBIN_NOTE, CUBIN_TEXT, CUBIN_SECTIONS };

struct cubin_bytes {
    unsigned char *data;
    size_t size, capacity;
};

static inline size_t cubin_append(struct cubin_bytes *bytes, const void *data, size_t size)
{
    const size_t at = (bytes->size + 7) & ~(size_t)7;
    if (at + size > bytes->capacity) {
        bytes->capacity = 2 * (at + size) + 1024;
        bytes->data = realloc(bytes->data, bytes->capacity);
        if (bytes->data == NULL) {
            abort();
        }
    }
    memset(bytes->data + bytes->size, 0, at - bytes->size);
    if (size > 0) {
        memcpy(bytes->data + at, data, size);
    }
    bytes->size = at + size;
    return at;
}

static inline uint32_t cubin_flags(const struct cubin_recipe *recipe)
{
    const uint32_t arch = (uint32_t)strtoul(recipe->target + 3, NULL, 10);
    const bool accelerated = recipe->target[strlen(recipe->target) - 1] == 'a';
    if (recipe->abi >= 8) {
        return UINT32_C(0x06000004) | arch << 8;
    }
    return UINT32_C(0x00000500) | arch << 16 | (accelerated ? UINT32_C(0x800) : 0) | arch;
}

static inline void cubin_section_add(struct cubin_bytes *bytes, Elf64_Shdr *section, Elf64_Word name, Elf64_Word type,
                                     const void *data, size_t size)
{
    section->sh_name = name;
    section->sh_type = type;
    section->sh_offset = cubin_append(bytes, data, size);
    section->sh_size = size;
}

/* malloced; *size bytes. */
static inline unsigned char *cubin_make(const struct cubin_recipe *recipe, size_t *size)
{
    static const char names[] = "\0.shstrtab\0.strtab\0.symtab\0.note.nv.tkinfo\0.text";
    const Elf64_Word name_at[CUBIN_SECTIONS] = {0, 1, 11, 19, 27, 43};
    Elf64_Shdr sections[CUBIN_SECTIONS];
    Elf64_Sym symbols[2];
    Elf64_Ehdr header;
    Elf64_Phdr segment;
    struct cubin_bytes bytes = {NULL, 0, 0};
    char strings[1024], note[1024];
    memset(sections, 0, sizeof sections);
    memset(symbols, 0, sizeof symbols);
    memset(&header, 0, sizeof header);
    memset(&segment, 0, sizeof segment);
    const size_t string_size = (size_t)snprintf(strings + 1, sizeof strings - 1, "%s", recipe->entry) + 2;
    strings[0] = '\0';
    symbols[1].st_name = 1;
    symbols[1].st_info = ELF64_ST_INFO(STB_GLOBAL, STT_FUNC);
    symbols[1].st_shndx = CUBIN_TEXT;
    symbols[1].st_size = recipe->text_size;
    const size_t note_size = (size_t)snprintf(note, sizeof note, "NVIDIA Corp tools -arch %s ", recipe->target) + 1;
    unsigned char *text = malloc(recipe->text_size + 1);
    if (text == NULL) {
        abort();
    }
    memset(text, recipe->fill, recipe->text_size);
    cubin_append(&bytes, &header, sizeof header);
    cubin_section_add(&bytes, &sections[CUBIN_NAMES], name_at[CUBIN_NAMES], SHT_STRTAB, names, sizeof names);
    cubin_section_add(&bytes, &sections[CUBIN_STRINGS], name_at[CUBIN_STRINGS], SHT_STRTAB, strings, string_size);
    cubin_section_add(&bytes, &sections[CUBIN_SYMBOLS], name_at[CUBIN_SYMBOLS], SHT_SYMTAB, symbols, sizeof symbols);
    sections[CUBIN_SYMBOLS].sh_link = CUBIN_STRINGS;
    const bool noted = recipe->abi >= 8 && !recipe->without_note;
    cubin_section_add(&bytes, &sections[CUBIN_NOTE], name_at[CUBIN_NOTE], noted ? SHT_NOTE : SHT_NULL, note, note_size);
    cubin_section_add(&bytes, &sections[CUBIN_TEXT], name_at[CUBIN_TEXT], SHT_PROGBITS, text, recipe->text_size);
    memcpy(header.e_ident, ELFMAG, SELFMAG);
    header.e_ident[EI_CLASS] = ELFCLASS64;
    header.e_ident[EI_DATA] = ELFDATA2LSB;
    header.e_ident[EI_VERSION] = EV_CURRENT;
    header.e_ident[EI_OSABI] = recipe->abi >= 8 ? 0x41 : 0x33;
    header.e_ident[EI_ABIVERSION] = (unsigned char)recipe->abi;
    header.e_type = ET_EXEC;
    header.e_machine = 190;
    header.e_version = EV_CURRENT;
    header.e_flags = cubin_flags(recipe);
    header.e_ehsize = sizeof header;
    header.e_shentsize = sizeof sections[0];
    header.e_shnum = CUBIN_SECTIONS;
    header.e_shstrndx = CUBIN_NAMES;
    header.e_shoff = cubin_append(&bytes, sections, sizeof sections);
    header.e_phentsize = sizeof segment;
    header.e_phnum = 1;
    header.e_phoff = cubin_append(&bytes, &segment, sizeof segment);
    memcpy(bytes.data, &header, sizeof header);
    free(text);
    *size = bytes.size;
    return bytes.data;
}

#endif
