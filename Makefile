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

# ---------------------------------------------------------------------------------------------------------------
# Flags
# ---------------------------------------------------------------------------------------------------------------
version_part = $(shell sed -n 's/^\#define GDPA_VERSION_$(1) \([0-9]*\)$$/\1/p' include/gdpajit.h)
VERSION_MAJOR := $(call version_part,MAJOR)
VERSION := $(VERSION_MAJOR).$(call version_part,MINOR).$(call version_part,PATCH)
SONAME := libgdpajit.so.$(VERSION_MAJOR)

WARNINGS := -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wformat=2 -Wvla -Wwrite-strings -Wpointer-arith \
            -Wmissing-prototypes -Wstrict-prototypes -Wundef
WERROR := $(if $(filter 1,$(DEVELOPER)),-Werror)
SANITIZE := $(if $(SAN),-fsanitize=$(SAN) -fno-omit-frame-pointer -fno-sanitize-recover=all)
ALL_CPPFLAGS := -D_POSIX_C_SOURCE=200809L -I. -Iinclude $(CPPFLAGS)
ALL_CFLAGS := -std=c11 $(OPTIMISE) -fPIC -fvisibility=hidden -ffunction-sections -fdata-sections -pthread \
              $(WARNINGS) $(SANITIZE) $(CFLAGS)
ALL_LDFLAGS := -pthread $(SANITIZE) $(LDFLAGS)
SYSTEM_LDLIBS := -lm -ldl

# Third-party code goes into the library and is hidden there, unless a distribution asks for its own.
ifeq ($(SYSTEM_LIBS),1)
THIRD_PARTY := -lsqlite3 -lzstd -lxxhash
else
THIRD_PARTY := -l:libsqlite3.a -l:libzstd.a -l:libxxhash.a
endif
JANSSON := -ljansson

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
TEMPLATES := $(sort $(wildcard templates/*.cuh templates/*.h templates/*/*.cuh))
TABLES := $(sort $(wildcard gen/*.def))

LIBRARY_ARCHIVES := $(BUILD)/libruntime.a $(BUILD)/libcache.a $(BUILD)/libgen.a
STATIC_LIBRARY := $(BUILD)/libgdpajit.a
SHARED_LIBRARY := $(BUILD)/libgdpajit.so.$(VERSION)
PROGRAM := $(BUILD)/gdpa-jit

TEST_FAKES := $(patsubst tests/support/%.c,$(BUILD)/tests/lib%.so,$(wildcard tests/support/fake_*.c))
SUPPORT_OBJECTS := $(call objects_of,$(filter-out tests/support/fake_%.c,$(wildcard tests/support/*.c)))
test_programs = $(patsubst tests/%.c,$(BUILD)/tests/%,$(wildcard $(addsuffix /test_*.c,$(addprefix tests/,$(1)))))
# tests/emu/emu.mk may append programs that follow the same protocol (cmocka).
TEST_PROGRAMS := $(call test_programs,gen cache runtime tools templates)
GPU_TEST_PROGRAMS := $(call test_programs,gpu)

.PHONY: all
all: $(STATIC_LIBRARY) $(SHARED_LIBRARY) $(PROGRAM) ## build the libraries and the program (default)

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
$(EMBED): $(BUILD)/obj/gen/embed.o
	$(call quiet,LD,$@) $(CC) $(ALL_LDFLAGS) -o $@ $< $(THIRD_PARTY) $(SYSTEM_LDLIBS)

$(BUILD)/gen/templates_embedded.c: $(EMBED) $(TEMPLATES) $(TABLES)
	@mkdir -p $(@D)
	$(call quiet,EMBED,$@) $(EMBED) $@ $(TEMPLATES)

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
	    -o $@ $(LIBRARY_OBJECTS) $(THIRD_PARTY) $(SYSTEM_LDLIBS)
	@ln -sf $(@F) $(BUILD)/$(SONAME) && ln -sf $(SONAME) $(BUILD)/libgdpajit.so

# The program sees what every user sees: the public symbols of the static library.
$(PROGRAM): $(BUILD)/obj/tools/main.o $(BUILD)/libtools.a $(STATIC_LIBRARY)
	$(call quiet,LD,$@) $(CC) $(ALL_LDFLAGS) -o $@ $^ $(if $(SYSTEM_LIBS),$(THIRD_PARTY)) $(JANSSON) $(SYSTEM_LDLIBS)

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
$(foreach folder,runtime tools templates gpu,$(eval $(call test_rule,$(folder))))

-include tests/emu/emu.mk

.PHONY: tests
tests: $(TEST_PROGRAMS) $(TEST_FAKES) ## build the test programs without running them

-include $(shell find $(BUILD) -name '*.d' 2>/dev/null)

# ---------------------------------------------------------------------------------------------------------------
# Helpers
# ---------------------------------------------------------------------------------------------------------------
.PHONY: help clean
help: ## show this list
	@awk 'BEGIN {FS = ":.*## "} /^[a-z][a-z-]*:.*## / {printf "  %-18s %s\n", $$1, $$2}' Makefile
	@printf '\nvariables: BUILD PREFIX DESTDIR libdir CC CFLAGS LDFLAGS\n%s\n%s\n%s\n%s\n' \
	    '  V=1             show whole commands' \
	    '  DEVELOPER=1     warnings are errors (always so in tests and CI)' \
	    '  SAN=LIST        build with sanitizers: address,undefined or thread' \
	    '  SYSTEM_LIBS=1   link sqlite3, zstd and xxhash dynamically'

clean: ## remove what was built
	rm -rf $(BUILD)
