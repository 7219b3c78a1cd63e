/*
 * Global memory: every tensor is a mapping of its own between pages without access, so that whatever a kernel touches outside a
 * tensor is caught, be it through a wrapper (checked here, with a precise message) or a plain pointer (a fault of the host's MMU).
 */
#ifndef GDPA_EMU_GLOBAL_MEMORY_HPP
#define GDPA_EMU_GLOBAL_MEMORY_HPP

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace emu
{

/* At which end of its pages a tensor lies: the other end has slack that only the checks of the wrappers guard. */
enum class Placement { AtStart, AtEnd };

class GlobalBuffer
{
  public:
    GlobalBuffer(std::string name, size_t bytes, size_t alignment, Placement placement);
    ~GlobalBuffer();
    GlobalBuffer(const GlobalBuffer &) = delete;
    GlobalBuffer &operator=(const GlobalBuffer &) = delete;

    const std::string &name() const
    {
        return name_;
    }
    unsigned char *data() const
    {
        return data_;
    }
    size_t bytes() const
    {
        return bytes_;
    }
    bool read_only() const
    {
        return read_only_;
    }
    /* From now on a write is a fault. */
    void make_read_only();
    /* From now on only these bytes (one flag each) may be written; what lies between them is a gap or a guard row. */
    void allow_writes(std::vector<bool> bytes);
    bool write_allowed(size_t offset, size_t bytes) const;
    /* Whether the address lies in the pages of this buffer, those without access included. */
    bool is_near(uintptr_t address) const;

  private:
    std::string name_;
    unsigned char *mapping_;
    size_t mapping_bytes_;
    unsigned char *data_;
    size_t bytes_;
    bool read_only_ = false;
    std::vector<bool> writable_;
};

class GlobalMemory
{
  public:
    GlobalBuffer &add(std::string name, size_t bytes, size_t alignment = 16, Placement placement = Placement::AtEnd);

    bool allows(uintptr_t address, size_t bytes, bool write) const;
    /* Why `bytes` bytes at an address may not be read or written; "" when they may. */
    std::string refusal(uintptr_t address, size_t bytes, bool write) const;
    /* "16 bytes behind the end of k (4096 bytes)". */
    std::string locate(uintptr_t address) const;

  private:
    const GlobalBuffer *find(uintptr_t address) const;

    std::vector<std::unique_ptr<GlobalBuffer>> buffers_;
    mutable const GlobalBuffer *latest_ = nullptr;
};

} // namespace emu

#endif
