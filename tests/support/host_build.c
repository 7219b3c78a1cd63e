/*
 * See host_build.h.
 */
#include "tests/support/host_build.h"

#include <dlfcn.h>
#include <setjmp.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include <cmocka.h>

#include "gen/assemble.h"
#include "tests/support/runtime_fixture.h"

extern char **environ;

enum { PATH_SIZE = 4096, SOURCE_SIZE = 1 << 22 };

static void path_in_folder(const struct host_build *build, const char *name, char path[PATH_SIZE])
{
    int length = snprintf(path, PATH_SIZE, "%s/%s", build->folder, name);
    assert_in_range(length, 1, PATH_SIZE - 1);
}

FILE *host_build_begin(struct host_build *build)
{
    char path[PATH_SIZE];
    *build = (struct host_build){.folder = scratch_make()};
    path_in_folder(build, "host.cpp", path);
    build->text = fopen(path, "w");
    assert_non_null(build->text);
    return build->text;
}

/* Whether the marker line "// ---- templates/<path>..." names one of the files. */
static bool marker_names(const char *marker, const char *const *files)
{
    const char *path = marker + strlen("// ---- templates/");
    size_t length = strcspn(path, " ,\n");
    for (; *files != NULL; ++files) {
        size_t wanted = strlen(*files);
        bool folder = (*files)[wanted - 1] == '/';
        if (length >= wanted && (folder || length == wanted) && memcmp(path, *files, wanted) == 0) {
            return true;
        }
    }
    return false;
}

static void add_sections(FILE *text, const char *source, const char *const *files)
{
    static const char marker[] = "// ---- templates/";
    bool wanted = false, found = false;
    for (const char *line = source; *line != '\0';) {
        size_t length = strcspn(line, "\n") + 1;
        if (strncmp(line, marker, sizeof(marker) - 1) == 0) {
            wanted = marker_names(line, files);
            found = found || wanted;
        }
        if (wanted) {
            assert_int_equal(fwrite(line, 1, length, text), length);
        }
        line += length;
    }
    assert_true(found);
}

void host_build_add(struct host_build *build, const char *spec, const struct kernel_plan *plan,
                    const char *const *files)
{
    gdpa_spec parsed, normalised;
    struct kernel_plan own;
    struct sbuf source, why;
    sbuf_init(&source, SOURCE_SIZE);
    sbuf_init(&why, PATH_SIZE);
    if (spec_parse(spec, &parsed, &why) != GDPA_OK || spec_normalise(&parsed, false, &normalised, &why) != GDPA_OK ||
        plan_make(&normalised, &own, NULL, &why) != GDPA_OK ||
        plan_check(&normalised, plan != NULL ? plan : &own, &why) != GDPA_OK ||
        source_generate(&normalised, plan != NULL ? plan : &own, &source, &why) != GDPA_OK) {
        fail_msg("'%s': %s", spec, why.text);
    }
    add_sections(build->text, source.text, files);
    sbuf_deinit(&why);
    sbuf_deinit(&source);
}

/* The compiler, which may be several words, on the file; its messages go to a file. */
static int compile(const char *source, const char *library, const char *log)
{
    static const char script[] =
        "exec ${CXX:-g++} -std=c++17 -O2 -fPIC -shared -ffp-contract=off -w -I \"$0\" -o \"$1\" "
        "\"$2\" 2>\"$3\"";
    const char *arguments[] = {"sh", "-c", script, TEST_SOURCE_DIR, library, source, log, NULL};
    pid_t child;
    int status = -1;
    if (posix_spawnp(&child, "sh", NULL, NULL, (char **)(uintptr_t)arguments, environ) != 0 ||
        waitpid(child, &status, 0) != child) {
        return -1;
    }
    return status;
}

static void print_file(const char *path)
{
    char line[400];
    FILE *file = fopen(path, "r");
    for (int lines = 0; file != NULL && lines < 40 && fgets(line, sizeof(line), file) != NULL; ++lines) {
        print_error("%s", line);
    }
    if (file != NULL) {
        fclose(file);
    }
}

void host_build_finish(struct host_build *build)
{
    char source[PATH_SIZE], library[PATH_SIZE], log[PATH_SIZE];
    path_in_folder(build, "host.cpp", source);
    path_in_folder(build, "host.so", library);
    path_in_folder(build, "log", log);
    assert_int_equal(fclose(build->text), 0);
    build->text = NULL;
    int status = compile(source, library, log);
    if (status != 0) {
        print_file(log);
        fail_msg("the host compiler did not compile %s (status %d)", source, status);
    }
    build->library = dlopen(library, RTLD_NOW | RTLD_LOCAL);
    if (build->library == NULL) {
        fail_msg("%s", dlerror());
    }
}

void *host_build_symbol(const struct host_build *build, const char *name)
{
    void *address = dlsym(build->library, name);
    if (address == NULL) {
        fail_msg("%s", dlerror());
    }
    return address;
}

void host_build_function(const struct host_build *build, const char *name, void *function)
{
    const void *address = host_build_symbol(build, name);
    memcpy(function, &address, sizeof(address));
}

void host_build_end(struct host_build *build)
{
    if (build->library != NULL) {
        dlclose(build->library);
    }
    scratch_remove(build->folder);
    *build = (struct host_build){.folder = NULL};
}
