/*
 * Translating, compiling and loading of generated sources; see kernel.hpp.
 */
#include "kernel.hpp"
#include "text.hpp"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <fcntl.h>
#include <fstream>
#include <set>
#include <sstream>
#include <sys/stat.h>
#include <unistd.h>
#include <vector>

#include "include/gdpajit.h"
extern "C" {
#include "gen/assemble.h"
#include "gen/body.h"
}

#ifndef EMU_ROOT
#error "EMU_ROOT must name the folder that holds tests/emu"
#endif
#ifndef EMU_CXX
#define EMU_CXX "g++"
#endif

namespace emu
{

/* Uninitialised variables hold a huge number, and an index outside an array or a too wide shift traps. */
static const char compile_flags[] = "-std=c++17 -fPIC -shared -w -ffp-contract=off -ftrivial-auto-var-init=pattern "
                                    "-fsanitize=bounds,shift,integer-divide-by-zero -fsanitize-undefined-trap-on-error";

/* EMU_DEBUG in the environment: code that a debugger can step through. */
static std::string all_flags()
{
    return std::string(compile_flags) + (getenv("EMU_DEBUG") != nullptr ? " -Og -g3" : " -O2 -g1");
}

static const char marker[] = "// ---- templates/";

static std::string read_file(const std::string &path)
{
    std::ifstream file(path, std::ios::binary);
    std::ostringstream content;
    content << file.rdbuf();
    return content.str();
}

/* "ptx/mma" of "// ---- templates/ptx/mma.cuh (continued)"; "" of a line that is no marker. */
static std::string marked_file(const std::string &line)
{
    if (line.compare(0, sizeof marker - 1, marker) != 0) {
        return "";
    }
    const size_t end = line.find_first_of(" ,", sizeof marker - 1);
    const std::string path = line.substr(sizeof marker - 1, end == std::string::npos ? end : end - (sizeof marker - 1));
    return path.substr(0, path.rfind('.'));
}

/* The identifier in front of the parameter list of the kernel. */
static std::string entry_name(const std::string &source)
{
    size_t at = source.find("__global__");
    while (at != std::string::npos) {
        const size_t open = source.find('(', at);
        if (open == std::string::npos) {
            break;
        }
        size_t end = open;
        while (end > at && isspace(static_cast<unsigned char>(source[end - 1]))) {
            --end;
        }
        size_t begin = end;
        while (begin > at && (isalnum(static_cast<unsigned char>(source[begin - 1])) || source[begin - 1] == '_')) {
            --begin;
        }
        const std::string word = source.substr(begin, end - begin);
        if (word.compare(0, 2, "__") != 0) {
            return word;
        }
        at = open + 1;
    }
    return "";
}

/* What makes a function of templates/ptx/ one that a host compiler cannot compile. */
static bool is_device_only(const std::string &function)
{
    for (const char *word : {"asm", "threadIdx", "blockIdx", "gridDim", "__shared__"}) {
        if (function.find(word) != std::string::npos) {
            return true;
        }
    }
    return false;
}

/* The functions of a section of templates/ptx/ that are plain C++, such as the arithmetic of descriptors. */
static std::string plain_functions(const std::string &section, int first_line, const std::string &path)
{
    std::string result, function;
    std::istringstream lines(section);
    std::string line;
    int start = first_line;
    for (int number = first_line; std::getline(lines, line); ++number) {
        function += line + "\n";
        if (line == "}") {
            if (!is_device_only(function)) {
                result += text("#line %d \"%s\"\n", start, path.c_str()) + function;
            }
            function.clear();
            start = number + 1;
        }
    }
    return result;
}

/* The header with the host bodies of "ptx/name". All widths of wgmma share one. */
static std::string host_header(const std::string &file)
{
    const std::string wgmma = "ptx/wgmma_";
    return file.compare(0, wgmma.size(), wgmma) == 0 ? "ptx/wgmma" : file;
}

struct Section {
    std::string file; // "" in front of the first marker
    std::string content;
    int first_line = 1;
};

static std::vector<Section> split(const std::string &source)
{
    std::vector<Section> sections(1);
    std::istringstream lines(source);
    std::string line;
    for (int number = 1; std::getline(lines, line); ++number) {
        const std::string file = marked_file(line);
        if (!file.empty()) {
            sections.emplace_back();
            sections.back().file = file;
            sections.back().first_line = number;
        }
        sections.back().content += line + "\n";
    }
    return sections;
}

std::string kernel_translate(const std::string &source, const std::string &path)
{
    const std::string entry = entry_name(source);
    if (entry.empty()) {
        return "";
    }
    std::string result = "#include \"tests/emu/kernel_prelude.hpp\"\n";
    if (source.find(".f32.f16.f16 {") != std::string::npos) {
        result += "#define EMU_WGMMA_TYPE Fp16\n";
    }
    std::set<std::string> included;
    for (const Section &section : split(source)) {
        if (section.file == "types") {
            continue;
        }
        if (section.file.compare(0, 4, "ptx/") != 0) {
            result += text("#line %d \"%s\"\n", section.first_line, path.c_str()) + section.content;
            continue;
        }
        const std::string header = host_header(section.file);
        if (included.insert(header).second) {
            result += text("#include \"tests/emu/%s.hpp\"\n", header.c_str());
        }
        result += plain_functions(section.content, section.first_line, path);
    }
    result += "EMU_EXPORT(" + entry + ")\n";
    for (const char *suffix : {SECOND_ENTRY_SUFFIX, SCHEDULE_ENTRY_SUFFIX}) {
        const std::string second = entry + suffix;
        if (source.find(" " + second + "(") != std::string::npos) {
            result += "EMU_EXPORT_SECOND(" + second + ")\n";
        }
    }
    return result;
}

/* Changes with everything that a compiled kernel depends on. */
static std::string content_hash(const std::string &translated)
{
    std::string all = std::string(EMU_CXX) + all_flags() + translated;
    const std::string folder = std::string(EMU_ROOT) + "/tests/emu/";
    for (const char *name : {"device.hpp", "kernel_prelude.hpp", "float_formats.hpp"}) {
        all += read_file(folder + name);
    }
    std::istringstream lines(translated);
    std::string line;
    const std::string start = "#include \"tests/emu/";
    while (std::getline(lines, line)) {
        if (line.compare(0, start.size(), start) == 0) {
            all += read_file(folder + line.substr(start.size(), line.size() - start.size() - 1));
        }
    }
    char hex[33];
    source_hash(all.data(), all.size(), hex);
    return hex;
}

static void make_folders(const std::string &path)
{
    for (size_t slash = path.find('/', 1); slash != std::string::npos; slash = path.find('/', slash + 1)) {
        mkdir(path.substr(0, slash).c_str(), 0777);
    }
    mkdir(path.c_str(), 0777);
}

static bool write_file(const std::string &path, const std::string &content)
{
    std::ofstream file(path, std::ios::binary | std::ios::trunc);
    file << content;
    return file.good();
}

/* Into a file of its own, renamed when it is complete: several processes may compile the same kernel. */
static bool compile(const std::string &base, const std::string &translated, std::string *why)
{
    const std::string own = text("%s.%ld", base.c_str(), static_cast<long>(getpid()));
    if (!write_file(own + ".cpp", translated)) {
        *why = text("cannot write %s.cpp: %s", own.c_str(), strerror(errno));
        return false;
    }
    const std::string command = text("%s %s -I'%s' -o '%s.so' '%s.cpp' >'%s.log' 2>&1", EMU_CXX, all_flags().c_str(),
                                     EMU_ROOT, own.c_str(), own.c_str(), own.c_str());
    if (system(command.c_str()) != 0) {
        *why = command + "\n" + read_file(own + ".log");
        return false;
    }
    rename((own + ".so").c_str(), (base + ".so").c_str());
    unlink((own + ".cpp").c_str());
    unlink((own + ".log").c_str());
    return true;
}

Kernel kernel_load(const std::string &source, const std::string &folder, std::string *why)
{
    Kernel kernel;
    char hex[33];
    source_hash(source.data(), source.size(), hex);
    const std::string path = folder + "/" + hex + ".cu";
    const std::string translated = kernel_translate(source, path);
    if (translated.empty()) {
        *why = "the source has no kernel";
        return kernel;
    }
    make_folders(folder);
    if (access(path.c_str(), R_OK) != 0 && !write_file(path, source)) {
        *why = text("cannot write %s: %s", path.c_str(), strerror(errno));
        return kernel;
    }
    const std::string base = folder + "/" + content_hash(translated);
    if (access((base + ".so").c_str(), R_OK) != 0 && !compile(base, translated, why)) {
        return kernel;
    }
    void *library = dlopen((base + ".so").c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) {
        *why = dlerror();
        return kernel;
    }
    const auto *name = static_cast<const char *>(dlsym(library, "emu_kernel_name"));
    kernel.entry = reinterpret_cast<void (*)(void **)>(dlsym(library, "emu_kernel_entry"));
    kernel.second = reinterpret_cast<void (*)(void **)>(dlsym(library, "emu_second_entry"));
    kernel.name = name == nullptr ? "" : name;
    return kernel;
}

} // namespace emu
