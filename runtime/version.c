/*
 * Versions: of this library, and of what is built into it.
 */
#include "gen/assemble.h"
#include "include/gdpajit.h"

#include <pthread.h>
#include <sqlite3.h>
#include <stdio.h>
#include <xxhash.h>
#include <zstd.h>

#ifdef __clang__
#define COMPILER "clang " __clang_version__
#else
#define COMPILER "gcc " __VERSION__
#endif

const char *gdpa_version_string(void)
{
    return GDPA_VERSION_STRING;
}

int gdpa_version_number(void)
{
    return GDPA_VERSION_NUMBER;
}

static char build_info[512];
static pthread_once_t build_info_once = PTHREAD_ONCE_INIT;

static void build_info_make(void)
{
    const unsigned xxhash = XXH_versionNumber();
    snprintf(build_info, sizeof build_info,
             "version: %s\ngenerator: %s\nsqlite: %s\nzstd: %s\nxxhash: %u.%u.%u\ncompiler: %s\nnvrtc folder: %s\n",
             GDPA_VERSION_STRING, generator_id(), sqlite3_libversion(), ZSTD_versionString(), xxhash / 10000,
             xxhash / 100 % 100, xxhash % 100, COMPILER,
#ifdef GDPA_NVRTC_DIR
             GDPA_NVRTC_DIR
#else
             "none"
#endif
    );
}

const char *gdpa_build_info(void)
{
    pthread_once(&build_info_once, build_info_make);
    return build_info;
}
