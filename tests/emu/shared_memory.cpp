/*
 * Shared memory and its shadow; see shared_memory.hpp.
 */
#include "shared_memory.hpp"
#include "text.hpp"

#include <cstring>

namespace emu
{

static constexpr uint32_t kWholeUnit = 0xffff;

static uint32_t first_byte(uint32_t mask)
{
    return static_cast<uint32_t>(__builtin_ctz(mask));
}

SharedMemory::SharedMemory(uint32_t bytes, size_t reader_slots, Report report, NameActor actor, NameOperation operation)
    : data_(bytes), units_((bytes + kUnitBytes - 1) / kUnitBytes), readers_(units_.size() * reader_slots),
      reader_slots_(reader_slots), report_(std::move(report)), actor_(std::move(actor)),
      operation_(std::move(operation))
{
    reset();
}

void SharedMemory::reset()
{
    std::fill(data_.begin(), data_.end(), static_cast<unsigned char>(0xff));
    splits_.clear();
    ++generation_;
}

unsigned char *SharedMemory::at(uint32_t address, uint32_t count, uint32_t alignment, const char *wrapper)
{
    if (address % alignment != 0) {
        report_(text("%s: shared address 0x%x is not a multiple of %u", wrapper, address, alignment));
    }
    if (address < kBase || address - kBase > data_.size() || data_.size() - (address - kBase) < count) {
        report_(text("%s: shared bytes 0x%x to 0x%x are outside the %zu bytes of the block (0x%x to 0x%zx)", wrapper,
                     address, address + count - 1, data_.size(), kBase, kBase + data_.size() - 1));
    }
    return data_.data() + (address - kBase);
}

SharedMemory::Unit &SharedMemory::unit_of(size_t index)
{
    Unit &unit = units_[index];
    if (unit.generation != generation_) {
        unit = Unit();
        unit.generation = generation_;
    }
    return unit;
}

SharedMemory::Cells &SharedMemory::split(Unit &unit)
{
    if (unit.split == 0) {
        splits_.emplace_back();
        splits_.back().fill(unit.cell);
        unit.split = static_cast<uint32_t>(splits_.size());
    }
    return splits_[unit.split - 1];
}

void SharedMemory::set(Unit &unit, uint32_t mask, const Cell &cell)
{
    if (mask == kWholeUnit) {
        unit.cell = cell;
        unit.split = 0;
        return;
    }
    Cells &cells = split(unit);
    for (uint32_t i = 0; i < kUnitBytes; ++i) {
        if ((mask >> i & 1) != 0) {
            cells[i] = cell;
        }
    }
}

uint8_t SharedMemory::wrapper_number(const char *wrapper)
{
    for (size_t i = wrappers_.size(); i-- > 0;) {
        if (wrappers_[i] == wrapper) {
            return static_cast<uint8_t>(i);
        }
    }
    if (wrappers_.size() == 256) {
        return 0;
    }
    wrappers_.push_back(wrapper);
    return static_cast<uint8_t>(wrappers_.size() - 1);
}

std::string SharedMemory::origin_text(const Cell &cell) const
{
    return text("%s of %s", wrappers_[cell.wrapper], actor_(cell.actor).c_str());
}

/* One byte against what is to be done with it. */
void SharedMemory::check_cell(const Cell &cell, uint32_t address, const Access &access, bool write)
{
    const char *does = write ? "overwrites" : "reads";
    switch (cell.origin) {
    case Origin::Never:
        if (!write) {
            report_(
                text("%s: reads shared byte 0x%x, which nobody has written yet (missing bar.sync before the read, or "
                     "bytes that nothing fills)",
                     access.wrapper, address));
        }
        return;
    case Origin::Pending:
        report_(
            text("%s: %s shared byte 0x%x while %s is under way: the wait for that copy is missing, or it was started "
                 "too early%s",
                 access.wrapper, does, address, operation_(cell.operation, false).c_str(),
                 operation_(cell.operation, true).c_str()));
        return;
    case Origin::Barrier:
        report_(text("%s: %s shared byte 0x%x, which is part of an mbarrier", access.wrapper, does, address));
        return;
    case Origin::Generic:
    case Origin::Async:
        break;
    }
    if (access.clock == nullptr || cell.actor == kNobody) {
        return;
    }
    if (access.clock->seen(cell.actor) < cell.time) {
        report_(text("%s: %s shared byte 0x%x written by %s, and no barrier lies between (missing bar.sync, or a wait "
                     "on an mbarrier that passed too early)",
                     access.wrapper, does, address, origin_text(cell).c_str()));
    }
    if (access.async_proxy && cell.origin == Origin::Generic && access.clock->fenced(cell.actor) < cell.time) {
        report_(text("%s: the asynchronous proxy %s shared byte 0x%x written by %s without a fence.proxy.async between",
                     access.wrapper, does, address, origin_text(cell).c_str()));
    }
}

void SharedMemory::check_readers(size_t index, Unit &unit, uint32_t mask, const Access &access)
{
    const uint32_t address = kBase + static_cast<uint32_t>(index) * kUnitBytes;
    if (unit.pending_readers != 0) {
        report_(
            text("%s: overwrites shared bytes at 0x%x while %s may still be reading them (the buffer was released too "
                 "early)%s",
                 access.wrapper, address, operation_(unit.pending_operation, false).c_str(),
                 operation_(unit.pending_operation, true).c_str()));
    }
    if (!unit.was_read) {
        return;
    }
    Reader *readers = &readers_[index * reader_slots_];
    for (size_t slot = 0; slot < reader_slots_; ++slot) {
        const Reader &reader = readers[slot];
        if ((reader.mask & mask) != 0 && access.clock != nullptr && access.clock->seen(reader.actor) < reader.time) {
            report_(text("%s: overwrites shared bytes at 0x%x that %s of %s read, and no barrier lies between (the "
                         "buffer was released too early, or a bar.sync is missing)",
                         access.wrapper, address, wrappers_[reader.wrapper], actor_(reader.actor).c_str()));
        }
    }
    if (mask == kWholeUnit) {
        unit.was_read = false;
    }
}

void SharedMemory::check_before_write(size_t index, uint32_t mask, const Access &access)
{
    Unit &unit = unit_of(index);
    const uint32_t address = kBase + static_cast<uint32_t>(index) * kUnitBytes;
    if (unit.split == 0) {
        check_cell(unit.cell, address + first_byte(mask), access, true);
    } else {
        const Cells &cells = splits_[unit.split - 1];
        for (uint32_t i = 0; i < kUnitBytes; ++i) {
            if ((mask >> i & 1) != 0) {
                check_cell(cells[i], address + i, access, true);
            }
        }
    }
    check_readers(index, unit, mask, access);
}

void SharedMemory::note_read(size_t index, Unit &unit, uint32_t mask, const Access &access, size_t reader_slot)
{
    Reader *readers = &readers_[index * reader_slots_];
    if (!unit.was_read) {
        for (size_t slot = 0; slot < reader_slots_; ++slot) {
            readers[slot].mask = 0;
        }
        unit.was_read = true;
    }
    Reader &reader = readers[reader_slot];
    const bool same = reader.mask != 0 && reader.actor == access.actor && reader.time == access.time;
    reader.mask = static_cast<uint16_t>(same ? reader.mask | mask : mask);
    reader.actor = access.actor;
    reader.time = access.time;
    reader.wrapper = wrapper_number(access.wrapper);
}

/* visit(index of the unit, mask of its bytes) for every unit that [address, address + count) touches. */
template <typename Visit> void SharedMemory::for_units(uint32_t address, uint32_t count, Visit visit)
{
    const uint32_t begin = address - kBase;
    const uint32_t end = begin + count;
    for (uint32_t unit = begin / kUnitBytes; unit * kUnitBytes < end; ++unit) {
        const uint32_t first = unit * kUnitBytes < begin ? begin % kUnitBytes : 0;
        const uint32_t last = end - unit * kUnitBytes < kUnitBytes ? end - unit * kUnitBytes : kUnitBytes;
        visit(unit, (1u << last) - (1u << first));
    }
}

void SharedMemory::read(uint32_t address, uint32_t count, const Access &access, size_t reader_slot)
{
    for_units(address, count, [&](size_t index, uint32_t mask) {
        Unit &unit = unit_of(index);
        const uint32_t place = kBase + static_cast<uint32_t>(index) * kUnitBytes;
        if (unit.split == 0) {
            check_cell(unit.cell, place + first_byte(mask), access, false);
        } else {
            const Cells &cells = splits_[unit.split - 1];
            for (uint32_t i = 0; i < kUnitBytes; ++i) {
                if ((mask >> i & 1) != 0) {
                    check_cell(cells[i], place + i, access, false);
                }
            }
        }
        note_read(index, unit, mask, access, reader_slot);
    });
}

void SharedMemory::write(uint32_t address, uint32_t count, const Access &access)
{
    Cell cell;
    cell.time = access.time;
    cell.actor = access.actor;
    cell.origin = access.async_proxy ? Origin::Async : Origin::Generic;
    cell.wrapper = wrapper_number(access.wrapper);
    for_units(address, count, [&](size_t index, uint32_t mask) {
        check_before_write(index, mask, access);
        set(unit_of(index), mask, cell);
    });
}

void SharedMemory::begin_async_write(uint32_t address, uint32_t count, const Access &access, uint32_t operation)
{
    Cell cell;
    cell.operation = operation;
    cell.origin = Origin::Pending;
    for_units(address, count, [&](size_t index, uint32_t mask) {
        check_before_write(index, mask, access);
        set(unit_of(index), mask, cell);
    });
}

void SharedMemory::end_async_write(uint32_t address, uint32_t count, uint16_t actor, uint32_t time, bool async_proxy,
                                   const char *wrapper, uint32_t operation)
{
    Cell cell;
    cell.time = time;
    cell.operation = operation;
    cell.actor = actor;
    cell.origin = async_proxy ? Origin::Async : Origin::Generic;
    cell.wrapper = wrapper_number(wrapper);
    for_units(address, count, [&](size_t index, uint32_t mask) { set(unit_of(index), mask, cell); });
}

void SharedMemory::begin_async_read(uint32_t address, uint32_t count, const Access &access, uint32_t operation)
{
    for_units(address, count, [&](size_t index, uint32_t mask) {
        Unit &unit = unit_of(index);
        const uint32_t place = kBase + static_cast<uint32_t>(index) * kUnitBytes;
        if (unit.split == 0) {
            check_cell(unit.cell, place + first_byte(mask), access, false);
        } else {
            const Cells &cells = splits_[unit.split - 1];
            for (uint32_t i = 0; i < kUnitBytes; ++i) {
                if ((mask >> i & 1) != 0) {
                    check_cell(cells[i], place + i, access, false);
                }
            }
        }
        ++unit.pending_readers;
        unit.pending_operation = operation;
    });
}

void SharedMemory::end_async_read(uint32_t address, uint32_t count, uint16_t actor, uint32_t time, const char *wrapper,
                                  size_t reader_slot)
{
    const Access access{actor, time, nullptr, wrapper, true};
    for_units(address, count, [&](size_t index, uint32_t mask) {
        Unit &unit = unit_of(index);
        --unit.pending_readers;
        note_read(index, unit, mask, access, reader_slot);
    });
}

void SharedMemory::make_barrier(uint32_t address, const Access &access)
{
    Cell cell;
    cell.time = access.time;
    cell.actor = access.actor;
    cell.origin = Origin::Barrier;
    cell.wrapper = wrapper_number(access.wrapper);
    for_units(address, 8, [&](size_t index, uint32_t mask) {
        check_before_write(index, mask, access);
        set(unit_of(index), mask, cell);
    });
}

void SharedMemory::remove_barrier(uint32_t address)
{
    for_units(address, 8, [&](size_t index, uint32_t mask) { set(unit_of(index), mask, Cell()); });
}

} // namespace emu
