/*
 * Global memory; see global_memory.hpp.
 */
#include "global_memory.hpp"
#include "text.hpp"

#include <cstdio>
#include <cstdlib>
#include <sys/mman.h>
#include <unistd.h>

namespace emu
{

static size_t round_up(size_t value, size_t step)
{
    return (value + step - 1) / step * step;
}

GlobalBuffer::GlobalBuffer(std::string name, size_t bytes, size_t alignment, Placement placement)
    : name_(std::move(name)), bytes_(bytes)
{
    const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    const size_t room = round_up(bytes == 0 ? 1 : bytes, page);
    mapping_bytes_ = room + 2 * page;
    void *mapping = mmap(nullptr, mapping_bytes_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapping == MAP_FAILED) {
        perror("emulator: no memory for a tensor");
        abort();
    }
    mapping_ = static_cast<unsigned char *>(mapping);
    unsigned char *first = mapping_ + page;
    if (mprotect(first, room, PROT_READ | PROT_WRITE) != 0) {
        perror("emulator: cannot open the pages of a tensor");
        abort();
    }
    const size_t shift = placement == Placement::AtStart ? 0 : (room - bytes) / alignment * alignment;
    data_ = first + shift;
}

GlobalBuffer::~GlobalBuffer()
{
    munmap(mapping_, mapping_bytes_);
}

void GlobalBuffer::make_read_only()
{
    const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    mprotect(mapping_ + page, mapping_bytes_ - 2 * page, PROT_READ);
    read_only_ = true;
}

void GlobalBuffer::allow_writes(std::vector<bool> bytes)
{
    writable_ = std::move(bytes);
}

bool GlobalBuffer::write_allowed(size_t offset, size_t bytes) const
{
    if (writable_.empty()) {
        return true;
    }
    for (size_t i = offset; i < offset + bytes; ++i) {
        if (!writable_[i]) {
            return false;
        }
    }
    return true;
}

bool GlobalBuffer::is_near(uintptr_t address) const
{
    const auto begin = reinterpret_cast<uintptr_t>(mapping_);
    return address >= begin && address < begin + mapping_bytes_;
}

GlobalBuffer &GlobalMemory::add(std::string name, size_t bytes, size_t alignment, Placement placement)
{
    buffers_.push_back(std::make_unique<GlobalBuffer>(std::move(name), bytes, alignment, placement));
    return *buffers_.back();
}

const GlobalBuffer *GlobalMemory::find(uintptr_t address) const
{
    if (latest_ != nullptr && latest_->is_near(address)) {
        return latest_;
    }
    for (const auto &buffer : buffers_) {
        if (buffer->is_near(address)) {
            latest_ = buffer.get();
            return latest_;
        }
    }
    return nullptr;
}

std::string GlobalMemory::locate(uintptr_t address) const
{
    const GlobalBuffer *near = find(address);
    const GlobalBuffer *nearest = near;
    uintptr_t distance = UINTPTR_MAX;
    for (const auto &buffer : buffers_) {
        const auto begin = reinterpret_cast<uintptr_t>(buffer->data());
        const uintptr_t end = begin + buffer->bytes();
        const uintptr_t gap = address < begin ? begin - address : address >= end ? address - end : 0;
        if (near == nullptr && gap < distance) {
            distance = gap;
            nearest = buffer.get();
        }
    }
    if (nearest == nullptr) {
        return "in no tensor";
    }
    const auto begin = reinterpret_cast<uintptr_t>(nearest->data());
    const uintptr_t end = begin + nearest->bytes();
    const char *name = nearest->name().c_str();
    if (address < begin) {
        return text("%zu bytes before the start of %s (%zu bytes)", static_cast<size_t>(begin - address), name,
                    nearest->bytes());
    }
    if (address >= end) {
        return text("%zu bytes behind the end of %s (%zu bytes)", static_cast<size_t>(address - end), name,
                    nearest->bytes());
    }
    return text("at byte %zu of %s (%zu bytes)", static_cast<size_t>(address - begin), name, nearest->bytes());
}

bool GlobalMemory::allows(uintptr_t address, size_t bytes, bool write) const
{
    const GlobalBuffer *buffer = find(address);
    if (buffer == nullptr) {
        return false;
    }
    const auto begin = reinterpret_cast<uintptr_t>(buffer->data());
    if (address < begin || address + bytes > begin + buffer->bytes()) {
        return false;
    }
    return !write || (!buffer->read_only() && buffer->write_allowed(address - begin, bytes));
}

std::string GlobalMemory::refusal(uintptr_t address, size_t bytes, bool write) const
{
    const GlobalBuffer *buffer = find(address);
    if (buffer == nullptr || address < reinterpret_cast<uintptr_t>(buffer->data()) ||
        address + bytes > reinterpret_cast<uintptr_t>(buffer->data()) + buffer->bytes()) {
        const uintptr_t worst =
            buffer != nullptr && address >= reinterpret_cast<uintptr_t>(buffer->data()) ? address + bytes - 1 : address;
        return text("%zu bytes at 0x%zx: outside every tensor, %s", bytes, static_cast<size_t>(address),
                    locate(worst).c_str());
    }
    if (!write) {
        return "";
    }
    if (buffer->read_only()) {
        return text("%zu bytes at 0x%zx: %s, which is an input and never written", bytes, static_cast<size_t>(address),
                    locate(address).c_str());
    }
    if (!buffer->write_allowed(address - reinterpret_cast<uintptr_t>(buffer->data()), bytes)) {
        return text("%zu bytes at 0x%zx: %s, in a guard row, a gap between rows or a row of no sequence", bytes,
                    static_cast<size_t>(address), locate(address).c_str());
    }
    return "";
}

} // namespace emu
