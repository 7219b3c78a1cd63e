/*
 * NVRTC: search, load, identity, compile. See nvrtc.h; the order of the search is described in docs/install.md.
 *
 * The identity is more than the version: nvrtcVersion says "13.0" for every update of 13.0, so the build-ids of the
 * library and of its builtins go into the cache key.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* dladdr, dlinfo, dl_iterate_phdr */
#endif
#include "runtime/nvrtc.h"
#include "gen/hash.h"

#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define OLDEST_MAJOR 12
#define BUILD_ID_HEX 33

/* Sonames, in the order in which they are tried. */
static const char *const sonames[] = {"libnvrtc.so.13", "libnvrtc.so.12"};
enum { SONAME_COUNT = sizeof sonames / sizeof sonames[0] };

/* Results of NVRTC that have a remedy of their own. */
enum { NVRTC_OUT_OF_MEMORY = 1, NVRTC_BUILTIN_FAILURE = 7 };

struct search {
    const struct nvrtc_search *from;
    struct sbuf *report;
    struct nvrtc *found;   /* to be used */
    struct nvrtc *too_new; /* newer than the driver: only when there is no other */
    bool out_of_memory;
};

/* ---------------------------------------------------------------------------------------------------------------
 * Identity
 * ------------------------------------------------------------------------------------------------------------- */

struct note_search {
    ElfW(Addr) base;
    char *hex; /* BUILD_ID_HEX bytes */
    bool found;
};

/* The first 16 bytes of the build-id in one PT_NOTE segment. */
static bool build_id_in_notes(const unsigned char *notes, size_t size, char *hex)
{
    size_t at = 0;
    while (at + sizeof(ElfW(Nhdr)) <= size) {
        ElfW(Nhdr) note;
        memcpy(&note, notes + at, sizeof note);
        const size_t name = at + sizeof note;
        const size_t data = name + ((note.n_namesz + 3u) & ~(size_t)3);
        if (data > size || note.n_descsz > size - data) {
            return false;
        }
        if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 && memcmp(notes + name, "GNU", 4) == 0 &&
            note.n_descsz >= 16) {
            for (size_t i = 0; i < 16; i++) {
                snprintf(hex + 2 * i, 3, "%02x", notes[data + i]);
            }
            return true;
        }
        at = data + ((note.n_descsz + 3u) & ~(size_t)3);
    }
    return false;
}

static int object_visit(struct dl_phdr_info *info, size_t size, void *user)
{
    struct note_search *search = user;
    (void)size;
    if (info->dlpi_addr != search->base) {
        return 0;
    }
    for (int i = 0; i < info->dlpi_phnum && !search->found; i++) {
        const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
        if (segment->p_type == PT_NOTE) {
            const unsigned char *notes = (const unsigned char *)(info->dlpi_addr + segment->p_vaddr);
            search->found = build_id_in_notes(notes, segment->p_memsz, search->hex);
        }
    }
    return 1;
}

/* Without a build-id: the size, and a hash of the first and last MiB. */
static bool file_identity(const char *path, char *hex)
{
    enum { PIECE = 1 << 20 };
    struct stat status;
    FILE *file = fopen(path, "rbe");
    if (file == NULL) {
        return false;
    }
    char *bytes = malloc(sizeof status.st_size + (size_t)2 * PIECE);
    bool good = bytes != NULL && fstat(fileno(file), &status) == 0;
    if (good) {
        const size_t whole = (size_t)status.st_size;
        const size_t piece = whole < PIECE ? whole : PIECE;
        memcpy(bytes, &status.st_size, sizeof status.st_size);
        char *pieces = bytes + sizeof status.st_size;
        good = fread(pieces, 1, piece, file) == piece && fseek(file, -(long)piece, SEEK_END) == 0 &&
               fread(pieces + piece, 1, piece, file) == piece;
        if (good) {
            hash_hex(bytes, sizeof status.st_size + 2 * piece, hex);
        }
    }
    free(bytes);
    fclose(file);
    return good;
}

/* Path of a loaded library, and what tells this build of it from every other. */
static bool library_identity(void *handle, char *path, size_t path_size, char hex[BUILD_ID_HEX])
{
    struct link_map *map = NULL;
    if (dlinfo(handle, RTLD_DI_LINKMAP, &map) != 0 || map == NULL) {
        return false;
    }
    snprintf(path, path_size, "%s", map->l_name);
    struct note_search notes = {.base = map->l_addr, .hex = hex, .found = false};
    dl_iterate_phdr(object_visit, &notes);
    return notes.found || file_identity(path, hex);
}

/* ---------------------------------------------------------------------------------------------------------------
 * Loading
 * ------------------------------------------------------------------------------------------------------------- */

static bool functions_load(void *handle, struct nvrtc *nvrtc, const char **missing)
{
#define NVRTC_LOAD(result, name, parameters)                                                                           \
    *(void **)(&nvrtc->name) = dlsym(handle, #name);                                                                   \
    if (nvrtc->name == NULL) {                                                                                         \
        *missing = #name;                                                                                              \
        return false;                                                                                                  \
    }
    NVRTC_FUNCTIONS(NVRTC_LOAD)
#undef NVRTC_LOAD
    return true;
}

/*
 * NVRTC opens its builtins by soname when it first compiles, and fails (result 7) where the loader does not look into
 * its folder. Loaded from there beforehand, they are found.
 */
static void builtins_load(struct nvrtc *nvrtc, char hex[BUILD_ID_HEX])
{
    const char *slash = strrchr(nvrtc->path, '/');
    char path[sizeof nvrtc->builtins];
    const int folder = slash == NULL ? 0 : (int)(slash - nvrtc->path) + 1;
    snprintf(hex, BUILD_ID_HEX, "unknown");
    if ((size_t)snprintf(path, sizeof path, "%.*slibnvrtc-builtins.so.%d.%d", folder, nvrtc->path, nvrtc->major,
                         nvrtc->minor) >= sizeof path) {
        return;
    }
    void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (handle == NULL) {
        return;
    }
    library_identity(handle, nvrtc->builtins, sizeof nvrtc->builtins, hex);
}

/* Version, architectures and identity of a library whose functions are there. */
static bool library_ask(void *handle, struct nvrtc *nvrtc, struct sbuf *report)
{
    if (nvrtc->nvrtcVersion(&nvrtc->major, &nvrtc->minor) != 0) {
        sbuf_addstr(report, "nvrtcVersion failed\n");
        return false;
    }
    if (nvrtc->major < OLDEST_MAJOR) {
        sbuf_addf(report, "version %d.%d, but %d or later is needed\n", nvrtc->major, nvrtc->minor, OLDEST_MAJOR);
        return false;
    }
    int count = 0;
    if (nvrtc->nvrtcGetNumSupportedArchs(&count) != 0 || count < 1 || count > NVRTC_ARCHS_MAX ||
        nvrtc->nvrtcGetSupportedArchs(nvrtc->archs) != 0) {
        sbuf_addstr(report, "it does not say which architectures it supports\n");
        return false;
    }
    nvrtc->arch_count = count;
    snprintf(nvrtc->version, sizeof nvrtc->version, "%d.%d", nvrtc->major, nvrtc->minor);
    char own[BUILD_ID_HEX], builtins[BUILD_ID_HEX];
    if (!library_identity(handle, nvrtc->path, sizeof nvrtc->path, own)) {
        sbuf_addstr(report, "its build cannot be identified (no build-id, and the file cannot be read)\n");
        return false;
    }
    builtins_load(nvrtc, builtins);
    snprintf(nvrtc->build, sizeof nvrtc->build, "%s builtins %s", own, builtins);
    return true;
}

/* Loads and checks one candidate; `flags` for dlopen. True when the search is over. */
static bool candidate_try(struct search *search, const char *file, int flags)
{
    void *handle = dlopen(file, RTLD_NOW | RTLD_LOCAL | flags);
    if (handle == NULL) {
        const char *reason = dlerror();
        const size_t length = strlen(file);
        if ((flags & RTLD_NOLOAD) != 0) {
            reason = "not loaded in this process";
        } else if (strncmp(reason, file, length) == 0 && strncmp(reason + length, ": ", 2) == 0) {
            reason += length + 2;
        }
        sbuf_addf(search->report, "  %s: %s\n", file, reason);
        return false;
    }
    struct nvrtc *nvrtc = calloc(1, sizeof *nvrtc);
    if (nvrtc == NULL) {
        dlclose(handle);
        search->out_of_memory = true;
        return true;
    }
    sbuf_addf(search->report, "  %s: ", file);
    const char *missing = NULL;
    if (!functions_load(handle, nvrtc, &missing)) {
        sbuf_addf(search->report, "has no function %s\n", missing);
        dlclose(handle);
    } else if (library_ask(handle, nvrtc, search->report)) {
        const int newest = search->from->newest;
        if (newest != 0 && nvrtc_number(nvrtc->version) > newest) {
            sbuf_addf(search->report, "version %s is newer than %d.%d\n", nvrtc->version, newest / 1000,
                      newest % 1000 / 10);
            free(nvrtc);
            return false;
        }
        if (search->from->driver_major == 0 || nvrtc->major <= search->from->driver_major) {
            sbuf_addf(search->report, "version %s, taken\n", nvrtc->version);
            search->found = nvrtc;
            return true;
        }
        sbuf_addf(search->report, "version %s is newer than the driver (CUDA %d); used only if there is no other\n",
                  nvrtc->version, search->from->driver_major);
        if (search->too_new == NULL) {
            search->too_new = nvrtc;
            return false;
        }
    }
    free(nvrtc); /* but a library that was asked stays loaded: nvrtc.h says why */
    return false;
}

/* ---------------------------------------------------------------------------------------------------------------
 * The search
 * ------------------------------------------------------------------------------------------------------------- */

static bool folder_try(struct search *search, const char *folder)
{
    bool any = false;
    for (int i = 0; i < SONAME_COUNT; i++) {
        char file[4096];
        if ((size_t)snprintf(file, sizeof file, "%s/%s", folder, sonames[i]) < sizeof file && access(file, F_OK) == 0) {
            any = true;
            if (candidate_try(search, file, 0)) {
                return true;
            }
        }
    }
    if (!any) {
        sbuf_addf(search->report, "  %s: no %s or %s there\n", folder, sonames[0], sonames[1]);
    }
    return false;
}

/* Sub-folders of `base`, a list ended by NULL. */
static bool folders_try(struct search *search, const char *base, const char *const *below)
{
    if (base == NULL || base[0] == '\0') {
        return false;
    }
    for (int i = 0; below[i] != NULL; i++) {
        char folder[4096];
        if ((size_t)snprintf(folder, sizeof folder, "%s%s", base, below[i]) < sizeof folder &&
            folder_try(search, folder)) {
            return true;
        }
    }
    return false;
}

static const char *const toolkit_folders[] = {"/lib64", "/lib", NULL};

/* Where the packages nvidia-cuda-nvrtc (13) and nvidia-cuda-nvrtc-cu12 put the library below their root. */
static const char *const package_folders[] = {"/nvidia/cu13/lib", "/nvidia/cuda_nvrtc/lib", NULL};

/* Package roots next to the file that this code is in: a package of its own, or one installed beside it. */
static bool neighbours_try(struct search *search)
{
    static const char marker = 0;
    static const char *const roots[] = {"", "/gdpajit", "/..", "/../.."};
    Dl_info self;
    char folder[4096];
    if (dladdr(&marker, &self) == 0 || self.dli_fname == NULL || strrchr(self.dli_fname, '/') == NULL) {
        return false;
    }
    const int length = (int)(strrchr(self.dli_fname, '/') - self.dli_fname);
    for (size_t i = 0; i < sizeof roots / sizeof roots[0]; i++) {
        if ((size_t)snprintf(folder, sizeof folder, "%.*s%s", length, self.dli_fname, roots[i]) < sizeof folder &&
            folders_try(search, folder, package_folders)) {
            return true;
        }
    }
    return false;
}

/* The folder that the set-up fills where no toolkit is installed; known at build time. */
static bool private_folder_try(struct search *search)
{
#ifdef GDPA_NVRTC_DIR
    static const char *const below[] = {"/nvidia/cu13/lib", "/nvidia/cuda_nvrtc/lib", "", NULL};
    return folders_try(search, GDPA_NVRTC_DIR, below);
#else
    (void)search;
    return false;
#endif
}

static bool named_try(struct search *search, const char *path)
{
    struct stat status;
    if (stat(path, &status) == 0 && S_ISDIR(status.st_mode)) {
        return folder_try(search, path);
    }
    return candidate_try(search, path, 0);
}

static bool search_all(struct search *search)
{
    for (int i = 0; i < SONAME_COUNT; i++) {
        if (candidate_try(search, sonames[i], RTLD_NOLOAD)) {
            return true;
        }
    }
    for (int i = 0; i < SONAME_COUNT; i++) {
        if (candidate_try(search, sonames[i], 0)) {
            return true;
        }
    }
    return folders_try(search, search->from->cuda_home, toolkit_folders) ||
           folders_try(search, search->from->cuda_path, toolkit_folders) ||
           folders_try(search, "/usr/local/cuda", toolkit_folders) || neighbours_try(search) ||
           private_folder_try(search);
}

gdpa_status nvrtc_open(const struct nvrtc_search *from, struct nvrtc **nvrtc, struct sbuf *report)
{
    struct search search = {.from = from, .report = report};
    const bool named = from->path != NULL && from->path[0] != '\0';
    if (named) {
        named_try(&search, from->path);
    } else {
        search_all(&search);
    }
    if (search.found == NULL && !search.out_of_memory) {
        search.found = search.too_new;
        search.too_new = NULL;
    }
    free(search.too_new);
    if (search.found != NULL) {
        *nvrtc = search.found;
        return GDPA_OK;
    }
    if (named) {
        sbuf_addf(report, "  (nothing else was tried, because %s names this one)\n", from->path_origin);
    }
    return search.out_of_memory ? GDPA_E_MEMORY : GDPA_E_NO_COMPILER;
}

int nvrtc_number(const char *version)
{
    int major = 0, minor = 0;
    return sscanf(version, "%d.%d", &major, &minor) == 2 ? 1000 * major + 10 * minor : 0;
}

void nvrtc_free(struct nvrtc *nvrtc)
{
    free(nvrtc);
}

gdpa_status nvrtc_supports(const struct nvrtc *nvrtc, int arch, struct sbuf *why)
{
    for (int i = 0; i < nvrtc->arch_count; i++) {
        if (nvrtc->archs[i] == arch) {
            return GDPA_OK;
        }
    }
    fail(why, GDPA_E_NO_COMPILER, "NVRTC %s (%s) cannot make code for compute capability %d.%d; it can for",
         nvrtc->version, nvrtc->path, arch / 10, arch % 10);
    for (int i = 0; i < nvrtc->arch_count; i++) {
        sbuf_addf(why, "%s %d.%d", i == 0 ? "" : ",", nvrtc->archs[i] / 10, nvrtc->archs[i] % 10);
    }
    sbuf_addstr(why, ". Name another library with GDPAJIT_NVRTC");
    return GDPA_E_NO_COMPILER;
}

/* ---------------------------------------------------------------------------------------------------------------
 * Compiling
 * ------------------------------------------------------------------------------------------------------------- */

typedef int (*size_function)(void *program, size_t *size);
typedef int (*bytes_function)(void *program, char *bytes);

/* One output of a program, malloced and ended by a 0; *bytes stays NULL when there is none. */
static int output_get(size_function ask, bytes_function get, void *program, char **bytes, size_t *size)
{
    size_t wanted = 0;
    int result = ask(program, &wanted);
    if (result != 0 || wanted == 0) {
        return result;
    }
    char *copy = malloc(wanted + 1);
    if (copy == NULL) {
        return NVRTC_OUT_OF_MEMORY;
    }
    result = get(program, copy);
    if (result != 0) {
        free(copy);
        return result;
    }
    copy[wanted] = '\0';
    *bytes = copy;
    *size = wanted;
    return 0;
}

/* NVRTC counts the final 0 of texts. */
static void text_trim(const char *text, size_t *size)
{
    *size = text == NULL ? 0 : strlen(text);
}

static gdpa_status compile_failed(const struct nvrtc *nvrtc, int result, const char *file_name, const char *log,
                                  struct sbuf *why)
{
    const char *name = nvrtc->nvrtcGetErrorString(result);
    const gdpa_status status = result == NVRTC_OUT_OF_MEMORY ? GDPA_E_MEMORY : GDPA_E_COMPILE;
    fail(why, status, "NVRTC %s (%s) could not compile %s: %s (error %d)", nvrtc->version, nvrtc->path, file_name,
         name == NULL ? "unknown error" : name, result);
    if (result == NVRTC_BUILTIN_FAILURE) {
        sbuf_addf(why, "; libnvrtc-builtins.so.%s must lie in the folder of the library", nvrtc->version);
    }
    if (log != NULL && log[0] != '\0') {
        sbuf_addf(why, "\n%s", log);
    }
    return status;
}

static int program_compile(const struct nvrtc *nvrtc, void *program, const char *const *options, int option_count,
                           struct nvrtc_output *output)
{
    int result = nvrtc->nvrtcCompileProgram(program, option_count, options);
    const int log_result =
        output_get(nvrtc->nvrtcGetProgramLogSize, nvrtc->nvrtcGetProgramLog, program, &output->log, &output->log_size);
    text_trim(output->log, &output->log_size);
    if (result != 0) {
        return result;
    }
    if (log_result != 0) {
        return log_result;
    }
    result = output_get(nvrtc->nvrtcGetCUBINSize, nvrtc->nvrtcGetCUBIN, program, &output->cubin, &output->cubin_size);
    if (result == 0) {
        result = output_get(nvrtc->nvrtcGetPTXSize, nvrtc->nvrtcGetPTX, program, &output->ptx, &output->ptx_size);
        text_trim(output->ptx, &output->ptx_size);
    }
    return result;
}

gdpa_status nvrtc_compile(const struct nvrtc *nvrtc, const char *source, const char *file_name,
                          const char *const *options, int option_count, struct nvrtc_output *output, struct sbuf *why)
{
    memset(output, 0, sizeof *output);
    void *program = NULL;
    int result = nvrtc->nvrtcCreateProgram(&program, source, file_name, 0, NULL, NULL);
    if (result == 0) {
        result = program_compile(nvrtc, program, options, option_count, output);
        nvrtc->nvrtcDestroyProgram(&program);
    }
    if (result != 0) {
        return compile_failed(nvrtc, result, file_name, output->log, why);
    }
    if (output->cubin == NULL) {
        return fail(why, GDPA_E_COMPILE, "NVRTC %s (%s) compiled %s without an error, but gave no code%s%s",
                    nvrtc->version, nvrtc->path, file_name, output->log == NULL ? "" : "\n",
                    output->log == NULL ? "" : output->log);
    }
    return GDPA_OK;
}

void nvrtc_output_deinit(struct nvrtc_output *output)
{
    free(output->cubin);
    free(output->ptx);
    free(output->log);
    memset(output, 0, sizeof *output);
}
