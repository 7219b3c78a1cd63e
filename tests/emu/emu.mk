# The emulator: every generated kernel runs on the CPU. See docs/emulator.md. Included by the Makefile.

EMU_CXXFLAGS = -std=c++17 $(OPTIMISE) -pthread -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wformat=2 -Wundef \
               $(SANITIZE) $(CXXFLAGS)
EMU_CPPFLAGS = $(ALL_CPPFLAGS) -DEMU_ROOT='"$(CURDIR)"' -DEMU_CXX='"$(CXX)"' \
               -DEMU_KERNELS='"$(abspath $(BUILD))/emu/kernels"'
EMU_PROGRAM_SOURCES := $(wildcard tests/emu/emu_*.cpp tests/emu/test_*.cpp)
EMU_OBJECTS := $(patsubst %.cpp,$(BUILD)/obj/%.o,$(filter-out $(EMU_PROGRAM_SOURCES),$(wildcard tests/emu/*.cpp)))
EMU_TEST_PROGRAMS := $(patsubst tests/%.cpp,$(BUILD)/tests/%,$(wildcard tests/emu/test_*.cpp))
EMU_RUN := $(BUILD)/emu_run

TEST_PROGRAMS += $(EMU_TEST_PROGRAMS)

$(BUILD)/obj/tests/emu/%.o: tests/emu/%.cpp $(BUILD)/flags tests/emu/emu.mk
	@mkdir -p $(@D)
	$(call quiet,CXX,$@) $(CXX) $(EMU_CPPFLAGS) $(EMU_CXXFLAGS) $(WERROR) -MMD -MP -c -o $@ $<

# Kernels are loaded at run time and call the engine in the program.
EMU_LINK = $(call quiet,LD,$@) $(CXX) -rdynamic $(ALL_LDFLAGS) -o $@ $(filter %.o,$^) -Wl,--start-group \
           $(BUILD)/tests/libsupport.a $(BUILD)/libtools.a $(LIBRARY_ARCHIVES) -Wl,--end-group $(THIRD_PARTY) \
           $(JANSSON) -lcmocka $(SYSTEM_LDLIBS)
EMU_NEEDS = $(EMU_OBJECTS) $(BUILD)/tests/libsupport.a $(BUILD)/libtools.a $(LIBRARY_ARCHIVES)

$(EMU_RUN): $(BUILD)/obj/tests/emu/emu_run.o $(EMU_NEEDS)
	$(EMU_LINK)
$(BUILD)/conformance: $(BUILD)/obj/tests/emu/emu_conformance.o $(EMU_NEEDS)
	$(EMU_LINK)
$(BUILD)/tests/emu/test_%: $(BUILD)/obj/tests/emu/test_%.o $(EMU_NEEDS)
	@mkdir -p $(@D)
	$(EMU_LINK)

.PHONY: emu
KERNEL ?= fwd head_dim=64 activation=relu causal arch=sm_80
SHAPE ?= heads=4/2 q=0,65,130 k=17,64,1
emu: $(EMU_RUN) ## run KERNEL="spec" on SHAPE="words" in the emulator; DEBUG=1 does it under gdb
	$(if $(DEBUG),EMU_DEBUG=1 gdb --args) $(EMU_RUN) --spec '$(KERNEL)' --shape '$(SHAPE)'

.PHONY: conformance
conformance: $(BUILD)/conformance ## run every wrapper in the emulator and, where there is one, on the GPU
	GDPAJIT_NVRTC='$(NVRTC)' $< $(if $(HAVE_GPU),--gpu) $(if $(RECORD),--record '$(RECORD)')
