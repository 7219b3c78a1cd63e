# libgdpajit: all rules. `make help` lists the targets and the variables.
#
# Objects of one folder form one archive ($(BUILD)/libgen.a, libcache.a, libruntime.a, libtools.a). tests/gen links
# libgen.a alone and tests/cache libcache.a alone, so that a dependency in the wrong direction does not link.

# ---------------------------------------------------------------------------------------------------------------
# Variables for the command line
# ---------------------------------------------------------------------------------------------------------------
BUILD ?= build
PREFIX ?= /usr/local
libdir ?= $(PREFIX)/lib
includedir ?= $(PREFIX)/include
bindir ?= $(PREFIX)/bin
mandir ?= $(PREFIX)/share/man
docdir ?= $(PREFIX)/share/doc/gdpajit
PKG_CONFIG ?= pkg-config
OBJCOPY ?= objcopy
CXX ?= g++
CLANG_FORMAT ?= $(firstword $(shell command -v clang-format-14 clang-format 2>/dev/null) clang-format)
OPTIMISE ?= -O2 -g

# A warning is an error in CI and in everything that tests.
ifneq ($(CI)$(filter test test-% sanitize%,$(MAKECMDGOALS)),)
DEVELOPER ?= 1
endif

ifeq ($(V),1)
quiet =
else
quiet = @printf '  %-7s %s\n' '$(1)' '$(patsubst $(BUILD)/%,%,$(2))';
endif

comma := ,

# ---------------------------------------------------------------------------------------------------------------
# Flags
# ---------------------------------------------------------------------------------------------------------------
version_part = $(shell sed -n 's/^\#define GDPA_VERSION_$(1) \([0-9]*\)$$/\1/p' include/gdpajit.h)
VERSION_MAJOR := $(call version_part,MAJOR)
VERSION_MINOR := $(call version_part,MINOR)
VERSION := $(VERSION_MAJOR).$(VERSION_MINOR).$(call version_part,PATCH)
SONAME := libgdpajit.so.$(VERSION_MAJOR)

WARNINGS := -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wformat=2 -Wvla -Wwrite-strings -Wpointer-arith \
            -Wmissing-prototypes -Wstrict-prototypes -Wundef
WERROR := $(if $(filter 1,$(DEVELOPER)),-Werror)
SANITIZE := $(if $(SAN),-fsanitize=$(SAN) -fno-omit-frame-pointer -fno-sanitize-recover=all)
ALL_CPPFLAGS := -D_POSIX_C_SOURCE=200809L -I. -Iinclude $(CPPFLAGS)
# Debug information names sources relative to the tree: the same binaries wherever it lies.
ALL_CFLAGS := -std=c11 $(OPTIMISE) -fPIC -fvisibility=hidden -ffunction-sections -fdata-sections -pthread \
              -ffile-prefix-map=$(CURDIR)/= -fdebug-prefix-map=$(CURDIR)=. -ffile-prefix-map=$(abspath $(BUILD))/= \
              $(WARNINGS) $(SANITIZE) $(CFLAGS)
ALL_LDFLAGS := -pthread $(SANITIZE) $(LDFLAGS)
SYSTEM_LDLIBS := -lm -ldl

# Third-party code goes into the library and is hidden there, unless a distribution asks for its own.
ifeq ($(SYSTEM_LIBS),1)
THIRD_PARTY := -lsqlite3 -lzstd -lxxhash -lmd
else
THIRD_PARTY := -l:libsqlite3.a -l:libzstd.a -l:libxxhash.a -l:libmd.a
endif
JANSSON := $(if $(SYSTEM_LIBS),-ljansson,-l:libjansson.a)

# ---------------------------------------------------------------------------------------------------------------
# Sources
# ---------------------------------------------------------------------------------------------------------------
objects_of = $(patsubst %.c,$(BUILD)/obj/%.o,$(1))

GEN_SOURCES := $(filter-out gen/embed.c,$(wildcard gen/*.c))
GEN_OBJECTS := $(call objects_of,$(GEN_SOURCES)) $(BUILD)/obj/gen/templates_embedded.o
CACHE_OBJECTS := $(call objects_of,$(wildcard cache/*.c))
RUNTIME_OBJECTS := $(call objects_of,$(wildcard runtime/*.c))
LIBRARY_OBJECTS := $(RUNTIME_OBJECTS) $(CACHE_OBJECTS) $(GEN_OBJECTS)
TOOLS_OBJECTS := $(call objects_of,$(filter-out tools/main.c,$(wildcard tools/*.c)))
TEMPLATES := $(sort $(wildcard templates/*.cuh templates/*.h templates/*/*.cuh templates/*/*/*.cuh))
TABLES := $(sort $(wildcard gen/*.def))

LIBRARY_ARCHIVES := $(BUILD)/libruntime.a $(BUILD)/libcache.a $(BUILD)/libgen.a
STATIC_LIBRARY := $(BUILD)/libgdpajit.a
SHARED_LIBRARY := $(BUILD)/libgdpajit.so.$(VERSION)
PROGRAM := $(BUILD)/gdpa-jit

TEST_FAKES := $(patsubst tests/support/%.c,$(BUILD)/tests/lib%.so,$(wildcard tests/support/fake_*.c))
SUPPORT_OBJECTS := $(call objects_of,$(filter-out tests/support/fake_%.c,$(wildcard tests/support/*.c)))
test_programs = $(patsubst tests/%.c,$(BUILD)/tests/%,$(wildcard $(addsuffix /test_*.c,$(addprefix tests/,$(1)))))
# tests/emu/emu.mk may append programs that follow the same protocol (cmocka).
TEST_PROGRAMS := $(call test_programs,gen cache runtime tools templates support hardware)
# Without the compiling of all kernels: minutes in the compiler library, which is not built with sanitizers.
SANITIZED_TEST_PROGRAMS := $(filter-out %/templates/test_compile,$(TEST_PROGRAMS))
THREAD_TEST_PROGRAMS := $(call test_programs,cache runtime)
GPU_TEST_PROGRAMS := $(call test_programs,gpu)
GPU_SHELL_TESTS := $(wildcard tests/gpu/test_*.sh)
SHELL_TESTS := $(filter-out $(GPU_SHELL_TESTS),$(wildcard tests/*/test_*.sh))
GOLDEN_PROGRAMS := $(call test_programs,gen) $(BUILD)/tests/templates/test_sass
GOLDEN_SHELL_TESTS := $(filter tests/cli/%,$(SHELL_TESTS))
SANITIZED_SHELL_TESTS := $(filter-out tests/pkg/%,$(SHELL_TESTS))

# NVRTC from the private folder of set-up is linked to where the library looks first beside itself, so that programs in
# $(BUILD) find it without a variable.
PRIVATE_NVRTC := $(if $(wildcard .deps/nvidia-cuda-nvrtc),$(BUILD)/nvidia/cu13/lib)

.PHONY: all
all: $(STATIC_LIBRARY) $(SHARED_LIBRARY) $(PROGRAM) $(PRIVATE_NVRTC) ## build the libraries and the program (default)

.DELETE_ON_ERROR:
.SECONDARY:
.SUFFIXES:

# ---------------------------------------------------------------------------------------------------------------
# Compile and link
# ---------------------------------------------------------------------------------------------------------------
# The flags of the last build: objects are made again when they differ.
FLAGS_USED := $(CC) $(ALL_CPPFLAGS) $(ALL_CFLAGS) $(ALL_LDFLAGS) $(THIRD_PARTY)
$(BUILD)/flags: FORCE
	@mkdir -p $(@D) && printf '%s\n' '$(FLAGS_USED)' | cmp -s - $@ || printf '%s\n' '$(FLAGS_USED)' > $@
.PHONY: FORCE
FORCE:

$(BUILD)/obj/%.o: %.c $(BUILD)/flags
	@mkdir -p $(@D)
	$(call quiet,CC,$@) $(CC) $(ALL_CPPFLAGS) $(EXTRA_CPPFLAGS) $(ALL_CFLAGS) $(WERROR) -MMD -MP -c -o $@ $<

$(BUILD)/obj/tests/%.o: EXTRA_CPPFLAGS = -DTEST_BUILD_DIR='"$(abspath $(BUILD))"' -DTEST_SOURCE_DIR='"$(CURDIR)"'

# The templates become part of the library as bytes; embed checks them first.
EMBED := $(BUILD)/embed
$(EMBED): $(call objects_of,$(addprefix gen/,$(addsuffix .c,embed hash sbuf suggest template)))
	$(call quiet,LD,$@) $(CC) $(ALL_LDFLAGS) -o $@ $^ $(THIRD_PARTY) $(SYSTEM_LDLIBS)

# The sources and tables of the generator count for its version.
$(BUILD)/gen/templates_embedded.c: $(EMBED) $(TEMPLATES) $(TABLES) $(sort $(wildcard gen/*.c gen/*.h))
	@mkdir -p $(@D)
	$(call quiet,EMBED,$@) $(EMBED) $@ $(filter-out $(EMBED),$^)

$(BUILD)/obj/gen/templates_embedded.o: $(BUILD)/gen/templates_embedded.c $(BUILD)/flags
	@mkdir -p $(@D)
	$(call quiet,CC,$@) $(CC) $(ALL_CPPFLAGS) $(ALL_CFLAGS) $(WERROR) -MMD -MP -c -o $@ $<

# An archive is made anew each time, so that no object of a removed source stays in it.
archive = $(call quiet,AR,$@) rm -f $@ && $(AR) rcs $@ $(filter %.o,$^)
$(BUILD)/libgen.a: $(GEN_OBJECTS)
	$(archive)
$(BUILD)/libcache.a: $(CACHE_OBJECTS)
	$(archive)
$(BUILD)/libruntime.a: $(RUNTIME_OBJECTS)
	$(archive)
$(BUILD)/libtools.a: $(TOOLS_OBJECTS)
	$(archive)
$(BUILD)/tests/libsupport.a: $(SUPPORT_OBJECTS)
	@mkdir -p $(@D)
	$(archive)

# One object with everything in it, in which only gdpa_ symbols stay global.
$(STATIC_LIBRARY): $(LIBRARY_OBJECTS)
	$(call quiet,LD -r,$@) $(CC) -r -nostdlib -o $(BUILD)/gdpajit.o $^ $(if $(SYSTEM_LIBS),,$(THIRD_PARTY))
	@$(OBJCOPY) --wildcard --keep-global-symbol='gdpa_*' $(BUILD)/gdpajit.o
	@rm -f $@ && $(AR) rcs $@ $(BUILD)/gdpajit.o

$(SHARED_LIBRARY): $(LIBRARY_OBJECTS) pkg/libgdpajit.map
	$(call quiet,LD,$@) $(CC) -shared $(ALL_LDFLAGS) -Wl,-soname,$(SONAME) -Wl,--version-script=pkg/libgdpajit.map \
	    -Wl,--exclude-libs,ALL -Wl,--gc-sections -Wl,-z,text $(if $(SAN),,-Wl,-z,defs) -Wl,-z,relro -Wl,-z,now \
	    -Wl,-z,nodelete -o $@ $(LIBRARY_OBJECTS) $(THIRD_PARTY) $(SYSTEM_LDLIBS)
	@ln -sf $(@F) $(BUILD)/$(SONAME) && ln -sf $(SONAME) $(BUILD)/libgdpajit.so

# The program sees what every user sees: the public symbols of the static library. `verify` compares with the reference
# that the tests use.
$(PROGRAM): $(BUILD)/obj/tools/main.o $(BUILD)/libtools.a $(BUILD)/tests/libsupport.a $(STATIC_LIBRARY)
	$(call quiet,LD,$@) $(CC) $(ALL_LDFLAGS) -o $@ $^ $(if $(SYSTEM_LIBS),$(THIRD_PARTY)) $(JANSSON) $(SYSTEM_LDLIBS)

$(BUILD)/nvidia/cu13/lib:
	@mkdir -p $(@D) && ln -sfn '$(CURDIR)/.deps/nvidia-cuda-nvrtc' $@

# Tests.
$(BUILD)/tests/lib%.so: tests/support/%.c $(BUILD)/flags
	@mkdir -p $(@D)
	$(call quiet,LD,$@) $(CC) $(ALL_CPPFLAGS) $(filter-out -fvisibility=hidden,$(ALL_CFLAGS)) $(WERROR) -MMD -MP \
	    -shared $(ALL_LDFLAGS) -o $@ $< $(SYSTEM_LDLIBS)

$(BUILD)/tests/gen/%: TEST_ARCHIVES = $(BUILD)/libgen.a
$(BUILD)/tests/cache/%: TEST_ARCHIVES = $(BUILD)/libcache.a
TEST_ARCHIVES = $(BUILD)/libtools.a $(LIBRARY_ARCHIVES)
link_test = $(call quiet,LD,$@) $(CC) $(ALL_LDFLAGS) $(TEST_LDFLAGS) -o $@ $< -Wl,--start-group \
            $(BUILD)/tests/libsupport.a $(TEST_ARCHIVES) -Wl,--end-group $(THIRD_PARTY) $(JANSSON) -lcmocka \
            $(SYSTEM_LDLIBS)

$(BUILD)/tests/gen/test_%: $(BUILD)/obj/tests/gen/test_%.o $(BUILD)/tests/libsupport.a $(BUILD)/libgen.a
	@mkdir -p $(@D)
	$(link_test)
$(BUILD)/tests/cache/test_%: $(BUILD)/obj/tests/cache/test_%.o $(BUILD)/tests/libsupport.a $(BUILD)/libcache.a
	@mkdir -p $(@D)
	$(link_test)
define test_rule
$$(BUILD)/tests/$(1)/test_%: $$(BUILD)/obj/tests/$(1)/test_%.o $$(BUILD)/tests/libsupport.a $$(BUILD)/libtools.a \
                             $$(LIBRARY_ARCHIVES) $$(TEST_FAKES)
	@mkdir -p $$(@D)
	$$(link_test)
endef
$(foreach folder,runtime tools templates hardware gpu,$(eval $(call test_rule,$(folder))))

# Fuzzers: tests/fuzz/fuzz_*.c. With libFuzzer where clang has it, else with the driver of that folder.
FUZZERS := $(patsubst tests/fuzz/%.c,$(BUILD)/tests/fuzz/%,$(wildcard tests/fuzz/fuzz_*.c))
FUZZ_DRIVER = $(if $(findstring fuzzer,$(SAN)),-fsanitize=fuzzer,$(BUILD)/obj/tests/fuzz/standalone.o)
$(BUILD)/tests/fuzz/fuzz_%: $(BUILD)/obj/tests/fuzz/fuzz_%.o $(BUILD)/obj/tests/fuzz/standalone.o \
                            $(BUILD)/tests/libsupport.a $(LIBRARY_ARCHIVES)
	@mkdir -p $(@D)
	$(call quiet,LD,$@) $(CC) $(ALL_LDFLAGS) -o $@ $< $(FUZZ_DRIVER) -Wl,--start-group $(BUILD)/tests/libsupport.a \
	    $(LIBRARY_ARCHIVES) -Wl,--end-group $(THIRD_PARTY) -lcmocka $(SYSTEM_LDLIBS)

-include tests/emu/emu.mk

# What the library costs the host.
$(BUILD)/bench/host: $(BUILD)/obj/bench/host.o $(STATIC_LIBRARY) $(TEST_FAKES)
	@mkdir -p $(@D)
	$(call quiet,LD,$@) $(CC) $(ALL_LDFLAGS) -o $@ $< $(STATIC_LIBRARY) $(if $(SYSTEM_LIBS),$(THIRD_PARTY)) $(SYSTEM_LDLIBS)

.PHONY: bench-host
bench-host: $(BUILD)/bench/host ## time look-ups, launches, cache hits and compiles here (JSON=1: as records)
	@GDPAJIT_NVRTC='$(NVRTC)' $< $(BUILD)/tests $(if $(JSON),--json)

# What the driver of a GPU does where its manual is silent. One file to copy to the machine with the GPU.
DRIVER_PROBE := $(BUILD)/bench/driver-probe
$(DRIVER_PROBE): $(call objects_of,$(wildcard bench/driver_probe*.c)) $(STATIC_LIBRARY)
	@mkdir -p $(@D)
	$(call quiet,LD,$@) $(CC) $(ALL_LDFLAGS) -o $@ $^ $(if $(SYSTEM_LIBS),$(THIRD_PARTY)) $(SYSTEM_LDLIBS)

.PHONY: driver-probe
driver-probe: $(DRIVER_PROBE) ## build the program that asks a GPU's driver what we rely on; run it on the GPU
	@echo 'run: $(DRIVER_PROBE) [--nvrtc FILE]'

# How evenly schedules load a GPU. One file to copy, too.
SCHEDULE_PROBE := $(BUILD)/bench/schedule-probe
$(SCHEDULE_PROBE): $(BUILD)/obj/bench/schedule_probe.o $(BUILD)/libtools.a $(BUILD)/tests/libsupport.a $(LIBRARY_ARCHIVES)
	@mkdir -p $(@D)
	$(call quiet,LD,$@) $(CC) $(ALL_LDFLAGS) -o $@ $< -Wl,--start-group $(filter %.a,$^) -Wl,--end-group $(THIRD_PARTY) \
	    $(JANSSON) $(SYSTEM_LDLIBS)

.PHONY: schedule-probe
schedule-probe: $(SCHEDULE_PROBE) ## build the program that shows how schedules load a GPU; run it on the GPU
	@echo 'run: $(SCHEDULE_PROBE) [SECONDS]'

.PHONY: tests
tests: $(TEST_PROGRAMS) $(GPU_TEST_PROGRAMS) $(TEST_FAKES) ## build the test programs without running them

-include $(shell find $(BUILD) -name '*.d' 2>/dev/null)

# ---------------------------------------------------------------------------------------------------------------
# Run
# ---------------------------------------------------------------------------------------------------------------
# Set-up changes what is there, so whatever needs it runs in a make of its own.
JOBS ?= $(shell nproc)
TEST_TIMEOUT ?= 1800
SUBMAKE = +@$(MAKE) --no-print-directory $(if $(findstring jobserver,$(MAKEFLAGS)),,-j$(JOBS)) DEVELOPER=$(DEVELOPER)
NVRTC = $(shell scripts/find-nvrtc.sh)
HAVE_GPU = $(shell scripts/has-gpu.sh && echo yes)
RUN_TESTS = GDPAJIT_NVRTC='$(NVRTC)' EMU_JOBS='$(JOBS)' BUILD='$(abspath $(BUILD))' CC='$(CC)' CXX='$(CXX)' SAN='$(SAN)' \
            SYSTEM_LIBS='$(SYSTEM_LIBS)' scripts/run-tests.sh -j $(JOBS) -t $(TEST_TIMEOUT) -o $(BUILD)/tests/log

.PHONY: demo test run-tests test-gpu run-tests-gpu sanitize sanitize-gpu golden-update
demo: ## set up, build, compile the default kernels, show one; on a GPU also run and verify
	@scripts/setup.sh
	$(SUBMAKE) all
	@GDPAJIT_NVRTC="$$(scripts/find-nvrtc.sh)" scripts/demo.sh $(BUILD)

test: ## set up, build and run every test; with a GPU also those of test-gpu
	@scripts/setup.sh --tests
	$(SUBMAKE) run-tests

GPU_NEEDS = $(GPU_TEST_PROGRAMS) $(BUILD)/conformance
run-tests: all $(TEST_PROGRAMS) $(TEST_FAKES) $(if $(HAVE_GPU),$(GPU_NEEDS))
	@$(RUN_TESTS) $(TEST_PROGRAMS) $(SHELL_TESTS) $(if $(HAVE_GPU),$(GPU_TEST_PROGRAMS) $(GPU_SHELL_TESTS))

test-gpu: ## set up, build and run the tests that need a GPU
	@scripts/setup.sh --tests
	$(SUBMAKE) run-tests-gpu

run-tests-gpu: all $(GPU_NEEDS)
	@$(RUN_TESTS) $(GPU_TEST_PROGRAMS) $(GPU_SHELL_TESTS)

# Sanitizers stop at the first fault. What the compiler library and the driver do inside is not ours.
sanitize: ## all tests with address and undefined-behaviour sanitizer, then the threaded ones with thread sanitizer
	@scripts/setup.sh --tests
	$(SUBMAKE) BUILD=$(BUILD)/address SAN=address,undefined run-tests-address
	$(SUBMAKE) BUILD=$(BUILD)/thread SAN=thread run-tests-thread

.PHONY: run-tests-address run-tests-thread
SUPPRESSIONS = $(CURDIR)/tests/support/suppressions
run-tests-address: all $(SANITIZED_TEST_PROGRAMS) $(TEST_FAKES)
	@ASAN_OPTIONS=detect_stack_use_after_return=1 LSAN_OPTIONS=suppressions=$(SUPPRESSIONS)/leak.txt:print_suppressions=0 \
	    UBSAN_OPTIONS=print_stacktrace=1 $(RUN_TESTS) $(SANITIZED_TEST_PROGRAMS) $(SANITIZED_SHELL_TESTS)
run-tests-thread: $(THREAD_TEST_PROGRAMS) $(TEST_FAKES)
	@TSAN_OPTIONS=suppressions=$(SUPPRESSIONS)/thread.txt:ignore_noninstrumented_modules=1 $(RUN_TESTS) $(THREAD_TEST_PROGRAMS)

# FUZZ_SECONDS for each, as many at a time as there are processors; what they find stays in $(BUILD)/fuzz/found. Many
# hours: FUZZ_SECONDS=36000. Without the runtime of clang's fuzzers (libclang-rt-dev) inputs are changed at random only.
FUZZ_SECONDS ?= 60
LIBFUZZER = $(shell echo 'int LLVMFuzzerTestOneInput(void); int LLVMFuzzerTestOneInput(void) { return 0; }' | \
                clang -fsanitize=fuzzer,address -x c -o /dev/null - 2>/dev/null && echo yes)
.PHONY: fuzz run-fuzz
fuzz: ## run every fuzzer of tests/fuzz for FUZZ_SECONDS (60) with sanitizers
	@scripts/setup.sh --tests
	@$(if $(LIBFUZZER),:,echo 'fuzz: clang or libclang-rt-dev is missing (scripts/setup.sh --lint installs both): without libFuzzer, at random')
	$(SUBMAKE) BUILD=$(BUILD)/fuzz $(if $(LIBFUZZER),CC=clang SAN=fuzzer-no-link$(comma)address$(comma)undefined,SAN=address$(comma)undefined) run-fuzz
run-fuzz: $(FUZZERS)
	@$(CURDIR)/scripts/run-fuzz.sh '$(FUZZ_SECONDS)' $(BUILD)/found $(FUZZERS)

hardware-check: ## every kernel of today has a passing record of a GPU (tests/hardware), or a reason why not
	@scripts/setup.sh --tests
	$(SUBMAKE) run-hardware-check

.PHONY: hardware-check run-hardware-check
run-hardware-check: $(BUILD)/tests/hardware/test_record
	@$<

sanitize-gpu: ## compute-sanitizer (memcheck, racecheck, synccheck, initcheck) over the small matrix
	@scripts/setup.sh
	$(SUBMAKE) all
	@GDPAJIT_NVRTC="$$(scripts/find-nvrtc.sh)" scripts/sanitize-gpu.sh $(PROGRAM)

golden-update: ## write the expected outputs of golden and command-line tests anew; look at the diff afterwards
	@scripts/setup.sh --tests
	$(SUBMAKE) run-golden-update

.PHONY: run-golden-update
run-golden-update: all $(GOLDEN_PROGRAMS) $(TEST_FAKES)
	@GDPA_GOLDEN_UPDATE=1 $(RUN_TESTS) $(GOLDEN_PROGRAMS) $(GOLDEN_SHELL_TESTS)

# ---------------------------------------------------------------------------------------------------------------
# Checks
# ---------------------------------------------------------------------------------------------------------------
.PHONY: format format-check lint check-size check-direction docs-check
# Not the templates: their layout is part of the generated sources, and a record of a GPU is of one source to the letter.
FORMATTED = $(shell find include gen cache runtime tools tests examples \
                '(' -name '*.[ch]' -o -name '*.cuh' -o -name '*.def' -o -name '*.cpp' -o -name '*.hpp' ')' \
                -not -path 'tests/golden/*')
format: ## lay all sources out by .clang-format
	$(CLANG_FORMAT) -i $(FORMATTED)
format-check: ## fail when a source is not laid out by .clang-format
	@if command -v $(CLANG_FORMAT) >/dev/null; then \
	    $(CLANG_FORMAT) --dry-run -Werror $(FORMATTED) && echo 'format-check: clean'; \
	else echo 'format-check: skipped, clang-format is not installed'; fi
lint: ## static checks: clang-tidy, cppcheck, shellcheck, codespell, dependency direction, sizes
	@BUILD='$(BUILD)' JOBS=$(JOBS) scripts/lint.sh
check-direction: ## fail when a folder includes what it must not know
	@scripts/check-direction.sh
check-size: ## fail on functions and files that are too long
	@scripts/check-size.sh
docs-check: ## links, targets, code and variables named in the documents exist
	@CC='$(CC)' CXX='$(CXX)' scripts/docs-check.py

# ---------------------------------------------------------------------------------------------------------------
# Install
# ---------------------------------------------------------------------------------------------------------------
.PHONY: install install-lib install-headers install-program install-docs uninstall
CMAKE_FOLDER := $(libdir)/cmake/gdpajit
MAN_SOURCES := $(wildcard docs/man/*.scd)
MAN_PAGES := $(patsubst docs/man/%.scd,$(BUILD)/man/%,$(MAN_SOURCES))
man_folder = $(mandir)/man$(patsubst .%,%,$(suffix $(1)))

fill_in = sed -e 's|@PREFIX@|$(PREFIX)|' -e 's|@libdir@|$(libdir)|' -e 's|@includedir@|$(includedir)|' \
              -e 's|@VERSION@|$(VERSION)|' -e 's|@VERSION_MAJOR@|$(VERSION_MAJOR)|' \
              -e 's|@VERSION_MINOR@|$(VERSION_MINOR)|' -e 's|@SONAME@|$(SONAME)|' \
              -e 's|@REQUIRES_PRIVATE@|$(if $(filter 1,$(SYSTEM_LIBS)),sqlite3 libzstd libxxhash libmd)|' \
              -e 's|@STATIC_LIBS@|$(if $(filter 1,$(SYSTEM_LIBS)),sqlite3;zstd;xxhash;md;)|' \
              -e "s|@INCLUDEDIR_FROM_CMAKE@|$$(realpath -m --relative-to='$(CMAKE_FOLDER)' '$(includedir)')|"

install: install-lib install-headers install-program install-docs ## install everything (PREFIX, DESTDIR, libdir)

install-lib: $(STATIC_LIBRARY) $(SHARED_LIBRARY) ## install the libraries and their pkg-config and CMake files
	install -d '$(DESTDIR)$(libdir)/pkgconfig' '$(DESTDIR)$(CMAKE_FOLDER)'
	install -m 644 $(STATIC_LIBRARY) '$(DESTDIR)$(libdir)'
	install -m 755 $(SHARED_LIBRARY) '$(DESTDIR)$(libdir)'
	ln -sf $(notdir $(SHARED_LIBRARY)) '$(DESTDIR)$(libdir)/$(SONAME)'
	ln -sf $(SONAME) '$(DESTDIR)$(libdir)/libgdpajit.so'
	$(fill_in) pkg/gdpajit.pc.in > '$(DESTDIR)$(libdir)/pkgconfig/gdpajit.pc'
	$(fill_in) pkg/gdpajit-config.cmake.in > '$(DESTDIR)$(CMAKE_FOLDER)/gdpajit-config.cmake'
	$(fill_in) pkg/gdpajit-config-version.cmake.in > '$(DESTDIR)$(CMAKE_FOLDER)/gdpajit-config-version.cmake'

install-headers: ## install the header
	install -d '$(DESTDIR)$(includedir)'
	install -m 644 include/gdpajit.h '$(DESTDIR)$(includedir)'

install-program: $(PROGRAM) ## install gdpa-jit
	install -d '$(DESTDIR)$(bindir)'
	install -m 755 $(PROGRAM) '$(DESTDIR)$(bindir)'

$(BUILD)/man/%: docs/man/%.scd
	@mkdir -p $(@D)
	$(call quiet,SCDOC,$@) scdoc < $< > $@

# What README and docs/ have links to.
LINKED_DOCS := $(wildcard examples/*.c examples/*.cpp) bench/README.md templates/README.md tests/hardware/README.md

install-docs: $(MAN_PAGES) ## install man pages, README, CHANGELOG, LICENSE and docs/
	install -d '$(DESTDIR)$(docdir)/docs/decisions' $(foreach part,$(LINKED_DOCS),'$(DESTDIR)$(docdir)/$(dir $(part))') \
	    $(foreach page,$(notdir $(MAN_PAGES)),'$(DESTDIR)$(call man_folder,$(page))')
	$(foreach page,$(MAN_PAGES),install -m 644 $(page) '$(DESTDIR)$(call man_folder,$(page))' &&) true
	install -m 644 README.md CHANGELOG.md CONTRIBUTING.md LICENSE '$(DESTDIR)$(docdir)'
	install -m 644 docs/*.md '$(DESTDIR)$(docdir)/docs'
	install -m 644 docs/decisions/*.md '$(DESTDIR)$(docdir)/docs/decisions'
	$(foreach part,$(LINKED_DOCS),install -m 644 $(part) '$(DESTDIR)$(docdir)/$(dir $(part))' &&) true

uninstall: ## remove what install put there (same PREFIX, DESTDIR, libdir)
	rm -f '$(DESTDIR)$(libdir)/libgdpajit.a' '$(DESTDIR)$(libdir)/libgdpajit.so' '$(DESTDIR)$(libdir)/$(SONAME)' \
	    '$(DESTDIR)$(libdir)/$(notdir $(SHARED_LIBRARY))' '$(DESTDIR)$(libdir)/pkgconfig/gdpajit.pc' \
	    '$(DESTDIR)$(includedir)/gdpajit.h' '$(DESTDIR)$(bindir)/gdpa-jit' \
	    $(foreach page,$(notdir $(MAN_PAGES)),'$(DESTDIR)$(call man_folder,$(page))/$(page)')
	rm -rf '$(DESTDIR)$(CMAKE_FOLDER)' '$(DESTDIR)$(docdir)'

# ---------------------------------------------------------------------------------------------------------------
# Helpers
# ---------------------------------------------------------------------------------------------------------------
.PHONY: help clean
help: ## show this list
	@awk 'BEGIN {FS = ":.*## "} /^[a-z][a-z-]*:.*## / {printf "  %-16s %s\n", $$1, $$2}' Makefile $(wildcard tests/emu/emu.mk)
	@printf '%s\n' '' \
	    'variables (make NAME=VALUE):' \
	    '  BUILD=FOLDER     where objects and programs go (build)' \
	    '  PREFIX= DESTDIR= libdir=   where install puts things (/usr/local)' \
	    '  CC= CXX= CFLAGS= CPPFLAGS= LDFLAGS= OPTIMISE=' \
	    '  JOBS=N           compilers and tests at a time (as many as there are processors)' \
	    '  V=1              show whole commands' \
	    '  DEVELOPER=1      warnings are errors (always so in tests and CI)' \
	    '  SAN=LIST         build with sanitizers: address,undefined or thread' \
	    '  SYSTEM_LIBS=1    link sqlite3, zstd, xxhash and libmd dynamically'

clean: ## remove what was built
	rm -rf $(BUILD)
