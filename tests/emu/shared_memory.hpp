/*
 * Shared memory of one block with its shadow: for every byte who wrote it last, how, and who has read it since.
 *
 * Addresses are 32-bit numbers of the .shared window, from kBase on. The shadow is kept in units of 16 bytes, which are split into
 * bytes where their history differs. Faults are reported by a callback, so that this file knows no threads.
 */
#ifndef GDPA_EMU_SHARED_MEMORY_HPP
#define GDPA_EMU_SHARED_MEMORY_HPP

#include "clocks.hpp"

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace emu
{

constexpr uint32_t kUnitBytes = 16;
constexpr uint16_t kNobody = 0xffff;

/* Who accesses, with which knowledge. `clock` is what the accessing thread has seen. */
struct Access {
    uint16_t actor;     // whose access it becomes
    uint32_t time;      // its clock
    const Clock *clock; // NULL: nothing is checked against the past
    const char *wrapper;
    bool async_proxy = false; // by the bulk copy engine or wgmma: earlier generic writes need a fence.proxy.async
};

/* How a byte got its value. */
enum class Origin : uint8_t {
    Never,   // since the block began
    Generic, // st, stmatrix, or an arrived cp.async
    Async,   // an arrived bulk copy
    Pending, // a copy is under way
    Barrier  // part of an mbarrier object
};

class SharedMemory
{
  public:
    /* reports: "what happened", to be completed with who and where; does not return. */
    using Report = std::function<void(const std::string &)>;
    using NameActor = std::function<std::string(uint16_t)>;
    using NameOperation =
        std::function<std::string(uint32_t, bool place)>; // its name; or the lines where it was started

    static constexpr uint32_t kBase = 0x400; // never 0, so that address 0 is a fault

    SharedMemory(uint32_t bytes, size_t reader_slots, Report report, NameActor actor, NameOperation operation);

    /* As a new block finds it: every byte 0xff (NaN in every format) and never written. */
    void reset();
    uint32_t bytes() const
    {
        return static_cast<uint32_t>(data_.size());
    }
    /* Bytes [address, address + count), which must be inside and aligned to `alignment`. */
    unsigned char *at(uint32_t address, uint32_t count, uint32_t alignment, const char *wrapper);

    /* Synchronous accesses: check, then note. reader_slot: under which number the latest read is remembered. */
    void read(uint32_t address, uint32_t count, const Access &access, size_t reader_slot);
    void write(uint32_t address, uint32_t count, const Access &access);

    /* Asynchronous ones. Between begin and end nobody may read (write) the bytes. Each is known by an operation number. */
    void begin_async_write(uint32_t address, uint32_t count, const Access &access, uint32_t operation);
    void end_async_write(uint32_t address, uint32_t count, uint16_t actor, uint32_t time, bool async_proxy,
                         const char *wrapper, uint32_t operation);
    void begin_async_read(uint32_t address, uint32_t count, const Access &access, uint32_t operation);
    void end_async_read(uint32_t address, uint32_t count, uint16_t actor, uint32_t time, const char *wrapper,
                        size_t reader_slot);

    /* mbarrier objects are opaque: 8 bytes that only mbarrier instructions touch. */
    void make_barrier(uint32_t address, const Access &access);
    void remove_barrier(uint32_t address);

  private:
    struct Cell {
        uint32_t time = 0;
        uint32_t operation = 0;
        uint16_t actor = kNobody;
        Origin origin = Origin::Never;
        uint8_t wrapper = 0;
    };
    struct Reader {
        uint32_t time = 0;
        uint16_t actor = kNobody;
        uint16_t mask = 0;
        uint8_t wrapper = 0;
    };
    struct Unit {
        uint32_t generation = 0;
        uint32_t split = 0;             // 0: one history for all bytes; else 1 + index into splits_
        uint32_t pending_operation = 0; // latest asynchronous reader
        uint16_t pending_readers = 0;
        bool was_read = false;
        Cell cell;
    };
    using Cells = std::array<Cell, kUnitBytes>;

    Unit &unit_of(size_t index);
    Cells &split(Unit &unit);
    void set(Unit &unit, uint32_t mask, const Cell &cell);
    void check_cell(const Cell &cell, uint32_t address, const Access &access, bool write);
    void check_readers(size_t index, Unit &unit, uint32_t mask, const Access &access);
    void check_before_write(size_t index, uint32_t mask, const Access &access);
    void note_read(size_t index, Unit &unit, uint32_t mask, const Access &access, size_t reader_slot);
    template <typename Visit> void for_units(uint32_t address, uint32_t count, Visit visit);
    uint8_t wrapper_number(const char *wrapper);
    std::string origin_text(const Cell &cell) const;

    std::vector<unsigned char> data_;
    std::vector<Unit> units_;
    std::vector<Reader> readers_; // reader_slots_ for each unit
    std::vector<Cells> splits_;
    std::vector<const char *> wrappers_{"?"};
    size_t reader_slots_;
    uint32_t generation_ = 1;
    Report report_;
    NameActor actor_;
    NameOperation operation_;
};

} // namespace emu

#endif
